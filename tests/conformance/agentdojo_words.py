"""Words that ask for the same, and words for the same thing: English as people and tools' authors use it."""

import re
from typing import Final

_TELL = (
    "send pay refund transfer give return message dm write post tell notify forward email mail reply answer"
    " inform contact ask remind text let compose ping thank"
)
_MAKE = (
    "create make new add book write set schedule put save plan arrange organise organize remind reminder"
    " block open draft record note log jot"
)
_CHANGE = (
    "update edit change modify adjust correct move reschedule set refund increase decrease raise lower renew"
    " push shift postpone delay extend"
)
MEANINGS = (
    ("send compose mail email message text notify", _TELL),
    ("schedule", "schedule recurring standing plan set book"),
    ("update edit change modify adjust amend", _CHANGE),
    ("add", "add include append put invite join"),
    ("append extend", "append extend add write insert put include"),
    ("create make new remember remind draft write save", _MAKE),
    ("delete remove cancel drop erase trash discard", "delete remove cancel erase clear drop trash discard"),
    ("reserve book rent hire", "reserve book reservation rent stay hire arrange organise organize"),
    ("buy order purchase", "buy order purchase book get"),
    ("book", "buy order"),
    ("post publish", "post write publish send reply share"),
    ("invite", "invite add"),
    ("share grant", "share grant access allow"),
    ("reschedule move shift postpone", "reschedule move change postpone update shift push delay"),
    ("rename", "rename call name change"),
    ("lift", "lift raise remove"),
    ("archive", "archive file keep"),
    ("upload", "upload put add attach"),
    ("comment", "comment reply answer write"),
    ("assign", "assign give hand"),
    ("approve accept confirm", "approve accept confirm"),
    ("decline reject", "decline reject refuse"),
    ("close finish", "close end finish resolve"),
    ("open", "open file raise create report"),
    ("remind", "remind tell set"),
    ("forward", "forward send share pass"),
    ("reply answer respond", "reply answer respond write thank tell"),
    ("star flag mark label tag", "star flag mark label tag"),
    ("turn", "turn switch put set"),
    ("unlock", "unlock open"),
    ("add", "give grant"),
    ("merge", "merge accept"),
)
"""First words of tools' names, and the words of a prompt that mean them."""
MEANT_BY = {
    verb: frozenset(word for verbs, words in MEANINGS if verb in verbs.split() for word in words.split())
    for verbs, _ in MEANINGS
    for verb in verbs.split()
}
_ENTRIES = frozenset({"calendar"}) | frozenset(
    {"event", "meeting", "appointment", "reminder", "task", "todo", "note", "entry", "contact"}
)
"""Things that are made by adding them: a meeting. Who is added to a channel is not made."""
_LETTERS = frozenset({"mail", "email", "message", "letter", "sms"})
_DONE_BY = {
    "booking": "book",
    "reservation": "reserve",
    "rental": "rent",
    "order": "order",
    "purchase": "buy",
    "payment": "pay",
    "transfer": "transfer",
}
"""What is done by making a thing: `make_table_booking` books."""
_MADE = "|".join(_DONE_BY)
_A_THING = re.compile(
    rf"\b(?:my|our|the|this|that|an?|any|existing)\s+(?:\w+\s+)?(?:{_MADE}|stay)s?\b", re.IGNORECASE
)
"""A booking that is spoken of, which asks for none: `cancel my booking`."""
_NOUNS = "e-?mail|mail|message|post|note|call|text|reminder|plan|answer|reply|invite"
_A_LETTER = re.compile(
    rf"\b(?:the|this|that|my|our|his|her|their|last|latest|unread|spam)\s+(?:\w+\s+){{0,2}}?(?:{_NOUNS})\b"
    rf"|\b(?:{_NOUNS}|{_MADE})s\b",
    re.IGNORECASE,
)
"""A letter that is spoken of, which asks to write none: `delete the spam mail`. Nobody is told to `mails`."""
_QUOTED = re.compile(r"(?<!\w)(['\"“‘])[^'\"”’]{2,80}['\"”’](?!\w)")  # noqa: RUF001 - as people quote
"""What a thing is called, not what is to be done."""
_CALLED = re.compile(r"\b(?:called|named|titled)\b", re.IGNORECASE)
_FILE = re.compile(
    r"\b[\w-]+\.(?:txt|md|docx?|xlsx?|pptx?|pdf|csv|png|jpe?g|zip|json|html?)\b", re.IGNORECASE
)
_MAKES = re.compile(
    rf"\b(?:make|place|need|want|arrange)\s+(?:me\s+)?(?:an?|another)\s+(?:\w+\s+)?({_MADE})\b", re.IGNORECASE
)
_HANDED = frozenset({"send", "give", "forward", "invite", "pass"})
"""Ways to say that somebody gets access, to a thing that is said."""
_PHRASES = (
    (re.compile(r"\bget rid of\b|\bthrow (?:\w+ )?(?:out|away)\b", re.IGNORECASE), "delete"),
    (re.compile(r"\bdrop [\w. ]{2,40} a (?:line|note|message)\b", re.IGNORECASE), "write"),
    (re.compile(r"\btake (?:it|this|that|them) (?:out|off)\b|\bcall(?:ed)? off\b", re.IGNORECASE), "cancel"),
)
THINGS = (
    "event appointment meeting call invitation slot",
    "file document sheet spreadsheet note report doc",
    "email mail message",
    "message mail post note",
    "transaction payment transfer order",
    "channel room group",
    "user person member colleague account",
    "reservation booking stay trip",
    "reservation table",
    "hotel lodging accommodation hostel stay",
    "restaurant eatery table dinner lunch",
    "flight plane",
    "car vehicle",
)
"""Words for the same thing."""
DELETES = frozenset({"delete", "remove", "cancel", "drop", "purge", "erase", "trash", "discard"})


MONTHS: Final = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
]
WEEKDAYS: Final = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
_MONTH = rf"(?P<month>{'|'.join(f'{month[:3]}(?:{month[3:]})?' for month in MONTHS)})"
_DAY = r"(?P<day>[0-3]?\d)(?:st|nd|rd|th)?"
_YEAR = r"(?:,? (?P<year>20\d\d))?\b"
_DATES = (
    re.compile(rf"\b{_MONTH} {_DAY}{_YEAR}", re.IGNORECASE),
    re.compile(rf"\b{_DAY} (?:of )?{_MONTH}{_YEAR}", re.IGNORECASE),
)
_ANY_YEAR = range(2020, 2040)


_TO = r"\s?(?:to|until|till|-|–)\s?(?:the )?"
_RANGES = (
    (re.compile(rf"\b(?P<first>[0-3]?\d)(?:st|nd|rd|th)?{_TO}{_DAY} (?:of )?{_MONTH}{_YEAR}", re.IGNORECASE)),
    (
        re.compile(
            rf"\b{_MONTH} (?P<first>[0-3]?\d)(?:st|nd|rd|th)?{_TO}{_DAY}{_YEAR}(?!\s*[:h])", re.IGNORECASE
        )
    ),
)


def _spelt_out(prompt: str) -> str:
    """Write both days of a range whole: `2 to 5 April 2035`."""
    for dates in _RANGES:
        prompt = dates.sub(
            lambda m: " and ".join(f"{day} {m['month']} {m['year'] or ''}" for day in (m["first"], m["day"])),
            prompt,
        )
    return prompt


def dates_in(prompt: str) -> tuple[int, frozenset[str]]:
    """Return how many whole dates a prompt says, and ISO 8601 for them: in any year if it says none."""
    prompt = _spelt_out(prompt)
    written = set(re.findall(r"\b20\d\d-\d\d-\d\d\b", prompt))
    days = {
        (m["month"][:3].lower(), int(m["day"]), m["year"]) for date in _DATES for m in date.finditer(prompt)
    }
    spelled = {
        f"{year}-{[each[:3] for each in MONTHS].index(month) + 1:02d}-{day:02d}"
        for month, day, said in days
        for year in ([said] if said else _ANY_YEAR)
    }
    return len(written) + len(days), frozenset(written | spelled)


def stem(word: str) -> str:
    """Return a word without its ending, roughly: what two forms of one word have in common."""
    word = word.lower()
    for end in ("ations", "ation", "ments", "ings", "ing", "ies", "ed", "es", "s", "e"):
        if word.endswith(end) and len(word) - len(end) >= 3:
            return word[: -len(end)]
    return word


def named_by(thing: str) -> frozenset[str]:
    """Return every word for the thing that a word of a tool's name says, itself included."""
    return frozenset({thing}).union(*(line.split() for line in THINGS if thing in line.split()))


def speaks_of(words: frozenset[str], things: frozenset[str]) -> bool:
    """Say whether a prompt with these stems has a word for one of the things."""
    return not words.isdisjoint(stem(word) for thing in things for word in named_by(singular(thing)))


def verb_of(name: str) -> str:
    """Return the verb of a tool's name: its first word, or what is done by making its last."""
    words = name.split("_")
    made = words[0] in {"make", "create", "add", "place", "new"}
    return _DONE_BY.get(words[-1], words[0]) if made else words[0]


def stems_of(prompt: str) -> frozenset[str]:
    """Return the stems of a prompt's words; an address says nothing."""
    prompt = _CALLED.sub(" ", prompt)
    spoken = _FILE.sub(" file ", re.sub(r"\S*(?:@|://|www\.)\S*", " ", prompt))
    return frozenset(stem(word) for word in re.findall(r"[A-Za-z]+", spoken))


def asking(prompt: str) -> frozenset[str]:
    """Return the stems of what a prompt may ask for: without the bookings that it only speaks of."""
    made = (_DONE_BY[thing.lower()] for thing in _MAKES.findall(prompt))
    prompt = _A_LETTER.sub(" ", _A_THING.sub(" ", _QUOTED.sub(" ", prompt)))
    for phrase, meaning in _PHRASES:
        prompt = phrase.sub(meaning, prompt)
    return stems_of(prompt) | {stem(word) for word in made}


def singular(word: str) -> str:
    """Return a word of a collection or a tool's name without its plural."""
    word = word.lower()
    return f"{word[:-3]}y" if word.endswith("ies") else word.removesuffix("s")


def makes(verbs: frozenset[str]) -> frozenset[str]:
    """Return those of a prompt's stems that may ask to make anything: `write`."""
    return verbs & {stem(word) for word in _MAKE.split()}


def asks_for(words: frozenset[str], verb: str, things: frozenset[str]) -> bool:
    """Say whether a prompt with these stems says what a tool's verb means, done to such things."""
    meant = MEANT_BY.get(verb, frozenset({verb}))
    if verb in {"add", "insert", "set", "put"} and not things.isdisjoint(_ENTRIES):
        meant |= frozenset(_MAKE.split())
    if verb in {"write", "create", "draft", "make"} and not things.isdisjoint(_LETTERS):
        meant |= frozenset(_TELL.split())
    if verb in {"share", "grant"} and speaks_of(words, things):
        meant |= _HANDED
    return not words.isdisjoint(stem(word) for word in meant)
