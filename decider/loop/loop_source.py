"""Limits of loops as people write them, `loops: {same: 5}`, and as a bundle carries them. Pure."""

from dataclasses import asdict

from decider.loop.loops import MAX_ENTRIES, LoopLimits
from decider.source import Section
from licet.v1 import bundle_pb2

DEFAULTS = LoopLimits()
MAX_WINDOW_S = 86_400


def read_loops(section: Section) -> bundle_pb2.LoopLimits:
    """Return the limits of a section; what is left out has its default. Faults are noted in it."""
    message = bundle_pb2.LoopLimits()
    for name, default in asdict(DEFAULTS).items():
        high = MAX_WINDOW_S if name == "window_s" else MAX_ENTRIES
        setattr(message, name, section.integer(name, default, low=1, high=high))
    section.close()
    return message


def load_loops(bundle: bundle_pb2.Bundle) -> LoopLimits | None:
    """Return the limits of a bundle, None where it has none. Raises ValueError."""
    if not bundle.HasField("loops"):
        return None
    given = {name: getattr(bundle.loops, name) or default for name, default in asdict(DEFAULTS).items()}
    high = {name: MAX_WINDOW_S if name == "window_s" else MAX_ENTRIES for name in given}
    if any(value > high[name] for name, value in given.items()):
        raise ValueError("a limit of loops is larger than what is remembered")
    return LoopLimits(**given)
