"""The egress check: what secrets and personal data the arguments of a call hold.

Pure: arguments in, findings out. A finding says which rule, which kind and which field; the value itself is
never in it, nor in any message. Every text of the arguments is read in all the ways of `reading`: text
fields, integers, bytes, the keys of maps, the elements of a list one after another, and all fields together.
A call too large to be read whole has the flag `egress:unchecked`.

Not guaranteed: that a value is found in a form that `reading` does not undo, or a secret of a form that no
rule knows. A `possible` find is a number that fits, with nothing near it that says what it is.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from decider.egress.credential import credential, entropy, repeated, secret_name
from decider.egress.phone import phones
from decider.egress.reading import Bounds, Reading, Readings, bounds_of
from decider.egress.rulebook import Kind, Rule, RuleBook, packaged
from licet.call import Arguments
from licet.call.arguments import key_text
from licet.call.tree import ListValue, MapValue, Value

UNCHECKED: Final = "egress:unchecked"
"""The flag of a call that was too large, or hid too much, to be read whole."""
WHOLE: Final = "*"
"""The path of what was found only across several fields."""
FIELD_RULE: Final = "secret-field"
"""The rule of a value that looks like a credential in a field that is named for one."""
MIN_CHARACTERS: Final = 6
"""Shorter texts hold nothing that a rule looks for; together with others they are read all the same."""
MAX_TRIES: Final = 2_000
"""How many finds of one rule in one reading are checked; more, and the call is `unchecked`."""
MIN_TRIES: Final = 20
"""How many are checked in any case, so that nobody buries a secret under numbers."""
NEAR: Final = 60
"""How far from a number a word may stand that says what it is, in characters."""

_SEAM: Final = "\n"

Allowed = Mapping[str, frozenset[str]]
"""What is expected in which field: flags (`personal:email`) or kinds (`personal`), by path; `*` for any."""


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """That a rule found something in a field. Holds no value."""

    rule_id: str
    kind: Kind
    path: str

    @property
    def flag(self) -> str:
        """The risk flag, such as `secret:github-token`."""
        return f"{self.kind}:{self.rule_id}"


@dataclass(frozen=True, slots=True)
class Report:
    """What was found, each rule once for each field; `whole` says that everything was read."""

    findings: tuple[Finding, ...]
    whole: bool = True
    read_bytes: int = 0
    """How many characters were read for it, in all readings: what it cost."""

    @property
    def flags(self) -> tuple[str, ...]:
        """The risk flags: each finding's, and its kind alone, sorted."""
        flags = {finding.flag for finding in self.findings} | {str(f.kind) for f in self.findings}
        return tuple(sorted(flags if self.whole else flags | {UNCHECKED}))


def inspect(
    arguments: Arguments,
    *,
    allowed: Allowed | None = None,
    rules: RuleBook | None = None,
    bounds: Bounds | None = None,
) -> Report:
    """Return what the arguments of a call hold that may have to stay inside.

    `bounds` are those of `bounds_of` where nobody says otherwise.
    """
    readings = Readings(bounds or bounds_of(len(arguments.canonical)))
    fields: dict[str, list[str]] = {}
    for path, text in _texts((), arguments.values, readings):
        fields.setdefault(".".join(path), []).append(text)
    return _inspected(fields, allowed or {}, packaged() if rules is None else rules, readings)


def inspect_text(text: str, *, path: str = "text", rules: RuleBook | None = None) -> Report:
    """Return what one text holds."""
    return inspect_fields({path: [text]}, rules=rules)


def inspect_fields(
    fields: Mapping[str, list[str]], *, allowed: Allowed | None = None, rules: RuleBook | None = None
) -> Report:
    """Return what fields hold: texts by path, several where a field repeats."""
    readings = Readings(bounds_of(sum(len(text) for texts in fields.values() for text in texts)))
    return _inspected(fields, allowed or {}, packaged() if rules is None else rules, readings)


def _inspected(
    fields: Mapping[str, list[str]], allowed: Allowed, book: RuleBook, readings: Readings
) -> Report:
    findings: set[Finding] = set()
    for path, texts in fields.items():
        for text in texts:
            if len(text) >= MIN_CHARACTERS:
                findings |= _found(book, readings, text, path)
            if secret_name(path.rpartition(".")[2]) and credential(text):
                findings.add(Finding(FIELD_RULE, Kind.SECRET, path))
        if len(texts) > 1:
            findings |= _found(book, readings, "".join(texts), path, _SEAM.join(texts))
    if len(fields) > 1:
        texts = [text for listed in fields.values() for text in listed]
        together = _found(book, readings, "".join(texts), WHOLE, _SEAM.join(texts))
        known = {finding.rule_id for finding in findings}
        findings |= {finding for finding in together if finding.rule_id not in known}
    kept = (finding for finding in findings if not _is_allowed(finding, allowed))
    return Report(tuple(sorted(kept)), whole=not readings.cut, read_bytes=readings.read_bytes)


def is_flag(text: str) -> bool:
    """Say whether a text is a flag or a kind that the packaged rules can give."""
    kind, colon, rule_id = text.partition(":")
    if kind not in set(Kind):
        return False
    return not colon or rule_id in packaged().rule_ids or rule_id == FIELD_RULE


def _is_allowed(finding: Finding, allowed: Allowed) -> bool:
    names = allowed.get(finding.path, frozenset()) | allowed.get(WHOLE, frozenset())
    return finding.flag in names or str(finding.kind) in names


def _texts(
    path: tuple[str, ...], value: Value | Mapping[str, Value], readings: Readings
) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield every text with the path of its field; keys of a map are texts too, and never part of a path."""
    if isinstance(value, MapValue):
        for key, part in value.items():
            yield path, key_text(key)
            yield from _texts(path, part, readings)
    elif isinstance(value, Mapping):
        for name, part in value.items():
            yield from _texts((*path, key_text(name)), part, readings)
    elif isinstance(value, ListValue):
        for item in value.items:
            yield from _texts(path, item, readings)
    elif isinstance(value, bytes):
        yield from ((path, text) for text in readings.text_of(value))
    elif value is not None and not isinstance(value, bool):
        yield path, str(value)


def _found(book: RuleBook, readings: Readings, text: str, path: str, pieces: str = "") -> set[Finding]:
    findings: set[Finding] = set()
    for reading in readings.of(text, pieces):
        encoded = reading.text.encode("utf-8", "replace")
        for rule in book.worth_trying(reading.text, joined=reading.joined, path=path):
            if rule.is_phone:
                kind, whole = phones(reading.text, path)
            else:
                kind, whole = _kind(rule, reading, encoded, path, readings)
            readings.cut = readings.cut or not whole
            if kind is not None:
                findings.add(Finding(rule.rule_id, kind, path))
    sure = {finding.rule_id for finding in findings if finding.kind is not Kind.POSSIBLE}
    return {f for f in findings if f.kind is not Kind.POSSIBLE or f.rule_id not in sure}


def _kind(
    rule: Rule, reading: Reading, encoded: bytes, path: str, readings: Readings
) -> tuple[Kind | None, bool]:
    """Return how the best find of a rule is to be taken, None for no find; and whether all were checked."""
    best: Kind | None = None
    pattern, position = rule.pattern_joined if reading.joined else rule.pattern, 0
    for _ in range(min(MAX_TRIES, max(MIN_TRIES, readings.tries))):
        match = pattern.search(encoded, position)
        if match is None:
            return best, True
        readings.tries -= 1
        groups = tuple(_text(group) for group in match.groups() if group is not None)
        if _holds(rule, groups) and not (reading.joined and groups[-1] in reading.pieces):
            near = encoded[max(0, match.start() - NEAR) : match.end() + NEAR]
            if rule.words is None or rule.words.search(near) or rule.words.search(path.replace("_", " ")):
                return rule.kind, True
            best = None if rule.only_with_words else Kind.POSSIBLE
        position = match.start() + 1
    return best, False


def _text(group: bytes) -> str:
    return group.decode("utf-8", "replace")


def _holds(rule: Rule, groups: tuple[str, ...]) -> bool:
    if not groups:
        return False
    value = groups[-1]
    if rule.entropy and entropy(value) < rule.entropy:
        return False
    if rule.kind is Kind.SECRET and repeated(value):
        return False
    return rule.check(groups)
