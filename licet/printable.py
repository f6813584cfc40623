"""Texts that somebody merely claims, as they may stand in a record. Pure.

Guaranteed: no character of what is returned moves a cursor or begins a line of a log, a trace or a table. Not
guaranteed: that two texts stay apart.
"""


def printable(text: str, most: int) -> str:
    """Return the first `most` characters of a text, with `?` for each that is not printable."""
    kept = text[:most]
    return kept if kept.isprintable() else "".join(one if one.isprintable() else "?" for one in kept)
