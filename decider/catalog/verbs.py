"""What words suggest of an effect: the verbs of method names, and how to find the one that counts.

The list is of English verbs that interfaces use, not of any one interface; whatever else is known of a method
can only raise what its verb suggests. Pure.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import dropwhile, pairwise
from typing import Final

_VERBS: Final = """
1 get list search find read describe query lookup fetch count check preview estimate validate show view browse
1 retrieve inspect examine explain summarize summarise analyze analyse compare diff stat ping echo help tail
1 head peek scan verify translate convert parse extract measure monitor watch observe trace calculate
1 compute detect identify recommend rank sort filter display report tell answer ask look discover enumerate
1 wait sleep screenshot snapshot capture return provide render profile audit lint download export obtain
1 collect gather aggregate whoami poll track review crawl scrape transcribe geocode paginate
2 draft propose simulate plan suggest prepare compose outline
3 create add update set edit rename assign tag move archive enable disable put patch save upsert insert modify
3 append attach write copy clone fork duplicate register unsubscribe follow star pin unpin mark
3 toggle configure change replace increment decrement label comment close reopen lock upload
3 import sync merge commit push schedule cancel link unlink join leave restore undo resize crop
3 select customize adjust annotate unassign request
3 accept decline approve reject resolve store record remember make build generate define open start begin
3 stop pause resume use switch connect disconnect log login logout complete finish unstar unfollow
3 arm vote rate mute unmute silence acknowledge ack reschedule allocate deallocate encrypt decrypt compress
3 decompress unzip zip increase decrease raise lower stage unstage provision favorite favourite bookmark hide
3 unhide reorder deactivate activate enqueue
3 go react dismiss snooze transition promote transform refine
4 send email mail notify publish post message sms call dial tweet broadcast forward pay charge refund transfer
4 withdraw purchase buy order book invoice share invite dispatch emit announce checkout trigger subscribe
4 escalate submit reply unlock mint stake unstake bridge swap donate bid sell trade tip ring fax print speak
4 respond rsvp request deposit lend borrow hire enroll nudge remit
5 delete remove drop purge destroy wipe erase grant revoke reset terminate shutdown rotate exec execute run
5 eval evaluate deploy rollback impersonate kill truncate uninstall unpublish expire invalidate ban block
5 overwrite clear empty trash discard flush invoke apply scale restart reboot drain cordon install prune
5 kick eject expel evict elevate format decommission vacuum dissolve nuke shred demolish reimage teardown
5 obliterate sudo nullify scrub forget deprovision defragment unenroll quarantine suspend void
5 force unregister detach manage administer shell migrate
5 retry rerun relaunch launch chmod chown disarm
5 click hover drag press tap swipe navigate fill type scroll
"""
"""Tier, and the verbs that suggest it.

Acting in a user interface (`click`) stands with executing: what follows is for the page to decide.
"""

TIERS: Final[Mapping[str, int]] = {
    verb: int(tier)
    for tier, *verbs in (line.split() for line in _VERBS.strip().splitlines())
    for verb in verbs
}

_OTHERWISE: Final[Mapping[tuple[str, str], int]] = {
    ("check", "in"): 3,
    ("check", "out"): 3,
    ("sign", "up"): 4,
    ("sign", "off"): 4,
    ("tear", "down"): 5,
    ("take", "down"): 5,
    ("shut", "down"): 5,
    ("turn", "on"): 3,
    ("turn", "off"): 3,
    ("look", "after"): 3,
    ("call", "contract"): 5,
    ("call", "function"): 5,
    ("call", "tool"): 5,
    ("call", "api"): 5,
    ("capture", "payment"): 4,
    ("capture", "charge"): 4,
    ("capture", "order"): 4,
    ("collect", "payment"): 4,
    ("close", "account"): 5,
    ("deactivate", "account"): 5,
    ("disable", "account"): 5,
    ("report", "user"): 4,
    ("report", "abuse"): 4,
    ("git", "push"): 4,
    ("make", "call"): 4,
    ("make", "payment"): 4,
    ("make", "purchase"): 4,
    ("call", "service"): 5,
    ("cancel", "subscription"): 5,
    ("send", "input"): 5,
    ("send", "keys"): 5,
    ("send", "keystrokes"): 5,
    ("send", "command"): 5,
    **{
        (verb, thing): 5
        for verb in ("start", "resume", "trigger")
        for thing in ("pipeline", "workflow", "job", "run", "build", "instance", "vm", "container", "server")
    },
    **{
        pair: 5
        for verb in ("deactivate", "disable", "lock")
        for thing in ("user", "users", "member", "members", "employee")
        for pair in ((verb, thing), (thing, verb))
    },
    **{
        pair: 5
        for verb in ("pause", "stop", "restore")
        for thing in ("project", "database", "service", "server", "instance", "vm", "container")
        for pair in ((verb, thing), (thing, verb))
    },
    **{
        ("schedule", thing): 4
        for thing in ("message", "email", "mail", "sms", "post", "tweet", "payment", "transfer", "call")
    },
}
"""Two words that mean more than the first alone."""

_LESS: Final[Mapping[tuple[str, str], int]] = {
    ("git", "log"): 1,
    **{("resolve", thing): 1 for thing in ("library", "dns", "address", "id", "path", "symbol", "hostname")},
    **{
        ("format", thing): 3
        for thing in ("cell", "cells", "range", "text", "paragraph", "code", "document", "table", "column")
    },
}
"""Two words of which the verb means less than alone: only these, and only side by side."""

_NOUNS: Final = frozenset(
    {"mail", "email", "message", "sms", "pay", "order", "invoice", "book", "post", "call", "ticket"}
)
"""Verbs that tools are as often named after: `mail_search_threads`, `pay_create_customer`."""

_ARTICLES: Final = frozenset({"a", "an", "the", "all", "any", "this", "one", "multiple", "existing", "your"})
_GENERIC: Final = frozenset({"perform", "performs", "handle", "handles", "process", "do"})
"""What a sentence begins with that says what is done by its further verbs."""

_CORE: Final = frozenset(
    {"get", "list", "create", "update", "delete", "read", "write", "add", "remove", "set", "search", "find"}
    | {"fetch", "retrieve", "send", "edit", "run", "execute", "exec", "insert", "upsert", "describe", "drop"}
)
"""Verbs that are hardly ever nouns: in `pull_request_read` and `file_upload` the verb comes last."""

_AROUND: Final = frozenset({"batch", "bulk", "async", "mass", "multi", "mcp", "api", "do", "try"})
"""Words before a verb that say nothing of its effect."""

_HTTP: Final[Mapping[str, int]] = {
    "GET": 1,
    "HEAD": 1,
    "OPTIONS": 1,
    "POST": 3,
    "PUT": 3,
    "PATCH": 3,
    "DELETE": 5,
}

_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_LEAD: Final = re.compile(
    r"^(?:(?:please|this|the|a|an|tool|function|method|endpoint|use|used|using|it|to|for|that|which|allows?|lets?|"
    r"you|user|users|agent|agents|can|will|is|enables?|helps?|quickly|safely|simply|always|only|and|also|needed"
    r"|when|want|need)\W+)+",
    re.IGNORECASE,
)
_MAX_LOOKED_AT: Final = 4_096


def words_of(name: str) -> tuple[str, ...]:
    """Return the words of a name in lower case, parted by case, underscores, hyphens, dots, slashes."""
    return tuple(word.lower() for word in _WORD.findall(name[:_MAX_LOOKED_AT]))


def stem(word: str) -> str:
    """Return the verb that a word is a form of, or the word itself: `creates`, `creating`, `created`."""
    lower = word.lower()
    for ending, instead in _ENDINGS:
        if lower.endswith(ending) and lower[: -len(ending)] + instead in TIERS:
            return lower[: -len(ending)] + instead
    return lower


_ENDINGS: Final = (
    *(
        ("", ""),
        ("ies", "y"),
        ("es", ""),
        ("s", ""),
        ("ying", "y"),
        ("ing", ""),
        ("ing", "e"),
        ("ed", ""),
        ("ed", "e"),
    ),
    *(("tting", "t"), ("nning", "n"), ("pping", "p"), ("tted", "t"), ("pped", "p")),
)


def verb_tier(words: Sequence[str], said: int | None = None) -> int | None:
    """Return the tier of the verb of a name, of every verb that `and` or `or` joins to it; None for none.

    The verb comes first, else it is the first that is hardly ever a noun, else the first that may be one. Of
    a name that begins with what may be its tool's own (`mail_search_threads`) the second verb counts alone
    where `said`, the tier of the description's verb, is no higher; else the higher of the two.
    """
    words = list(dropwhile(_AROUND.__contains__, words))
    more = []
    if len(words) > 1 and words[0] in _NOUNS and words[1] in TIERS:
        if words[1] in _CORE and said is not None and said <= TIERS[words[1]]:
            words = words[1:]
        else:
            more = [TIERS[words[1]]]
    verbs = [word for word in words if word in TIERS]
    if words and words[0] in TIERS:
        found = words[0]
    else:
        found = next((word for word in verbs if word in _CORE), verbs[0] if verbs else "")
    joined = [words[at + 1] for at, word in enumerate(words[:-1]) if word in {"and", "or", "then"}]
    more += [_OTHERWISE[pair] for pair in pairwise(words) if pair in _OTHERWISE]
    more += [TIERS[word] for word in joined if word in TIERS]
    if found:
        less = (_LESS[pair] for pair in pairwise(words) if found in pair and pair in _LESS)
        more.append(next(less, TIERS[found]))
    return max(more, default=None)


def sentence_tier(text: str) -> int | None:
    """Return the tier of the verb that a description begins with: `Returns the …`, `Use this to delete …`."""
    sentence = _LEAD.sub("", text.strip()[:_MAX_LOOKED_AT])
    words = [stem(word) for word in re.findall(r"[A-Za-z]+", sentence.partition(".")[0])[:12]]
    if not words:
        return None
    spoken = [word for word in words if word not in _ARTICLES]
    begun = [_OTHERWISE[pair] for pair in pairwise(spoken[:2]) if pair in _OTHERWISE]
    if words[0] in TIERS:
        begun.append(TIERS[words[0]])
    elif words[0] in _GENERIC:
        begun += [TIERS[word] for word in words[1:] if word in _CORE]
    if not begun:
        return None
    joined = [words[at + 1] for at, word in enumerate(words[:-1]) if word in {"and", "or", "then"}]
    return max(*begun, *(TIERS[word] for word in joined if word in TIERS), 0)


def choice_tier(value: str) -> int | None:
    """Return the tier that one choice of an `action` suggests: an HTTP method, or a name with a verb."""
    return _HTTP.get(value) or verb_tier(words_of(value)[:1])
