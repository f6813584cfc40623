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
from typing import Any

from decider.task.contract import addresses_in

EMAIL = re.compile(r"[\w.+-]+@[\w-]+(\.[\w-]+)+")
WORD = re.compile(r"[A-Za-z]+")
CAPITALISED = re.compile(r"\b[A-Z][a-z]{2,}\b")
DATE = re.compile(r"\d{4}-\d\d-\d\d")
TO_BE_FOUND = {
    "email": re.compile(r"e-?mail", re.IGNORECASE),
    "account": re.compile(r"\b(iban|account number|bill|invoice)\b", re.IGNORECASE),
}
"""What a prompt says when it sends for an address of a kind. Where it says so, the true one stands there."""
MOST = frozenset({"best", "highest", "most", "top", "priciest"})
LEAST = frozenset({"cheapest", "lowest", "least", "worst"})
NUMBER = re.compile(r"\d{1,9}(\.\d{1,4})?")
SHORT = 60
"""Characters of a field that is a name, a title or a subject."""
LEAST_NAME = 4


def singular(word: str) -> str:
    """Return a word of a collection or a tool's name without its plural."""
    return word.lower().removesuffix("s")


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

    @property
    def id(self) -> str:
        """Its id, if it has one."""
        return next((text for key, text in self.fields.items() if re.fullmatch(r"id_?|.*_id", key)), "")

    @property
    def names(self) -> Iterator[str]:
        """The short texts that it goes by."""
        for key, text in self.fields.items():
            if not re.fullmatch(r"id_?|.*_id", key) and LEAST_NAME <= len(text) <= SHORT:
                yield text

    @property
    def addresses(self) -> Iterator[str]:
        """The e-mail addresses that are a field, or an element of one."""
        for text in (*self.fields.values(), *(each for part in self.lists for each in part)):
            if isinstance(text, str) and EMAIL.fullmatch(text):
                yield text


class Facts:
    """The records of a state."""

    def __init__(self, state: Any) -> None:
        self.records = list(_records(state, ()))
        self.texts = dict(_texts(state))

    def people(self, prompt: str) -> frozenset[str]:
        """Return the address of each person whom the prompt names, where one of that name is known."""
        of: dict[str, set[str]] = defaultdict(set)
        for record in self.records:
            own = [text for text in record.names if not EMAIL.search(text)]
            for address in record.addresses:
                local = [word for word in WORD.findall(address.partition("@")[0]) if len(word) > 2]
                for name in (*local, *(own if len(set(record.addresses)) == 1 else ())):
                    of[name.lower()].add(address)
        said = {word.lower() for word in CAPITALISED.findall(prompt)}
        whole = {name for name in of if " " in name and name in prompt.lower()}
        return frozenset(next(iter(of[name])) for name in (said & of.keys()) | whole if len(of[name]) == 1)

    def reference(self, prompt: str, kind: frozenset[str]) -> frozenset[str]:
        """Return the id of the one record of a kind that the prompt says most of, by title, party or date."""
        low, dates = prompt.lower(), set(DATE.findall(prompt))
        score: dict[str, int] = {}
        for record in self.records:
            if not record.id or record.words.isdisjoint(map(singular, kind)):
                continue
            titles = sum(spelled(text, low) for text in record.names if not DATE.match(text))
            days = sum(text[:10] in dates for text in record.fields.values() if DATE.match(text))
            if titles or days:
                score[record.id] = 2 * titles + min(days, 1)
        best = [name for name, points in score.items() if points == max(score.values())]
        return frozenset(best) if len(best) == 1 else frozenset()

    def first(self, prompt: str, kind: frozenset[str]) -> frozenset[str]:
        """Return the name of the one record of a kind that has most, or least, of what the prompt says.

        Only among those of which another field is named by the prompt (the city), and only by a number that
        the record keeps in a field of its own: no text can become the first.
        """
        words = {word.lower() for word in WORD.findall(prompt)}
        most = not words.isdisjoint(MOST)
        if most != words.isdisjoint(LEAST):
            return frozenset()
        measured = {"price"} if words & {"cheapest", "priciest"} else words
        found: dict[str, float] = {}
        for record in self.records:
            name = record.fields.get("name", "")
            others = [
                text for key, text in record.fields.items() if key != "name" and len(text) >= LEAST_NAME
            ]
            if not name or record.words.isdisjoint(map(singular, kind)):
                continue
            if any(text.isalpha() and text.lower() in words for text in others):
                numbers = [
                    float(text)
                    for key, text in record.fields.items()
                    if not measured.isdisjoint(WORD.findall(key.lower())) and NUMBER.fullmatch(text)
                ]
                found |= {name: numbers[0]} if len(numbers) == 1 else {}
        extreme = (max if most else min)(found.values(), default=0.0)
        best = [name for name, number in found.items() if number == extreme]
        return frozenset(best) if len(best) == 1 else frozenset()

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
