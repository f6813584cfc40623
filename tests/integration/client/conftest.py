"""The decider's house, for the client's tests."""

from tests.integration.decider.conftest import ground, house

__all__ = ["ground", "house"]
