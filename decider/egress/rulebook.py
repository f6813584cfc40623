"""The rules of the egress check: read from their YAML text, every pattern compiled by RE2.

Guarantees: no pattern needs more than linear time; a rule that names an unknown check, an unknown key or a
pattern that RE2 does not take refuses the whole file (`ValueError`): a rule that cannot work must not look
as if it did.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any, Final

import re2
import yaml

from decider.egress import checksum, credential

RULES_VERSION: Final = 1
PACKAGED: Final = ("rules.yaml", "providers.yaml", "numbers.yaml")
"""The files of rules that licet brings along."""

NAMES: Final = r"[A-Za-z0-9_.\- ]{0,40}"
ASSIGNS: Final = r"[\"'`\]]{0,2}\s{0,5}(?:[:=?|!]{1,4}>?|=>|,|>)\s{0,5}[@\"'`(<]{0,2}"
_BOUNDS: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        "word": (r"(?:^|[^A-Za-z0-9_])", r"(?:$|[^A-Za-z0-9_-])"),
        "number": (r"(?:^|[^A-Za-z0-9])", r"(?:$|[^A-Za-z0-9])"),
        "azure": (r"(?:^|[^A-Za-z0-9_~.-])", r"(?:$|[^A-Za-z0-9_~.-])"),
        "ip": (r"(?:^|[^A-Za-z0-9.:/]|(?:^|[^A-Za-z])/)", r"(?:$|[^A-Za-z0-9.:]|[.:](?:$|[^A-Za-z0-9.:]))"),
        "mac": (r"(?:^|[^A-Za-z0-9.:-])", r"(?:$|[^A-Za-z0-9.:-]|[.:-](?:$|[^A-Za-z0-9.:-]))"),
        "free": ("", ""),
    }
)
_KEYS: Final = frozenset(
    {"id", "pattern", "names", "value", "hints", "bound", "entropy", "joined", "check", "words"}
    | {"only_with_words"}
)
_MIN_CASED_NAME: Final = 4
_RULE_ID: Final = re.compile(r"[a-z0-9_-]{2,40}\Z")
_DIGITS: Final = re.compile(
    r"(?:[0-9][^0-9]{0,3}){4}|[0-9A-Fa-f:]{2}:[0-9A-Fa-f:]|::"
    r"|[A-Za-z][- ]?[0-9]{1,3}[- ]?[A-Za-z]|[0-9][A-Z]{2}"
)
"""What a text must have before the numbers that people bear are looked for."""
PHONE: Final = "phone"
"""The check that finds by itself: telephone numbers have no one pattern."""


class Kind(StrEnum):
    """How a find is to be taken."""

    SECRET = "secret"  # noqa: S105 - a word, not a secret
    PERSONAL = "personal"
    POSSIBLE = "possible"
    """A number that may be personal, with nothing near it that says so."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One thing to look for."""

    rule_id: str
    kind: Kind
    pattern: Any
    pattern_joined: Any
    """Without bounds: in a joined reading words have run together."""
    hints: tuple[str, ...]
    check: Callable[[tuple[str, ...]], bool]
    entropy: float
    joined: bool
    words: Any
    only_with_words: bool
    is_phone: bool = False


@dataclass(frozen=True, slots=True)
class RuleBook:
    """Every rule of a file; made by `read_rules`."""

    rules: tuple[Rule, ...]
    _by_hint: tuple[tuple[str, tuple[Rule, ...]], ...]
    _always: tuple[Rule, ...]
    _numbers: tuple[Rule, ...]

    def worth_trying(self, text: str, *, joined: bool, path: str = "") -> Iterator[Rule]:
        """Yield the rules that may find something: one of their hints occurs, or they have none.

        A rule that needs a word near, in the text or the field's name, has its words for hints.
        """
        lowered = f"{text}\n{path.replace('_', ' ')}".lower()
        tried: set[int] = set()
        for hint, rules in self._by_hint:
            if hint in lowered:
                for rule in rules:
                    if id(rule) not in tried and (rule.joined or not joined):
                        tried.add(id(rule))
                        yield rule
        if not joined:
            yield from self._always
            if _DIGITS.search(text):
                yield from self._numbers

    @property
    def rule_ids(self) -> tuple[str, ...]:
        """The ids, sorted, each once."""
        return tuple(sorted({rule.rule_id for rule in self.rules}))


def read_rules(*texts: str) -> RuleBook:
    """Read rule files as one book. Raises ValueError naming the rule that is at fault."""
    rules = tuple(_rule(kind, entry) for text in texts for kind, entry in _entries(text))
    by_hint: dict[str, list[Rule]] = {}
    for rule in rules:
        for hint in rule.hints:
            by_hint.setdefault(hint, []).append(rule)
    bare = tuple(rule for rule in rules if not rule.hints)
    numbers = tuple(rule for rule in bare if rule.kind is Kind.PERSONAL)
    return RuleBook(
        rules,
        tuple((hint, tuple(listed)) for hint, listed in by_hint.items()),
        tuple(rule for rule in bare if rule not in numbers),
        numbers,
    )


@cache
def packaged() -> RuleBook:
    """Return the rules that licet brings along; read once."""
    return read_rules(*(files("decider.egress").joinpath(name).read_text("utf-8") for name in PACKAGED))


def _entries(text: str) -> Iterator[tuple[Kind, dict[str, Any]]]:
    """Yield the rules of a file; `check` at its head is that of its secrets that name none."""
    source = yaml.safe_load(text)
    if not isinstance(source, dict) or source.get("version") != RULES_VERSION:
        raise ValueError(f"egress rules: `version: {RULES_VERSION}` is missing")
    check = source.get("check", "not_placeholder")
    yield from ((Kind.SECRET, {"check": check} | entry) for entry in source.get("secrets", ()))
    yield from ((Kind.PERSONAL, entry) for entry in source.get("personal", ()))


def _rule(kind: Kind, entry: dict[str, Any]) -> Rule:
    name = str(entry.get("id"))
    unknown = sorted(entry.keys() - _KEYS)
    if unknown or not _RULE_ID.match(name):
        raise ValueError(f"egress rule `{name}`: unknown key or bad id {unknown}")
    check = str(entry.get("check", "any"))
    words = entry.get("words")
    return Rule(
        rule_id=name,
        kind=kind,
        pattern=None if check == PHONE else _compiled(name, _pattern(kind, entry)),
        pattern_joined=None if check == PHONE else _compiled(name, _pattern(kind, entry | {"bound": False})),
        hints=tuple(str(hint).lower() for hint in _hints(entry, words)),
        check=_check(name, kind, check),
        entropy=float(entry.get("entropy", 0)),
        joined=bool(entry.get("joined", "names" not in entry)) and kind is Kind.SECRET,
        words=_compiled(name, _words(words)) if words else None,
        only_with_words=bool(entry.get("only_with_words", False)),
        is_phone=check == PHONE,
    )


def _hints(entry: Mapping[str, Any], words: list[str] | None) -> list[str]:
    needed = words if words and entry.get("only_with_words") else []
    return entry.get("hints") or entry.get("names") or needed


def _pattern(kind: Kind, entry: Mapping[str, Any]) -> str:
    if "names" in entry:
        return _assigned(entry["names"], entry["value"])
    pattern = entry["pattern"]
    grouped = re.search(r"(?<!\\)\((?!\?)", pattern)
    bound = entry.get("bound", "word" if kind is Kind.SECRET else "number")
    before, after = _BOUNDS["free" if bound is False else str(bound)]
    return f"{before}(?:{pattern}){after}" if grouped else f"{before}({pattern}){after}"


def _assigned(names: list[str], value: str) -> str:
    """Return the pattern of a value that is assigned to something with one of these names."""
    begun = "|".join(re.escape(name) for name in names)
    cased = [
        cased for name in names if len(name) >= _MIN_CASED_NAME for cased in (name.title(), name.upper())
    ]
    inside = "|".join(re.escape(name) for name in cased)
    name = rf"(?:(?:^|[^A-Za-z])(?i:{begun})" + (f"|{inside})" if inside else ")")
    return rf"{name}{NAMES}{ASSIGNS}({value})(?:$|[^A-Za-z0-9_/+-])"


def _words(words: list[str]) -> str:
    return rf"(?i)(?:^|[^a-z])(?:{'|'.join(re.escape(word) for word in words)})"


def _compiled(name: str, pattern: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        raise ValueError(f"egress rule `{name}`: not a pattern RE2 takes: {error}") from error


def _check(name: str, kind: Kind, check: str) -> Callable[[tuple[str, ...]], bool]:
    if kind is Kind.SECRET:
        known = credential.CHECKS.get(check)
        if known is None:
            raise ValueError(f"egress rule `{name}`: no check is called `{check}`")
        return known
    number = checksum.named("any" if check == PHONE else check)
    if number is None:
        raise ValueError(f"egress rule `{name}`: no check is called `{check}`")
    return lambda groups: number(groups[-1])
