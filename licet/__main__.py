"""`python -m licet` is the `licet` command."""

from licet.cli import main

main()
