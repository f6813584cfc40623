"""How many connections a decider takes: a number of them, and those that stand are served all along."""

import asyncio

import pytest

from decider import connections, entrance
from licet.v1.decision_pb2 import DECISION_TYPE_ALLOW
from tests.worlds.decisions import Ground, House, furnish

pytestmark = pytest.mark.asyncio

MOST = 4


async def opened(house: House) -> tuple[asyncio.StreamWriter, bool]:
    """Connect, and tell whether we were let in: whoever is hears the server's first frame."""
    reader, writer = await asyncio.open_connection("127.0.0.1", house.process.port)
    try:
        return writer, bool(await reader.read(1))
    except ConnectionError:
        return writer, False


@pytest.mark.parametrize("server", ["grpcio", "ngh2"])
async def test_connections_are_bounded_and_those_that_stand_are_served(
    ground: Ground, monkeypatch: pytest.MonkeyPatch, server: str
) -> None:
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", MOST)
    monkeypatch.setattr(entrance, "HANDSHAKE_S", 60.0)  # nobody's place is free before we leave it
    house = await furnish(ground, server=server)
    try:
        flood = [await opened(house) for _ in range(3 * MOST)]
        assert 0 < sum(came_in for _, came_in in flood) < MOST, "one of them is the house's own"
        assert (await house.decide()).decision == DECISION_TYPE_ALLOW
        for writer, _ in flood:
            writer.close()
        async with asyncio.timeout(60):
            came_in = False
            while not came_in:
                writer, came_in = await opened(house)
                writer.close()
    finally:
        await house.close()


@pytest.mark.parametrize(("descriptors", "most"), [(1 << 20, 2_048), (-1, 2_048), (1_024, 768), (1, 1)])
async def test_a_quarter_of_the_descriptors_is_left_for_the_decider_itself(
    descriptors: int, most: int
) -> None:
    assert connections.most_connections(descriptors) == most
