"""Delegations: only narrower, link by link, at creation and at every decision."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from licet.call import Arguments
from licet.call.schema import compile_schema
from licet.call.strict_json import read_json
from licet.delegation import (
    MAX_DEPTH,
    MAX_LIFE_MS,
    Chain,
    DelegatedCall,
    Delegation,
    Link,
    check_narrowing,
    payload_of,
    read_chain,
    read_delegation,
)
from licet.keys import KeyRole, KeySet
from licet.refusal import Reason, Refusal
from licet.revocation import NONE, RevocationKind, Revocations
from licet.scope import check_arguments, covers, implied, plain_name, within_resources
from licet.statement import PayloadType
from licet.v1 import decision_pb2, delegation_pb2
from licet.v1.decision_pb2 import Constraint
from licet.v1.statement_pb2 import Scalar, Signed
from tests.worlds import permit as world
from tests.worlds.permit import NOW

REFUND = "/fin.v1.Finance/IssueRefund"
READ = "/fin.v1.Finance/GetOrder"
AGENTS = ("support-bot", "refund-bot", "mallory", *(f"bot-{number}" for number in range(1, 6)))
KEYS: KeySet = world.keyset(
    *world.PUBLIC_KEYS,
    world.public_key("delegator", KeyRole.DELEGATOR),
    *(
        world.public_key(
            f"delegator-{name}", KeyRole.DELEGATOR, owner=f"spiffe://{world.TRUST_DOMAIN}/prod/agent/{name}"
        )
        for name in AGENTS
    ),
)
SCHEMA = compile_schema(
    json.dumps(
        {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                "order_id": {"type": "string"},
                "amount_minor": {"type": "integer"},
                "path": {"type": "string"},
                "tags": {"type": "array", "items": {"type": "string"}},
            },
        }
    )
)


def arguments(**values: Any) -> Arguments:
    read = read_json(SCHEMA, json.dumps(values).encode())
    assert isinstance(read, Arguments), read
    return read


def scalar(value: str | int | bool) -> Scalar:
    if isinstance(value, bool):
        return Scalar(flag=value)
    return Scalar(integer=value) if isinstance(value, int) else Scalar(text=value)


def constraint(op: str, path: str, *values: str | int | bool) -> Constraint:
    number = decision_pb2.ConstraintOp.Value(f"CONSTRAINT_OP_{op}")
    return Constraint(path=path.split("."), op=number, values=[scalar(value) for value in values])


def first(**changes: Any) -> Delegation:
    link = Delegation(
        delegation_id="a" * 32,
        parent_id="",
        parent_sha256=b"",
        depth=1,
        tenant="t1",
        delegator="ana",
        delegatee="support-bot",
        issued_at_ms=NOW - 1000,
        not_after_ms=NOW + 3_600_000,
        environments=frozenset({"prod"}),
        methods=frozenset({REFUND, READ}),
        operations=frozenset({"refund", "read_order"}),
        resources=frozenset({"order"}),
        max_tier=4,
        autonomy_max=4,
        max_calls=10,
        constraints={REFUND: (constraint("LE", "amount_minor", 5000),)},
        max_cost={"USD": 10_000},
        denied_resources=frozenset({"order:O3"}),
    )
    return replace(link, **changes)


def sign(link: Delegation, key: str = "") -> Signed:
    key = key or ("delegator" if link.depth <= 1 else f"delegator-{link.delegator}")
    return world.signing_key(key).sign(PayloadType.DELEGATION, payload_of(link))


def link_of(link: Delegation) -> Link:
    read = read_delegation(sign(link), KEYS, now_ms=NOW)
    assert isinstance(read, Link), read
    return read


KEY_OF_FIRST = world.signing_key("delegator").key_id
KEY_OF_SECOND = world.signing_key("delegator-support-bot").key_id


def second(parent: Delegation | None = None, **changes: Any) -> Delegation:
    above = link_of(parent or first())
    link = replace(
        above.delegation,
        delegation_id="b" * 32,
        parent_id=above.delegation.delegation_id,
        parent_sha256=above.sha256,
        depth=2,
        delegator="support-bot",
        delegatee="refund-bot",
    )
    return replace(link, **changes)


def chain(*links: Delegation) -> Chain | Refusal:
    return read_chain([sign(link) for link in links], KEYS, now_ms=NOW)


def good_chain(*links: Delegation) -> Chain:
    made = chain(*links)
    assert isinstance(made, Chain), made
    return made


def call(**changes: Any) -> DelegatedCall:
    made = DelegatedCall(
        environment="prod",
        tenant="t1",
        principal="ana",
        agent="refund-bot",
        method=REFUND,
        operation="refund",
        resource="order:O1",
        tier=4,
        arguments=arguments(order_id="O1", amount_minor=5000),
        money=(5000, "USD"),
    )
    return replace(made, **changes)


def refused(answer: object) -> str:
    assert isinstance(answer, Refusal), answer
    return answer.detail


def test_link_round_trips() -> None:
    link = first()
    assert link_of(link).delegation == link


def test_chain_lets_a_call_within_every_link_through() -> None:
    links = good_chain(first(), second())
    assert links.ids == ("a" * 32, "b" * 32)
    assert links.check(call(), now_ms=NOW, revocations=NONE) is None


WIDER: dict[str, tuple[Callable[[], Delegation], Callable[[], Delegation]]] = {
    # what is wider, and its lawful twin
    "LE 6000 over LE 5000": (
        lambda: second(constraints={REFUND: (constraint("LE", "amount_minor", 6000),)}),
        lambda: second(constraints={REFUND: (constraint("LE", "amount_minor", 4000),)}),
    ),
    "constraint dropped": (
        lambda: second(constraints={}),
        lambda: second(constraints={}, methods=frozenset({READ})),
    ),
    "/ab beside /a": (
        lambda: second(
            first(resources=frozenset({"/a"}), denied_resources=frozenset()), resources=frozenset({"/ab"})
        ),
        lambda: second(
            first(resources=frozenset({"/a"}), denied_resources=frozenset()), resources=frozenset({"/a/b"})
        ),
    ),
    "later end": (
        lambda: second(not_after_ms=NOW + 3_600_001),
        lambda: second(not_after_ms=NOW + 3_600_000),
    ),
    "earlier begin": (lambda: second(issued_at_ms=NOW - 1001), lambda: second(issued_at_ms=NOW - 999)),
    "another parent's bytes": (lambda: second(parent_sha256=bytes(32)), second),
    "another parent's id": (lambda: second(parent_id="c" * 32), second),
    "a level skipped": (lambda: second(depth=3), lambda: second(depth=2)),
    "another tenant": (lambda: second(tenant="t2"), lambda: second(tenant="t1")),
    "a delegator who did not receive": (lambda: second(delegator="mallory"), second),
    "another environment": (
        lambda: second(environments=frozenset({"prod", "staging"})),
        lambda: second(environments=frozenset()),
    ),
    "another method": (
        lambda: second(methods=frozenset({REFUND, READ, "/fin.v1.Finance/Wipe"})),
        lambda: second(methods=frozenset({READ})),
    ),
    "any method": (lambda: second(methods=frozenset({"*"})), lambda: second(methods=frozenset())),
    "another operation": (
        lambda: second(operations=frozenset({"wipe"})),
        lambda: second(operations=frozenset({"refund"})),
    ),
    "any resource": (
        lambda: second(resources=frozenset({"*"})),
        lambda: second(resources=frozenset({"order:O1"})),
    ),
    "a higher tier": (lambda: second(max_tier=5), lambda: second(max_tier=3)),
    "more autonomy": (
        lambda: second(first(autonomy_max=3), autonomy_max=4),
        lambda: second(first(autonomy_max=3), autonomy_max=2),
    ),
    "more calls": (lambda: second(max_calls=11), lambda: second(max_calls=1)),
    "more money": (lambda: second(max_cost={"USD": 10_001}), lambda: second(max_cost={"USD": 1})),
    "another currency": (lambda: second(max_cost={"EUR": 1}), lambda: second(max_cost={})),
    "a denial dropped": (
        lambda: second(denied_resources=frozenset()),
        lambda: second(denied_resources=frozenset({"order:O3", "order:O4"})),
    ),
    "a denied method dropped": (
        lambda: second(first(denied_methods=frozenset({READ})), denied_methods=frozenset()),
        lambda: second(first(denied_methods=frozenset({READ}))),
    ),
    "a denied operation dropped": (
        lambda: second(first(denied_operations=frozenset({"wipe"})), denied_operations=frozenset()),
        lambda: second(first(denied_operations=frozenset({"wipe"}))),
    ),
}


def parent_of(name: str) -> Delegation:
    special = {
        "/ab beside /a": first(resources=frozenset({"/a"}), denied_resources=frozenset()),
        "more autonomy": first(autonomy_max=3),
        "a denied method dropped": first(denied_methods=frozenset({READ})),
        "a denied operation dropped": first(denied_operations=frozenset({"wipe"})),
    }
    return special.get(name, first())


@pytest.mark.negative(36)
@pytest.mark.parametrize("name", WIDER)
def test_wider_child_is_not_granted_and_its_twin_is(name: str) -> None:
    wider, twin = WIDER[name]
    parent = parent_of(name)
    assert refused(chain(parent, wider()))
    assert refused(good_chain(parent).check_next(wider()))
    links = good_chain(parent, twin())
    assert good_chain(parent).check_next(twin()) is None
    assert len(links.links) == 2


@pytest.mark.negative(36)
def test_link_of_another_chain_is_not_accepted_as_the_next() -> None:
    stranger = first(delegation_id="d" * 32, max_tier=5)
    assert "parent" in refused(chain(first(), second(stranger)))
    assert good_chain(stranger, second(stranger))


@pytest.mark.parametrize(
    "changes",
    [
        {"delegation_id": "A" * 32},
        {"depth": 0},
        {"depth": 2},
        {"parent_id": "c" * 32},
        {"parent_sha256": bytes(32)},
        {"tenant": ""},
        {"delegatee": "ana"},
        {"not_after_ms": NOW - 1000},
        {"not_after_ms": NOW - 1000 + MAX_LIFE_MS + 1},
        {"max_tier": 6},
        {"autonomy_max": 0},
        {"autonomy_max": 5},
        {"constraints": {"*": (constraint("LE", "amount_minor", 1),)}},
        {"max_cost": {"USD": -1}},
        {"resources": frozenset({"order:../x"})},
        {"denied_resources": frozenset({""})},
    ],
)
def test_link_that_is_wrong_in_itself_is_refused(changes: dict[str, Any]) -> None:
    assert refused(chain(first(**changes)))
    assert good_chain(first(not_after_ms=NOW - 1000 + MAX_LIFE_MS))


def test_child_that_is_wrong_in_itself_cannot_be_signed() -> None:
    assert "tier 6" in refused(good_chain(first()).check_next(second(max_tier=6)))


def signed_raw(**changes: Any) -> Signed:
    message = delegation_pb2.Delegation.FromString(payload_of(first()))
    for name, value in changes.items():
        if isinstance(value, list):
            getattr(message, name).extend(value)
        else:
            setattr(message, name, value)
    return world.signing_key("delegator").sign(PayloadType.DELEGATION, message.SerializeToString())


@pytest.mark.parametrize(
    ("signed", "reason"),
    [
        (sign(first(), key="decider"), Reason.KEY_ROLE),
        (signed_raw(version=2), Reason.DELEGATION_EXCEEDED),
        (signed_raw(max_cost=[delegation_pb2.MoneyLimit(currency="USD")]), Reason.DELEGATION_EXCEEDED),
        (
            signed_raw(constraints=[delegation_pb2.MethodConstraints(method=REFUND)]),
            Reason.DELEGATION_EXCEEDED,
        ),
        (
            world.signing_key("delegator").sign(PayloadType.DELEGATION, b"\xff"),
            Reason.PERMIT_MALFORMED,
        ),
    ],
)
def test_bytes_that_are_no_delegation_are_refused(signed: Signed, reason: Reason) -> None:
    answer = read_chain([signed], KEYS, now_ms=NOW)
    assert isinstance(answer, Refusal)
    assert answer.reason is reason


@pytest.mark.negative(36)
@pytest.mark.parametrize(
    ("link", "key"),
    [
        (first(), "delegator-mallory"),  # an agent hands down what a person never did
        (second(), "delegator"),  # the issuer speaks for people, not for agents
        (second(), "delegator-mallory"),
    ],
)
def test_link_signed_by_a_key_that_does_not_speak_for_its_delegator_is_refused(
    link: Delegation, key: str
) -> None:
    assert "does not speak for" in refused(read_delegation(sign(link, key), KEYS, now_ms=NOW))
    assert isinstance(read_delegation(sign(link), KEYS, now_ms=NOW), Link)


def test_chain_has_one_to_four_links() -> None:
    links = [first()]
    names = ["support-bot", "bot-2", "bot-3", "bot-4", "bot-5"]
    for depth in range(2, MAX_DEPTH + 2):
        above = Link(links[-1], link_of(links[-1]).sha256) if depth <= MAX_DEPTH else None
        links.append(
            replace(
                second(),
                delegation_id=f"{depth:032x}",
                parent_id=links[-1].delegation_id,
                parent_sha256=above.sha256 if above else bytes(32),
                depth=depth,
                delegator=names[depth - 2],
                delegatee=names[depth - 1],
            )
        )
    assert len(good_chain(*links[:MAX_DEPTH]).links) == MAX_DEPTH
    assert "5 links" in refused(chain(*links))
    assert "depth 5" in refused(good_chain(*links[:MAX_DEPTH]).check_next(links[-1]))
    assert "0 links" in refused(chain())
    assert "hangs on another" in refused(chain(second()))


OUTSIDE: dict[str, dict[str, Any]] = {
    "principal": {"principal": "eve"},
    "agent": {"agent": "support-bot"},
    "environment": {"environment": "staging"},
    "tenant": {"tenant": "t2"},
    "method": {"method": "/fin.v1.Finance/Wipe"},
    "operation": {"operation": "wipe"},
    "resource": {"resource": "invoice:1"},
    "resource beside": {"resource": "orders:O1"},
    "resource by a trick": {"resource": "order:O1/../O3"},
    "denied resource": {"resource": "order:O3"},
    "below a denied resource": {"resource": "order:O3/items"},
    "tier": {"tier": 5},
    "amount above the constraint": {"arguments": arguments(order_id="O1", amount_minor=5001)},
    "constrained field absent": {"arguments": arguments(order_id="O1")},
    "money above the limit": {"money": (10_001, "USD")},
    "money of another currency": {"money": (1, "EUR")},
    "money the other way": {"money": (-1, "USD")},
}


@pytest.mark.parametrize("name", OUTSIDE)
def test_call_outside_a_link_is_refused(name: str) -> None:
    links = good_chain(first(), second())
    assert links.check(call(), now_ms=NOW, revocations=NONE) is None
    answer = links.check(call(**OUTSIDE[name]), now_ms=NOW, revocations=NONE)
    assert isinstance(answer, Refusal)
    assert answer.reason is Reason.DELEGATION_EXCEEDED


@pytest.mark.parametrize("names", [{"denied_methods": {REFUND}}, {"denied_operations": {"*"}}])
def test_denial_of_any_link_denies(names: dict[str, set[str]]) -> None:
    denial = {name: frozenset(values) for name, values in names.items()}
    links = good_chain(first(**denial), second(first(**denial)))
    assert "denied" in refused(links.check(call(), now_ms=NOW, revocations=NONE))
    lower = good_chain(first(), second(**denial))
    assert "denied" in refused(lower.check(call(), now_ms=NOW, revocations=NONE))


def test_read_without_money_needs_no_limit() -> None:
    links = good_chain(first(), second(max_cost={}))
    reading = call(method=READ, operation="read_order", tier=1, money=None)
    assert links.check(reading, now_ms=NOW, revocations=NONE) is None
    assert refused(links.check(call(), now_ms=NOW, revocations=NONE))


def test_link_holds_from_its_begin_to_its_end() -> None:
    links = good_chain(first(), second(not_after_ms=NOW + 10))
    assert links.check(call(), now_ms=NOW + 9, revocations=NONE) is None
    assert "time" in refused(links.check(call(), now_ms=NOW + 10, revocations=NONE))
    assert "time" in refused(links.check(call(), now_ms=NOW - 1001, revocations=NONE))


@pytest.mark.negative(35)
@pytest.mark.parametrize("name", ["a" * 32, "b" * 32])
def test_revoked_link_anywhere_in_the_chain_refuses(name: str) -> None:
    links = good_chain(first(), second())
    revoked = Revocations(1, "prod", frozenset({(RevocationKind.DELEGATION, name)}))
    answer = links.check(call(), now_ms=NOW, revocations=revoked)
    assert isinstance(answer, Refusal)
    assert answer.reason is Reason.DELEGATION_REVOKED
    other = Revocations(1, "prod", frozenset({(RevocationKind.DELEGATION, "e" * 32)}))
    assert links.check(call(), now_ms=NOW, revocations=other) is None


@pytest.mark.parametrize(
    ("kind", "name", "reason"),
    [
        (RevocationKind.KEY, KEY_OF_FIRST, Reason.KEY_REVOKED),
        (RevocationKind.KEY, KEY_OF_SECOND, Reason.KEY_REVOKED),
        (RevocationKind.AGENT, "support-bot", Reason.AGENT_REVOKED),
        (RevocationKind.PRINCIPAL, "ana", Reason.PRINCIPAL_REVOKED),
        (RevocationKind.KEY, "decider", None),
        (RevocationKind.AGENT, "another", None),
    ],
)
def test_chain_ends_with_every_key_and_everybody_that_it_hangs_on(
    kind: RevocationKind, name: str, reason: Reason | None
) -> None:
    """Whoever has a revoked key dates links as they like; what a revoked agent handed down ends with it."""
    links = good_chain(first(), second())
    revoked = Revocations(1, "prod", frozenset({(kind, name)}))
    answer = links.check(call(), now_ms=NOW, revocations=revoked)
    assert (answer.reason if answer is not None else None) is reason


def test_autonomy_bounds_the_tier() -> None:
    links = good_chain(first(autonomy_max=1), second(first(autonomy_max=1)))
    assert "max_tier" in refused(links.check(call(tier=2), now_ms=NOW, revocations=NONE))
    reading = call(method=READ, operation="read_order", tier=1)
    assert links.check(reading, now_ms=NOW, revocations=NONE) is None


def test_constraint_of_a_prefix_ends_where_a_segment_ends() -> None:
    prefix = [constraint("PREFIX", "path", "/a")]
    assert check_arguments(prefix, arguments(path="/a/b")) is None
    assert refused(check_arguments(prefix, arguments(path="/ab")))
    assert refused(check_arguments(prefix, arguments(path="/a/../b")))
    tags = [constraint("PREFIX", "tags", "x")]
    assert check_arguments(tags, arguments(tags=["x", "x:1"])) is None
    assert refused(check_arguments(tags, arguments(tags=["x", "xy"])))


IMPLIED = [
    (("EQ", "p", 5), ("EQ", "p", 5), True),
    (("EQ", "p", 5), ("EQ", "p", 6), False),
    (("EQ", "p", 5), ("LE", "p", 5), True),
    (("EQ", "p", 6), ("LE", "p", 5), False),
    (("EQ", "p", 6), ("GE", "p", 5), True),
    (("EQ", "p", True), ("LE", "p", 5), False),
    (("EQ", "p", True), ("EQ", "p", 1), False),
    (("IN", "p", "a", "b"), ("IN", "p", "a", "b", "c"), True),
    (("IN", "p", "a", "d"), ("IN", "p", "a", "b", "c"), False),
    (("IN", "p", "x/1", "x/2"), ("PREFIX", "p", "x"), True),
    (("IN", "p", "x/1", "y"), ("PREFIX", "p", "x"), False),
    (("IN", "p"), ("IN", "p"), False),
    (("IN", "p"), ("LE", "p", 5), False),
    (("EQ", "p", "abc"), ("MAX_LENGTH", "p", 3), True),
    (("EQ", "p", "äbc"), ("MAX_LENGTH", "p", 3), False),
    (("EQ", "p", 5), ("MAX_LENGTH", "p", 3), False),
    (("EQ", "p", 1), ("MAX_ITEMS", "p", 3), False),
    (("EQ", "p", 1), ("ABSENT", "p"), False),
    (("LE", "p", 4), ("LE", "p", 5), True),
    (("LE", "p", 6), ("LE", "p", 5), False),
    (("GE", "p", 6), ("GE", "p", 5), True),
    (("GE", "p", 4), ("GE", "p", 5), False),
    (("LE", "p", 4), ("GE", "p", 1), False),
    (("LE", "p", "4"), ("LE", "p", 5), False),
    (("LE", "p", "a"), ("LE", "p", "b"), False),
    (("LE", "p", True), ("LE", "p", True), False),
    (("LE", "p"), ("LE", "p", 5), False),
    (("PREFIX", "p", "a/b"), ("PREFIX", "p", "a"), True),
    (("PREFIX", "p", "ab"), ("PREFIX", "p", "a"), False),
    (("ABSENT", "p"), ("ABSENT", "p"), True),
    (("MAX_LENGTH", "p", 3), ("MAX_LENGTH", "p", 4), True),
    (("MAX_ITEMS", "p", 5), ("MAX_ITEMS", "p", 4), False),
    (("LE", "q", 4), ("LE", "p", 5), False),
]


@pytest.mark.parametrize(("narrow", "wide", "within"), IMPLIED)
def test_constraint_lies_within_another_only_where_it_can_be_compared(
    narrow: tuple[Any, ...], wide: tuple[Any, ...], within: bool
) -> None:
    assert implied(constraint(*wide), [constraint(*narrow)]) is within


def test_constraint_without_an_operand_lies_within_nothing() -> None:
    empty = Constraint(path=["p"], op=decision_pb2.CONSTRAINT_OP_EQ, values=[Scalar()])
    assert not implied(constraint("LE", "p", 5), [empty])


@pytest.mark.parametrize(
    "name", ["", "a//b", "a/../b", "a/./b", "a\\b", "a%2fb", "a*", "a\x00", "a?b", "a#b", "a/"]
)
def test_name_that_a_path_could_be_tricked_with_is_covered_by_nothing(name: str) -> None:
    assert not plain_name(name)
    assert not covers("*", name)
    assert covers("*", "a/b")
    assert not covers(name, "a/b")


def test_resource_covers_itself_and_what_lies_below() -> None:
    assert covers("order:O1", "order:O1")
    assert covers("order", "order:O1")
    assert covers("/a", "/a/b")
    assert not covers("/a", "/ab")
    assert not covers("order:O1", "order")
    assert within_resources({"*"}, frozenset({"*"}))
    assert not within_resources({"*"}, frozenset({"a"}))


def test_narrowing_needs_the_parent_as_it_was_signed() -> None:
    parent = link_of(first())
    assert check_narrowing(parent, second()) is None
    assert refused(check_narrowing(replace(parent, sha256=bytes(32)), second()))
