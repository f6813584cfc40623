"""What a decision *is*: its bytes, its checks and its records, and what agents and tools import to take part.

The modules that decide are pure: they get the time, the keys and the nonces as arguments and return a value.
The sub-packages `licet.client`, `licet.guard` and `licet.journal` are the thin shells that touch the world.
"""

from importlib.metadata import version
from typing import Final

__version__: Final = version("licet")
"""The version of the installed distribution, one for `licet`, `decider`, `sidecar` and `audit`."""
