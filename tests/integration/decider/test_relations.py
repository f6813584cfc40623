"""Rules that ask what the task's person is to the resource: told by the source, now, or nothing passes."""

import asyncio

import grpc
import pytest

from decider.relations import relation
from decider.relations.file import FileRelations
from licet.refusal import Reason
from licet.v1.decision_pb2 import DECISION_TYPE_ALLOW, DECISION_TYPE_DENY, Decision
from tests.integration.decider.test_decide import reason_of
from tests.worlds.decisions import Ground, furnish

pytestmark = pytest.mark.asyncio

RULE = """
@id("refund-by-others")
forbid (principal, action == Action::"refund", resource is Order)
unless { context.relations.contains("clerk") };
"""
CLERK = 'relations:\n  "order:O1":\n    clerk: ["ana@t1.example.com"]\n'
OTHER = CLERK.replace("ana@", "ben@")


def ask_relations(ground: Ground) -> None:
    rules, schema = ground.policy / "rules.cedar", ground.policy / "schema.cedarschema"
    rules.write_text(rules.read_text() + RULE)
    schema.write_text(schema.read_text().replace("type Call = {", "type Call = {\n  relations: Set<String>,"))


async def test_relation_is_asked_at_each_decision_and_a_source_that_is_away_denies(ground: Ground) -> None:
    ask_relations(ground)
    file = ground.directory / "relations.yaml"
    file.write_text(CLERK)
    house = await furnish(ground, relations_file=file)
    try:
        assert (await house.decide(call_id="clerk")).decision == DECISION_TYPE_ALLOW
        file.write_text(OTHER)
        denied = await house.decide(call_id="no-clerk")
        assert denied.decision == DECISION_TYPE_DENY
        assert Decision.FromString(denied.signed.payload).rule_ids == ["refund-by-others"]
        file.unlink()
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await house.decide(call_id="away")
        assert reason_of(error.value) == Reason.FACTS_UNAVAILABLE
        file.write_text(CLERK)
        assert (await house.decide(call_id="back")).decision == DECISION_TYPE_ALLOW
    finally:
        await house.close()


async def test_source_that_does_not_answer_in_time_denies(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask_relations(ground)
    file = ground.directory / "relations.yaml"
    file.write_text(CLERK)
    house = await furnish(ground, relations_file=file)

    async def never(*_: object) -> frozenset[str]:
        await asyncio.Event().wait()
        return frozenset({"clerk"})

    try:
        assert (await house.decide(call_id="in-time")).decision == DECISION_TYPE_ALLOW
        monkeypatch.setattr(FileRelations, "between", never)
        monkeypatch.setattr(relation, "TIMEOUT_S", 0.05)
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await house.decide(call_id="too-late")
        assert reason_of(error.value) == Reason.FACTS_UNAVAILABLE
    finally:
        await house.close()


async def test_rules_that_ask_relations_let_nothing_through_without_a_source(ground: Ground) -> None:
    """A missing source must not be read as: nobody is blocked."""
    ask_relations(ground)
    rules = ground.policy / "rules.cedar"
    rules.write_text(
        rules.read_text().replace("unless { context", "when { context").replace("clerk", "blocked")
    )
    house = await furnish(ground)
    try:
        with pytest.raises(grpc.aio.AioRpcError):
            await house.decide()
        [event] = await house.decisions()
        assert event.decision == "failed"
    finally:
        await house.close()
