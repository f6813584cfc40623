"""Permits that no decider made, or made for something else, at the running house's door.

The forger has every development key, which no attacker has: what is shown is that the door tells a permit
from anything else that those keys can sign.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from nacl.signing import SigningKey as Ed25519

from examples.refund.demo import evidence
from examples.refund.demo.attempt import (
    DECIDED,
    SPANS_OF_DECISION,
    Case,
    Expected,
    effect,
)
from examples.refund.demo.house import House
from examples.refund.demo.play import Play, refund
from examples.refund.demo.wire import REFUND, Asked
from licet.dsse import PayloadType
from licet.keyfile import read_secret, read_signing_key
from licet.spend import spend_id
from licet.statement import SigningKey
from licet.strict import canonical
from licet.v1.decision_pb2 import Decision
from licet.v1.statement_pb2 import Signed

pytestmark = pytest.mark.timeout(120)

Forge = Callable[[Asked, Path], tuple[bytes, ...]]

UNKNOWN = b"\xfa\x3f\x01x"
"""Field 1023, one byte: no message has it."""


def _key(keys: Path, name: str = "decider") -> SigningKey:
    return read_signing_key(keys / f"{name}.key")


def _signed(payload: bytes, keys: Path) -> bytes:
    return canonical(_key(keys).sign(PayloadType.PERMIT, payload))


def _changed(asked: Asked, keys: Path, **fields: object) -> tuple[bytes, ...]:
    decision = Decision.FromString(Signed.FromString(asked.sent).payload)
    for name, value in fields.items():
        setattr(decision, name, value)
    decision.spend_id = spend_id(  # as whoever makes such a permit would: it is checked too
        decision.environment,
        decision.tenant,
        decision.audience,
        decision.agent,
        decision.task_id,
        decision.call_id,
    )
    return (_signed(canonical(decision), keys),)


def twice(asked: Asked, _keys: Path) -> tuple[bytes, ...]:
    return asked.sent, asked.sent


def bare_payload_signed(asked: Asked, keys: Path) -> tuple[bytes, ...]:
    payload = Signed.FromString(asked.sent).payload
    signature = Ed25519(read_secret(keys / "decider.key")).sign(payload).signature
    return (canonical(Signed(payload=payload, signature=signature, key_id="decider")),)


def unknown_field(asked: Asked, keys: Path) -> tuple[bytes, ...]:
    return (_signed(Signed.FromString(asked.sent).payload + UNKNOWN, keys),)


def unknown_field_nested(asked: Asked, keys: Path) -> tuple[bytes, ...]:
    decision = Decision.FromString(Signed.FromString(asked.sent).payload)
    decision.preconditions[0].MergeFromString(UNKNOWN)
    return (_signed(canonical(decision), keys),)


def decision_unspecified(asked: Asked, keys: Path) -> tuple[bytes, ...]:
    return _changed(asked, keys, decision=0)


def decision_deny(asked: Asked, keys: Path) -> tuple[bytes, ...]:
    return _changed(asked, keys, decision=2)


def decision_99(asked: Asked, keys: Path) -> tuple[bytes, ...]:
    return _changed(asked, keys, decision=99)


def of_staging(asked: Asked, keys: Path) -> tuple[bytes, ...]:
    return _changed(asked, keys, environment="staging")


def for_another_tool(asked: Asked, keys: Path) -> tuple[bytes, ...]:
    return _changed(asked, keys, audience="spiffe://licet.local/dev/tool/treasury")


def unchanged(asked: Asked, keys: Path) -> tuple[bytes, ...]:
    return _changed(asked, keys)


FORGED: Mapping[Forge, tuple[int, str]] = {
    twice: (2, "PERMIT_AMBIGUOUS"),
    bare_payload_signed: (4, "SIGNATURE_INVALID"),
    unknown_field: (8, "PERMIT_UNKNOWN_FIELD"),
    unknown_field_nested: (8, "PERMIT_UNKNOWN_FIELD"),
    decision_unspecified: (9, "DECISION_INVALID"),
    decision_deny: (9, "DECISION_INVALID"),
    decision_99: (9, "DECISION_INVALID"),
    of_staging: (11, "ENVIRONMENT_MISMATCH"),
    for_another_tool: (12, "AUDIENCE_MISMATCH"),
}
PATHS = (
    "fin.v1.Finance/IssueRefund",
    "//fin.v1.Finance/IssueRefund",
    "/fin.v1.Finance/IssueRefund?x=1",
    "/fin.v1.Finance/IssueRefund/",
    "/fin.v1.finance/issuerefund",
)


def _refused(reason: str) -> Expected:
    events = {DECIDED: 1, f"door.refused {reason}": 1}
    return Expected((reason,), events, "ALLOWED_NOT_EXECUTED", spans=SPANS_OF_DECISION)


def _judge(house: House, case: Case) -> None:
    evidence.read_all(house, [case])
    for attempt in case.attempts:
        assert attempt.differences() == (), attempt.label


@pytest.mark.parametrize(
    "forge",
    [
        pytest.param(forge, id=forge.__name__, marks=pytest.mark.negative(row))
        for forge, (row, _) in FORGED.items()
    ],
)
def test_forged_permit_is_refused_and_an_unchanged_one_passes(house: House, forge: Forge) -> None:
    case = Case(forge.__name__, "")
    play, keys = Play(house, case), house.stack.layout.keys
    with play.attack("forged", _refused(FORGED[forge][1])):
        step, body = play.step(), refund(house.order())
        play.present(step, body, *forge(play.decide(step, body), keys))
    with play.lawful("signed again, unchanged", effect()):
        step, body = play.step(), refund(house.order())
        play.present(step, body, *unchanged(play.decide(step, body), keys))
    _judge(house, case)


@pytest.mark.negative(10)
@pytest.mark.parametrize("path", PATHS)
def test_path_in_any_other_spelling_is_unknown_and_the_exact_one_passes(house: House, path: str) -> None:
    case = Case("path", "")
    play = Play(house, case)
    with play.attack(path, _refused("METHOD_UNKNOWN")):
        step, body = play.step(), refund(house.order())
        play.present(step, body, play.decide(step, body).sent, method=path)
    with play.lawful(REFUND, effect()):
        play.executed(refund(house.order()))
    _judge(house, case)
