"""What a tool's own records say of what a prompt names: one answer, or none.

Records are what a tool keeps in fields of their own: an id, a title, a sender. Text that anybody may have
written is read for one thing alone: an address of a kind that the prompt asks for, in a document that it
names as the place to look, and only where exactly one stands there. So a text that is planted can make an
answer two, which is none; it cannot become the answer beside the true one. Whoever writes the whole document
can: that person the user chose to ask. Knows no tool, no field and no service by name.
"""

import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property
from typing import Any

from decider.task.contract import addresses_in
from tests.conformance.agentdojo_words import MONTHS, WEEKDAYS, named_by, singular, stem

EMAIL = re.compile(r"[\w.+-]+@[\w-]+(\.[\w-]+)+")
WORD = re.compile(r"[A-Za-z]+")
CAPITALISED = re.compile(r"\b[A-Z][a-z]{2,}\b")
INSIDE = re.compile(r"(?:(?<=[\w,;] )|(?<=\b[DM][rs]\. ))[A-Z][a-z]{2,}\b")
ANYBODY = frozenset([*MONTHS, *WEEKDAYS])
"""What a capital letter does not make a person: else `friday@…` need only write a letter once."""
DATE = re.compile(r"\d{4}-\d\d-\d\d")
TO_BE_FOUND = {
    "email": re.compile(r"e-?mail", re.IGNORECASE),
    "account": re.compile(r"\b(iban|account number|bill|invoice)\b", re.IGNORECASE),
}
"""What a prompt says when it sends for an address of a kind. Where it says so, the true one stands there."""
PRICE, RATING = frozenset({"price", "cost", "fee", "fare"}), frozenset({"rating", "score", "stars"})
SIZE, TIME = (
    frozenset({"size", "length", "capacity"}),
    frozenset({"date", "time", "departure", "start", "created"}),
)
MOST = {
    **dict.fromkeys(("best", "top"), RATING),
    **dict.fromkeys(("largest", "biggest"), SIZE),
    **dict.fromkeys(("latest", "newest"), TIME),
    **dict.fromkeys(("highest", "most"), frozenset[str]()),
    "priciest": PRICE,
}
LEAST = {
    "worst": RATING,
    **dict.fromkeys(("smallest",), SIZE),
    **dict.fromkeys(("earliest", "oldest", "soonest"), TIME),
    **dict.fromkeys(("lowest", "least", "fewest"), frozenset[str]()),
    "cheapest": PRICE,
}
"""What says that the first of a kind is wanted, and by which of its fields where the prompt names none."""
GROUP = re.compile(r"\b(\w+) (?:team|group|department|staff)\b")
RELATION = re.compile(r"\b(?:my|our) (\w+)\b")
EVERYONE = re.compile(r"\b(?:everyone|everybody|participants|attendees|invitees|guests)\b", re.IGNORECASE)
ANSWERED = re.compile(r"\b(?:reply|answer|respond|write back|thank)\b", re.IGNORECASE)
"""Who asks for an answer to a letter asks to write to its sender; who only names the letter does not."""
MEANT = re.compile(r"(?i:\b(?:my|our|the|this|that|his|her|their)|'s)(?=((?: [\w-]+){1,3}))")
"""What follows a word that says that a thing is meant."""
GOOD_PRICE = re.compile(r"\bbest[- ](?:priced?|value|deal|offer)\b", re.IGNORECASE)
GIVEN_BACK = re.compile(r"\b(?:refund|repay|reimburse|send back|give back|pay back|return)\b", re.IGNORECASE)
AMOUNT = re.compile(r"\d{1,9}\.\d\d\b")
NUMBER = re.compile(r"\d{1,9}(\.\d{1,4})?")
SHORT = 60
"""Characters of a field that is a name, a title or a subject."""
LEAST_NAME = 4


def spelled(name: str, low: str) -> bool:
    """Say whether a prompt in lower case has a name, as it is or as people say the name of a file."""
    spoken = re.sub(r"[-_ ]+", " ", re.sub(r"\.\w{2,5}$", "", name.lower()))
    return name.lower() in low or (len(spoken) >= LEAST_NAME and spoken in low)


class Record:
    """The plain fields of one entry, and the words that lead to it."""

    def __init__(self, path: tuple[str, ...], fields: dict[str, Any]) -> None:
        self.words = frozenset(singular(word) for part in path for word in WORD.findall(part))
        self.fields = {
            key: str(value) for key, value in fields.items() if isinstance(value, str | int | float)
        }
        self.lists = [part for part in fields.values() if isinstance(part, list)]
        self.names = tuple(self._names())
        self.addresses = tuple(self._addresses())
        self.numbers = [float(each) for each in fields.values() if type(each) in {int, float}]

    @property
    def id(self) -> str:
        """Its id, if it has one."""
        return next((text for key, text in self.fields.items() if re.fullmatch(r"id_?|.*_id", key)), "")

    def _names(self) -> Iterator[str]:
        """The short texts that it goes by."""
        for key, text in self.fields.items():
            if not re.fullmatch(r"id_?|.*_id", key) and LEAST_NAME <= len(text) <= SHORT:
                yield text

    def told(self, field: str) -> str:
        """What it says in a field, or under its name; without a field its id."""
        return self.fields.get(field) or self.fields.get("name", "") if field else self.id

    def described(self, low: str) -> int:
        """How many of its fields a prompt says, its words with single spaces between and around."""
        texts = (text for key, text in self.fields.items() if not re.fullmatch(r"id_?|.*_id|(.*_)?name", key))
        return sum(
            f" {text.lower()} " in low for text in texts if WORD.search(text) and len(text) >= LEAST_NAME
        )

    def measure(self, by: set[str]) -> float | None:
        """The one number, or time, in a field that is named for it."""
        found = [
            float(re.sub(r"\D", "", text[:16])) if DATE.match(text) else float(text)
            for key, text in self.fields.items()
            if not by.isdisjoint(stem(word) for word in WORD.findall(key))
            and (NUMBER.fullmatch(text) or DATE.match(text))
        ]
        return found[0] if len(found) == 1 else None

    @cached_property
    def called(self) -> frozenset[str]:
        """What a person is called, where it is one."""
        return frozenset(text for key, text in self.fields.items() if re.fullmatch(r"(.*_)?(name|nick)", key))

    @property
    def kinds(self) -> frozenset[str]:
        """What a person is: `husband`, `finance`; not what they are called."""
        return frozenset(text.lower() for text in self.fields.values() if text not in self.called)

    @property
    def listed(self) -> Iterator[str]:
        """The e-mail addresses in its lists: who takes part."""
        for text in (each for part in self.lists for each in part):
            if isinstance(text, str) and EMAIL.fullmatch(text):
                yield text

    def _addresses(self) -> Iterator[str]:
        """The e-mail addresses that are a field, or an element of one."""
        for text in (*self.fields.values(), *(each for part in self.lists for each in part)):
            if isinstance(text, str) and EMAIL.fullmatch(text):
                yield text


class Facts:
    """The records of a state."""

    def __init__(self, state: Any) -> None:
        self.records = list(_records(state, ()))
        self.texts = dict(_texts(state))
        self._people: dict[str, frozenset[str]] = {}

    def people(self, prompt: str) -> frozenset[str]:
        """Return the address of each person whom the prompt names, where one of that name is known."""
        if prompt not in self._people:
            self._people[prompt] = self._named(prompt)
        return self._people[prompt]

    def _named(self, prompt: str) -> frozenset[str]:
        told: dict[str, set[str]] = defaultdict(set)
        written: dict[str, set[str]] = defaultdict(set)
        for record in self.records:
            for address in record.addresses:
                for word in WORD.findall(address.partition("@")[0]):
                    if len(word) > 2:
                        written[word.lower()].add(address)
            from_one = {text for text in record.fields.values() if EMAIL.fullmatch(text)}
            whose = from_one if ANSWERED.search(prompt) else set(record.addresses)
            for name in record.names if len(whose) == 1 else ():
                if name in record.called or (ANSWERED.search(prompt) and not EMAIL.search(name)):
                    told[name.lower()] |= whose
                for word in CAPITALISED.findall(name) if name in record.called else ():
                    told[word.lower()] |= whose
        low, said = prompt.lower(), {word.lower() for word in CAPITALISED.findall(prompt)}
        inside = {word.lower() for word in INSIDE.findall(prompt)} - ANYBODY
        whole = (said & told.keys()) | (inside & written.keys())
        whole |= {name for name in told if " " in name and name in low}
        known = [told[name] | written[name] for name in whole]
        return frozenset(next(iter(of)) for of in known if len(of) == 1)

    def groups(self, prompt: str) -> frozenset[str]:
        """Return the addresses of a team that the prompt names, of "my husband", of everyone in a meeting."""
        found: set[str] = set()
        persons = [r for r in self.records if r.called and not list(r.listed) and len(set(r.addresses)) == 1]
        of = {name: [r for r in persons if name in r.kinds] for name in _said_of(prompt)}
        for word in GROUP.findall(prompt):
            found |= {address for record in of[word.lower()] for address in record.addresses}
        for word in RELATION.findall(prompt):
            found |= set(of[word.lower()][0].addresses) if len(of[word.lower()]) == 1 else set()
        if EVERYONE.search(prompt):
            low = prompt.lower()
            meant = [
                r for r in self.records if list(r.listed) and any(spelled(text, low) for text in r.names)
            ]
            found |= set(meant[0].listed) if len(meant) == 1 else set()
        return frozenset(found)

    def counterparty(self, prompt: str) -> frozenset[str]:
        """Return the account of the other side of the one record that the prompt names by its amount."""
        if not GIVEN_BACK.search(prompt):
            return frozenset()
        found: set[str] = set()
        for amount in {float(text) for text in AMOUNT.findall(prompt)}:
            equal = [r for r in self.records if amount in r.numbers]
            accounts = [kept for r in equal for text in r.fields.values() if (kept := account(text))]
            found |= set(accounts) if len(equal) == len(accounts) == 1 else set()
        return frozenset(found)

    def of_kind(self, kind: frozenset[str]) -> list["Record"]:
        """Return the records that words for such a thing lead to."""
        words = {singular(word) for one in kind for word in (one, *named_by(singular(one)))}
        return [record for record in self.records if not record.words.isdisjoint(words)]

    def reference(self, prompt: str, kind: frozenset[str]) -> frozenset[str]:
        """Return the id of the one record of a kind that the prompt says most of, by title, party or date."""
        low, dates, people = prompt.lower(), set(DATE.findall(prompt)), self.people(prompt)
        words = {stem(word) for word in WORD.findall(prompt)}
        score: dict[str, tuple[int, int]] = {}
        for record in self.of_kind(kind):
            titles = sum(spelled(text, low) for text in record.names if not DATE.match(text))
            days = any(text[:10] in dates for text in record.fields.values() if DATE.match(text))
            parties = not people.isdisjoint(record.addresses)
            if record.id and (titles or days or parties):
                shared = {
                    stem(w) for text in record.names for w in WORD.findall(text) if len(w) >= LEAST_NAME
                }
                score[record.id] = 2 * titles + days + parties, len(words & shared)
        score = score or self._alike(prompt, kind)
        best = [name for name, points in score.items() if points == max(score.values())]
        return frozenset(best) if len(best) == 1 else frozenset()

    def _alike(self, prompt: str, kind: frozenset[str]) -> dict[str, tuple[int, int]]:
        """Return the records of a kind of whose title a prompt has half of the words: `my photos`."""
        words = {stem(word) for near in MEANT.findall(prompt) for word in WORD.findall(near)}
        found: dict[str, tuple[int, int]] = {}
        for record in self.of_kind(kind):
            for text in record.names:
                title = {stem(word) for word in WORD.findall(text) if len(word) >= LEAST_NAME}
                shared = len(title & words)
                if record.id and shared and 2 * shared >= len(title) and not EMAIL.search(text):
                    found[record.id] = max(found.get(record.id, (0, 0)), (0, shared))
        return found

    def picked(self, prompt: str, kind: frozenset[str], field: str) -> frozenset[str]:
        """Return what the one record of a kind that the prompt describes says in a field, without one its id.

        Of the records of which the prompt names most fields (the town, the kitchen): the one, or the first by
        a number that it keeps in a field of its own, if the prompt wants the first. No text becomes either.
        """
        prompt = GOOD_PRICE.sub("cheapest", prompt)
        words, low = (
            {word.lower() for word in WORD.findall(prompt)},
            f" {' '.join(WORD.findall(prompt.lower()))} ",
        )
        wanted = [
            (more, by) for more, of in ((max, MOST), (min, LEAST)) for word, by in of.items() if word in words
        ]
        described = [(r.described(low), r) for r in self.of_kind(kind) if r.told(field)]
        fullest = max((count for count, _ in described), default=0)
        left = [record for count, record in described if count == fullest]
        if any(spelled(record.told(field), prompt.lower()) for _, record in described) or len(wanted) > 1:
            return frozenset()
        if wanted:
            extreme, by = wanted[0]
            least = 0 if by is SIZE else 1
            measured = {stem(word) for word in words} | ({stem("price")} if "expensive" in words else set())
            values = [
                (record.measure(measured) or record.measure({stem(w) for w in by}), record) for record in left
            ]
            known = [(value, record) for value, record in values if value is not None]
            first = extreme((value for value, _ in known), default=0.0)
            left = [record for value, record in known if value == first] if fullest >= least else []
        elif not fullest:
            return frozenset()
        return frozenset({left[0].told(field)}) if len(left) == 1 else frozenset()

    def sourced(self, prompt: str, named: frozenset[str]) -> frozenset[str]:
        """Return the address that is to be found in a document, where the prompt names both.

        One of its kind must stand there, else there is none. Web addresses are never taken from a text: to
        go where it points is what a planted text asks for.
        """
        found: set[str] = set()
        for name in named & self.texts.keys():
            for kind, words in TO_BE_FOUND.items():
                of_kind = {each for each in addresses_in(self.texts[name]) if kind_of(each) == kind}
                if len(of_kind) == 1 and words.search(prompt):
                    found |= of_kind
        return frozenset(spelling for address in found for spelling in (address, address.upper()))


def _said_of(prompt: str) -> frozenset[str]:
    return frozenset(word.lower() for word in (*GROUP.findall(prompt), *RELATION.findall(prompt)))


def account(text: str) -> str:
    """Return an account that stands alone in a text, as it is written."""
    found = [each for each in addresses_in(text) if kind_of(each) == "account"]
    return text if found and found[0].upper() == text.replace(" ", "") else ""


def kind_of(address: str) -> str:
    """Tell e-mail addresses, web addresses and accounts apart."""
    if "@" in address:
        return "email"
    return "web" if "." in address or "/" in address else "account"


def _records(state: Any, path: tuple[str, ...]) -> Iterator[Record]:
    if isinstance(state, dict):
        yield Record(path, state)
        for key, part in state.items():
            yield from _records(part, (*path, str(key)))
    elif isinstance(state, list):
        for part in state:
            yield from _records(part, path)


def _texts(state: Any) -> Iterator[tuple[str, str]]:
    """Yield documents by name: texts under a name with a dot, and those of a record that has such a name."""
    if isinstance(state, dict):
        for key, part in state.items():
            if isinstance(part, str) and "." in str(key):
                yield str(key), part
        names = [
            part
            for part in state.values()
            if isinstance(part, str) and re.fullmatch(r"[\w -]+\.\w{2,5}", part)
        ]
        long = [part for part in state.values() if isinstance(part, str) and len(part) > SHORT]
        if len(names) == 1 and long:
            yield names[0], "\n".join(long)
    for part in state.values() if isinstance(state, dict) else state if isinstance(state, list) else ():
        yield from _texts(part)


def planted(state: Any, text: str) -> Any:
    """Return a state in which `text` stands in every text that somebody may have written."""
    if isinstance(state, dict):
        return {key: planted(part, text) for key, part in state.items()}
    if isinstance(state, list):
        return [planted(part, text) for part in state]
    return f"{state} {text}" if isinstance(state, str) and " " in state else state
