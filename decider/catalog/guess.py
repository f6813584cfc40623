"""How dangerous a method looks: evidence from its tool's own author, none of it believed downwards.

Everything here comes from the tool: name, description, schema, annotations. A tool that lies can look
harmless, so a guess is for the tool's owner to look at and never a decision. Each piece of evidence can raise
the tier and none can lower it (which word of a name is its verb the description may help to say); MCP's
`readOnlyHint` and `idempotentHint`, which only ever speak for a tool, are not heard at all. A method
of which nothing is understood is taken for an external effect. Pure.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from decider.catalog.verbs import choice_tier, sentence_tier, verb_tier, words_of

UNKNOWN_TIER: Final = 4
WRITE_TIER: Final = 3
MONEY_TIER: Final = 4
DESTRUCTIVE_TIER: Final = 5

_FINAL: Final = re.compile(
    r"(?<!non-)(?<!not )(?<!isn't )(?<!never )\b(?:permanently|irreversibl[ey]|destructive|cannot be undone"
    r"|can(?:'|no)t be (?:undone|recovered|reverted))\b"
    r"|(?<!not )(?<!n't )(?<!without )(?<!never )(?<!avoid )\boverwrit(?:es?|ing)\b",
    re.IGNORECASE,
)
_LIVE: Final = re.compile(r"(?<!not )\b(?:in)?to (?:the )?production\b", re.IGNORECASE)
_EXECUTES: Final = re.compile(
    r"\b(?:execut(?:e|es|ing)|runs?|running|evaluat(?:e|es|ing))\s+(?:\w+\s+){0,3}?"
    r"(?:sql|code|commands?|scripts?|javascript|python|shell|bash|expressions?|programs?|quer(?:y|ies))\b",
    re.IGNORECASE,
)
_SENDS: Final = re.compile(
    r"\b(?:sends?|sending)\s+(?:an?\s+|the\s+|out\s+)?(?:\w+\s+)?(?:e-?mails?|messages?|sms|notifications?|payments?|invites?)\b"
    r"|\bauto(?:matic(?:ally)?)?[ -]repl(?:y|ies)\b",
    re.IGNORECASE,
)
_CODE: Final = frozenset(
    {"sql", "script", "command", "cmd", "shell", "bash", "javascript", "js", "powershell"}
    | {"python_code", "source_code", "code_snippet"}
)
_CODE_OR_NOT: Final = frozenset({"code", "function", "expression", "program"})
_CHOICES: Final = frozenset({"action", "operation", "method", "command", "op", "verb", "mode"})
_RECIPIENTS: Final = frozenset({"to", "cc", "bcc", "recipient", "recipients", "to_email", "to_emails"})
_CONTENT: Final = frozenset({"body", "subject", "message", "text", "content", "html"})
_SELECTORS: Final = frozenset({"selector", "xpath", "css_selector", "element_ref", "locator"})
_AMOUNTS: Final = frozenset({"amount", "amount_minor", "amount_cents", "unit_amount", "price", "total"})
_MONEY: Final = frozenset(
    {"refund", "refunds", "payment", "payments", "payout", "payouts", "charge", "charges", "transfer"}
    | {"transfers", "withdrawal", "invoice", "invoices", "purchase", "wallet"}
)
_RIGHTS: Final = frozenset(
    {
        "permission",
        "permissions",
        "privilege",
        "privileges",
        "iam",
        "rbac",
        "acl",
        "acls",
        "owner",
        "ownership",
    }
    | {"admin", "administrator", "admins", "mfa", "2fa", "sso", "credential", "credentials", "collaborator"}
    | {"collaborators", "role", "roles", "firewall", "sudoers", "authorization", "apikey"}
    | {"policy", "policies"}
)
"""What a tool that writes changes rights by."""
_WATCH: Final = frozenset(
    {"logging", "audit", "alarm", "alarms", "backup", "backups", "protection", "encryption", "monitoring"}
)
_ALERTS: Final = frozenset({"alert", "alerts", "monitor", "monitors", "alarm", "alarms"})
_QUIET: Final = frozenset({"disable", "stop", "pause", "mute", "silence", "snooze", "suppress"})
_PAGES: Final = frozenset({"browser", "puppeteer", "playwright", "selenium", "webdriver"})
"""Acting in a browser: what follows is for the page to decide."""
_HOUSE: Final = frozenset({"helm", "kubectl", "terraform", "pulumi", "ansible", "cluster", "namespace"})
"""Tools and things by which a write changes what all others run on."""
MAX_LOOKED_AT: Final = 16_384
"""How much of a description is looked at, in characters."""


@dataclass(frozen=True, slots=True)
class Guess:
    """A tier, and why: the evidence that made it so high, in plain words of ours."""

    tier: int
    why: str


def guess_tool(
    name: str, *, title: str = "", description: str = "", schema: Any = None, annotations: Any = None
) -> Guess:
    """Return the tier that everything known of an MCP tool suggests."""
    said = sentence_tier(description)
    named = _words(name, title, said)
    found = [(tier, why) for tier, why in ((named, "name"), (said, "description")) if tier is not None]
    if not found:
        found = [(UNKNOWN_TIER, "no verb that is known")]
    found.extend(_described(description[:MAX_LOOKED_AT]))
    writes = max(tier for tier, _ in found) > 1
    if writes and not _MONEY.isdisjoint(words_of(name)):
        found.append((MONEY_TIER, "name: money"))
    if writes and (why := _power(words_of(name))):
        found.append((DESTRUCTIVE_TIER, f"name: {why}"))
    if writes and _LIVE.search(description[:MAX_LOOKED_AT]):
        found.append((DESTRUCTIVE_TIER, "description: it changes what is in production"))
    found.extend(_asked(schema, writes=writes, text=f"{name} {description}"))
    found.extend(_hinted(annotations))
    return Guess(*max(found, key=lambda pair: pair[0]))


def _power(words: tuple[str, ...]) -> str:
    """Say what a name speaks of that makes any write dangerous; nothing for nothing."""
    if not _RIGHTS.isdisjoint(words) or any(
        pair in {("access", "key"), ("api", "key"), ("access", "list")} for pair in pairwise(words)
    ):
        return "rights"
    if not _WATCH.isdisjoint(words) and not {"disable", "stop", "pause", "update"}.isdisjoint(words):
        return "what watches"
    if not _ALERTS.isdisjoint(words) and not _QUIET.isdisjoint(words):
        return "what watches"
    if not _PAGES.isdisjoint(words) and "resize" not in words:
        return "acts in a browser"
    return "" if _HOUSE.isdisjoint(words) else "what others run on"


def _words(name: str, title: str, said: int | None) -> int | None:
    named = verb_tier(words_of(name), said)
    return named if named is not None else verb_tier(words_of(title))


def _described(description: str) -> Iterator[tuple[int, str]]:
    if _FINAL.search(description):
        yield DESTRUCTIVE_TIER, "description: what it does is final"
    if _EXECUTES.search(description):
        yield DESTRUCTIVE_TIER, "description: it executes what it is given"
    if _SENDS.search(description):
        yield UNKNOWN_TIER, "description: it sends something"


def _asked(schema: Any, *, writes: bool, text: str) -> Iterator[tuple[int, str]]:
    """Yield what the properties of the arguments suggest."""
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    if not isinstance(properties, Mapping):
        return
    names = {name.lower() for name in properties}
    for name, part in properties.items():
        if name.lower() in _CHOICES and isinstance(part, Mapping) and isinstance(part.get("enum"), list):
            tiers = [choice_tier(value) for value in part["enum"] if isinstance(value, str)]
            known = [tier for tier in tiers if tier is not None]
            if known:
                yield max(known), f"argument `{name}`: the most dangerous choice"
    runs = names & _CODE or (names & _CODE_OR_NOT and _EXECUTES.search(text))
    if runs:
        yield DESTRUCTIVE_TIER, "arguments: it is given code"
    if writes and names & _SELECTORS:
        yield DESTRUCTIVE_TIER, "arguments: it acts on an element of a page, which decides what happens"
    if writes and names & _RECIPIENTS and names & _CONTENT:
        yield UNKNOWN_TIER, "arguments: recipients and something to tell them"
    if writes and names & _AMOUNTS and any(name.startswith("currency") for name in names):
        yield MONEY_TIER, "arguments: money"


def _hinted(annotations: Any) -> Iterator[tuple[int, str]]:
    """Yield what the tool says against itself; what it says for itself is a claim."""
    if not isinstance(annotations, Mapping):
        return
    if annotations.get("destructiveHint") is True and annotations.get("readOnlyHint") is not True:
        yield DESTRUCTIVE_TIER, "annotation destructiveHint"
    if annotations.get("readOnlyHint") is False:
        yield WRITE_TIER, "annotation readOnlyHint is false"
