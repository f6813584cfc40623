"""Patterns of the catalog, by RE2: a whole text matches or not, in time that grows with its length alone."""

from collections.abc import Callable
from functools import lru_cache
from typing import Final

import re2

_MAX_MEMORY: Final = 1 << 20


class PatternError(ValueError):
    """A pattern that RE2 does not take; `str()` says why."""


@lru_cache(maxsize=4_096)
def compile_pattern(pattern: str) -> Callable[[str], bool]:
    """Return what tells whether a whole text matches; raises PatternError."""
    options = re2.Options()
    options.max_mem = _MAX_MEMORY
    options.log_errors = False
    try:
        compiled = re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0] if error.args else ""
        shown = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        raise PatternError(f"is no RE2 pattern: {' '.join(shown.split())[:200]}") from error
    return lambda text: compiled.fullmatch(text) is not None
