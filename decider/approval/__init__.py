"""People: calls that wait for them, what they are shown, and what their answers amount to."""
