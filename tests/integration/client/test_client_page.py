"""docs/client.md, run as it stands: its blocks in their order, and what they define."""

import asyncio
import re
from typing import Any

import pytest

from licet.client import Denied, Step
from licet.refusal import Reason
from licet.v1.decision_pb2 import CODEC_JSON_MCP
from licet.v1.hold_pb2 import APPROVAL_ANSWER_REJECT
from tests.integration.client.test_client import door, request
from tests.integration.decider.test_holds import desk_of, held
from tests.worlds.charts import ROOT
from tests.worlds.decisions import REFUND_BOT, House

__all__ = ["door"]
BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)


@pytest.mark.asyncio
async def test_every_block_of_the_page_does_what_the_page_says(
    house: House, door: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("client", "aio"):
        monkeypatch.setattr(f"licet.client.{module}.POLL_S", 0.05)
    monkeypatch.setenv("LICET_DECIDER", f"127.0.0.1:{house.process.port}")
    monkeypatch.setenv("LICET_TOOLS", f"finance=127.0.0.1:{door.port}")
    monkeypatch.setenv("LICET_IDENTITY", REFUND_BOT)
    desk = await desk_of(house)
    page: dict[str, Any] = {}

    def typed_in() -> None:
        for block in BLOCK.findall((ROOT / "docs" / "client.md").read_text("utf-8")):
            exec(compile(block, "docs/client.md", "exec"), page)

    await asyncio.to_thread(typed_in)
    assert page["reply"].refund_id == "r1"
    assert page["shown"] == {"/fin.v1.Finance/IssueRefund": "…"}

    issue = page["finance"].IssueRefund

    async def answer(asked: Any, call_id: str) -> str:
        return str(await asyncio.to_thread(page["answer"], issue, asked, call_id))

    assert "r1" in await answer(request(), "call_43")
    assert "who can be asked: desk@example.com" in await answer(request("O3"), "call_44")
    assert "1 × finance-lead" in await answer(request(minor=82_000), "call_45")
    door.refusals = [(Reason.SPENT, {"outcome": "EXECUTED"}), (Reason.OUTCOME_UNKNOWN, {})]
    assert await answer(request(), "call_46") == "done already"
    assert "not known yet" in await answer(request(), "call_47")

    wait = page["once_people_answered"]
    waiting = asyncio.ensure_future(asyncio.to_thread(wait, issue, request(minor=82_000), "call_45"))
    await desk.answer(await held(house, call_id="call_45"), "lena")
    assert (await waiting).refund_id == "r1"
    on_asyncio = asyncio.ensure_future(page["refund"](request(minor=83_000), "call_48"))
    await desk.answer(await held(house, 83_000, call_id="call_48"), "lena", APPROVAL_ANSWER_REJECT)
    with pytest.raises(Denied, match="HOLD_REJECTED"):
        await on_asyncio
    await asyncio.to_thread(page["gate"].close)


def test_step_of_an_mcp_tool_says_that_its_arguments_are_json() -> None:
    step = Step("/mcp.github/create_issue", b"{}", "task_1", "call_1", codec=CODEC_JSON_MCP)
    assert step.request().codec == CODEC_JSON_MCP
