"""What a door says of its tool's guard."""

from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc import aio

from licet.catalog import Catalog, read_catalog
from licet.v1 import guard_pb2
from licet.v1.statement_pb2 import Signed
from sidecar.tool.guard_link import GuardLink
from tests.worlds.mint import Mint, build_signed_catalog, now_ms

pytestmark = pytest.mark.asyncio


class Stub:
    """A tool's guard, or the answer of a tool that serves none."""

    def __init__(self, code: grpc.StatusCode | None) -> None:
        self.code = code

    async def Beacon(self, _request: Any, timeout: float) -> guard_pb2.BeaconResponse:  # noqa: N802 - the proto's name
        del timeout
        if self.code is not None:
            raise aio.AioRpcError(self.code, aio.Metadata(), aio.Metadata())
        return guard_pb2.BeaconResponse(accepted=True)


class Told:
    """What is handed over, as far as the link looks at it."""

    signed = keyset_signed = Signed()
    revocations_signed = None

    def __init__(self) -> None:
        self.keys = self.revocations = self
        self.version = self.seq = 0


@pytest.mark.parametrize("guarded", [True, False])
async def test_a_guard_that_is_not_there_is_missed_where_the_catalog_asks_for_one(
    mint: Mint, tmp_path: Path, guarded: bool
) -> None:
    bare = {"guarded": False, "unguarded": "at_most_once"}
    signed = build_signed_catalog(mint.key("catalog"), IssueRefund={} if guarded else bare)
    catalog = read_catalog(signed, mint.keyset, environment="dev", now_ms=now_ms())
    assert isinstance(catalog, Catalog), catalog
    link = GuardLink(aio.insecure_channel(f"unix:{tmp_path / 'none.sock'}"))
    stub: Any = Stub(grpc.StatusCode.UNIMPLEMENTED)
    link._stub = stub
    told: Any = Told()
    await link.hand_over(told)
    assert bool(link.reason(catalog)) is guarded
    link._absent_until = 0.0  # it is asked again: that alone does not make it well
    assert bool(link.reason(catalog)) is guarded
    stub.code = None
    await link.hand_over(told)
    assert link.reason(catalog) == ""
