"""The registry of delegations, and the command that hands authority down."""
