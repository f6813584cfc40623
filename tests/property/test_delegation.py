"""For any chain and any call: what the last link accepts, every link before it accepts."""

from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from licet.delegation import (
    Chain,
    Delegation,
    Link,
    check_link,
    payload_of,
    read_chain,
    read_delegation,
)
from licet.refusal import Refusal
from licet.revocation import NONE
from licet.statement import PayloadType
from licet.v1.decision_pb2 import Constraint
from tests.unit.core.test_delegation import (
    KEYS,
    NOW,
    READ,
    REFUND,
    arguments,
    call,
    constraint,
    first,
    link_of,
    sign,
)
from tests.worlds.permit import signing_key

METHODS = (REFUND, READ, "*")
OPERATIONS = ("refund", "read_order", "*")
RESOURCES = ("order", "order:O1", "order:O1/items", "order:O10", "invoice", "*")
NAMES = ("ana", "bot-1", "bot-2", "bot-3", "bot-4")


def some(values: tuple[str, ...]) -> st.SearchStrategy[frozenset[str]]:
    return st.frozensets(st.sampled_from(values), max_size=3)


@st.composite
def constraints(draw: st.DrawFn) -> tuple[Constraint, ...]:
    made = draw(
        st.lists(
            st.one_of(
                st.builds(lambda n: constraint("LE", "amount_minor", n), st.integers(0, 6)),
                st.builds(lambda n: constraint("GE", "amount_minor", n), st.integers(0, 6)),
                st.builds(
                    lambda ns: constraint("IN", "amount_minor", *ns), st.lists(st.integers(0, 6), min_size=1)
                ),
                st.builds(lambda p: constraint("PREFIX", "order_id", p), st.sampled_from(["a", "a/b", "ab"])),
                st.builds(lambda n: constraint("MAX_LENGTH", "order_id", n), st.integers(0, 5)),
            ),
            max_size=3,
        )
    )
    return tuple(made)


@st.composite
def fields(draw: st.DrawFn) -> dict[str, Any]:
    return {
        "environments": draw(some(("prod", "staging"))) | {"prod"},
        "methods": draw(some(METHODS)) | {draw(st.sampled_from(METHODS))},
        "operations": draw(some(OPERATIONS)) | {draw(st.sampled_from(OPERATIONS))},
        "resources": draw(some(RESOURCES)) | {draw(st.sampled_from(RESOURCES))},
        "constraints": {REFUND: draw(constraints())} if draw(st.booleans()) else {},
        "max_tier": draw(st.integers(0, 5)),
        "autonomy_max": draw(st.integers(1, 4)),
        "max_calls": draw(st.integers(0, 3)),
        "max_cost": draw(st.dictionaries(st.sampled_from(["USD", "EUR"]), st.integers(0, 6))),
        "denied_methods": draw(some((READ,))),
        "denied_operations": draw(some(("read_order",))),
        "denied_resources": draw(some(("order:O1/items", "invoice"))),
        "not_after_ms": NOW + draw(st.integers(1, 3)),
    }


def narrowed(above: Link, wish: dict[str, Any], draw: st.DrawFn) -> dict[str, Any]:
    """Mostly the parent's own values, so that many children are granted; the rest is a wish at random."""
    parent = above.delegation
    return {name: draw(st.sampled_from([getattr(parent, name), value])) for name, value in wish.items()}


@st.composite
def chains(draw: st.DrawFn) -> tuple[Chain, list[Delegation]]:
    """A chain that was granted, and its links as they were written."""
    links = [first(constraints={}, denied_resources=frozenset(), delegatee=NAMES[1])]
    links = [replace(links[0], **draw(fields()))]
    for depth in range(2, draw(st.integers(1, 4)) + 1):
        above = link_of(links[-1])
        child = replace(
            links[-1],
            delegation_id=f"{depth:032x}",
            parent_id=links[-1].delegation_id,
            parent_sha256=above.sha256,
            depth=depth,
            delegator=NAMES[depth - 1],
            delegatee=NAMES[depth],
            **narrowed(above, draw(fields()), draw),
        )
        made = read_chain([sign(link) for link in links], KEYS, now_ms=NOW)
        assert isinstance(made, Chain)
        if isinstance(made.check_next(child), Refusal):
            break
        links.append(child)
    granted = read_chain([sign(link) for link in links], KEYS, now_ms=NOW)
    assert isinstance(granted, Chain), granted
    return granted, links


CALLS = st.fixed_dictionaries(
    {
        "method": st.sampled_from([REFUND, READ]),
        "operation": st.sampled_from(["refund", "read_order"]),
        "resource": st.sampled_from(["order:O1", "order:O1/items", "order:O10", "invoice:7"]),
        "tier": st.integers(0, 5),
        "money": st.one_of(st.none(), st.tuples(st.integers(-1, 7), st.sampled_from(["USD", "EUR"]))),
        "arguments": st.builds(
            lambda order, amount: arguments(order_id=order, amount_minor=amount),
            st.sampled_from(["a", "a/b", "ab", "abcdef"]),
            st.integers(0, 7),
        ),
    }
)


@settings(max_examples=120, deadline=None)
@given(chains(), CALLS, st.integers(0, 3))
def test_what_the_last_link_accepts_every_link_before_it_accepts(
    made: tuple[Chain, list[Delegation]], wish: dict[str, Any], past_ms: int
) -> None:
    granted, links = made
    now_ms = NOW + past_ms
    asked = call(agent=links[-1].delegatee, **wish)
    accepted = [check_link(link, asked, now_ms=now_ms) is None for link in links]
    if accepted[-1]:
        assert all(accepted)
    whole = granted.check(asked, now_ms=now_ms, revocations=NONE)
    assert (whole is None) == all(accepted)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_changed_bytes_are_no_delegation(data: st.DataObject) -> None:
    signed = sign(first())
    raw = bytearray(signed.payload)
    place = data.draw(st.integers(0, len(raw) - 1))
    raw[place] ^= data.draw(st.integers(1, 255))
    signed.payload = bytes(raw)
    assert isinstance(read_delegation(signed, KEYS, now_ms=NOW), Refusal)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=200))
def test_any_signed_bytes_are_read_or_refused(payload: bytes) -> None:
    signed = signing_key("delegator").sign(PayloadType.DELEGATION, payload)
    read = read_delegation(signed, KEYS, now_ms=NOW)
    if isinstance(read, Link):
        assert payload_of(read.delegation)
