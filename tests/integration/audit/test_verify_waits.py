"""`licet audit verify` and a JetStream that goes away: it waits, says so, and calls nothing sound unread."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from audit.proof import origin as under_test
from audit.proof.asking_again import AskingAgain
from audit.proof.origin import origin_problems
from audit.proof.witness import SETTINGS
from audit.store.row import COLUMNS, insert_settings
from audit.store.sheet import encode
from audit.store.stored import House
from audit.writing.tail import Tail
from audit.writing.writer import streams
from licet.embedded.dev_keys import make_dev_keys
from licet.embedded.nats_server import find_binary
from licet.embedded.ports import free_port
from licet.streams import CredentialsRefused, NatsSettings, StoreUnavailable, subject_ledger
from licet.streams.api import call
from licet.v1.guard_pb2 import LedgerChange

AUDIT, LEDGER = "LICET_AUDIT_dev", "LICET_LEDGER_dev"
SUBJECT = "licet.audit.dev.decider.main"


def change(number: int) -> bytes:
    return LedgerChange(
        outbox_seq=number,
        audience="licet://licet.local/dev/finance",
        spend_id=f"{number:032x}",
        entry=1,
        change_id=f"c/{number}",
        resource="order:O1",
        tenant="t1",
        account="a",
        amount_minor=5,
        currency="USD",
        committed_at_us=1_790_000_000_000_000,
        issuer="permit",
    ).SerializeToString(deterministic=True)


async def fill(house: Any, rows: int) -> None:
    house.start_writer(LICET_KEYS_DIR="")
    for number in range(1, rows + 1):
        subject = subject_ledger("dev", "finance", number)
        await house.publish([change(number)], subject, "sidecar-finance")
    await house.until(house.stored(rows, LEDGER))


def command(house: Any, directory: Path, *options: str) -> subprocess.Popen[str]:
    make_dev_keys(directory / "keys", "dev", ("finance",), (), "licet.local")
    told = {**house.environment(), "LICET_KEYS_DIR": str(directory / "keys")}
    line = (sys.executable, "-m", "licet", "audit", "verify", *options)
    return subprocess.Popen(line, env=told, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.asyncio
@pytest.mark.timeout(180)
async def test_server_killed_while_it_is_compared_with_is_read_to_the_end(
    house: Any, monkeypatch: Any
) -> None:
    monkeypatch.setattr(under_test, "BATCH", 3)
    await fill(house, 8)
    house.store.client.command(
        "ALTER TABLE events UPDATE js_subject = 'x' WHERE js_seq IN (2, 7)", settings={"mutations_sync": "2"}
    )
    told: list[str] = []
    notes: list[str] = []
    origin = AskingAgain(house.nats.settings("audit-writer"), "test", tell=told.append)
    found = origin_problems(origin, house.store.client, "dev", dict(SETTINGS), notes)
    where = [(await anext(found)).where]  # so the cursor is open, and there is more to read
    house.nats.kill()
    await asyncio.to_thread(house.nats.start)
    where += [problem.where async for problem in found]
    await origin.close()
    assert where == [f"{LEDGER} 2", f"{LEDGER} 7"]
    assert f"{LEDGER}: 8 messages compared with JetStream" in notes
    assert all(f"messages of `{LEDGER}` from 4 on" in text for text in told)


@pytest.mark.asyncio
@pytest.mark.timeout(180)
async def test_command_waits_for_a_server_that_is_away_and_says_what_for(house: Any, tmp_path: Path) -> None:
    await fill(house, 3)
    await asyncio.to_thread(house.nats.stop)
    process = command(house, tmp_path)
    assert process.stderr is not None
    said = ""
    while "waiting for JetStream" not in said:
        line = await asyncio.to_thread(process.stderr.readline)
        assert line, said
        said += line
    await asyncio.to_thread(house.nats.start)
    out, more = await asyncio.to_thread(process.communicate)
    assert process.returncode == 0, out + more
    assert "stream `LICET_AUDIT_dev`" in said
    assert f"{LEDGER}: 3 messages compared with JetStream" in more
    assert "sound: 3 rows" in more


@pytest.mark.asyncio
@pytest.mark.timeout(180)
async def test_command_that_waited_in_vain_has_not_verified(house: Any, tmp_path: Path) -> None:
    await fill(house, 3)
    await asyncio.to_thread(house.nats.stop)
    process = command(house, tmp_path, "--patience", "1")
    out, err = await asyncio.to_thread(process.communicate)
    assert process.returncode == 1
    assert "waited 1 s for stream `LICET_AUDIT_dev`, in vain" in err
    assert "sound" not in out + err


@pytest.mark.asyncio
async def test_refused_credentials_are_not_waited_for(house: Any, tmp_path: Path) -> None:
    (tmp_path / "wrong").write_text("wrong\n")
    origin = AskingAgain(NatsSettings(house.nats.url, "audit-writer", tmp_path / "wrong"), "test")
    with pytest.raises(CredentialsRefused):
        _ = [problem async for problem in origin_problems(origin, house.store.client, "dev", {}, [])]


@pytest.mark.asyncio
@pytest.mark.timeout(120)
async def test_user_who_may_not_read_the_streams_is_told_so_and_does_not_wait(house: Any) -> None:
    await fill(house, 1)
    told: list[str] = []
    origin = AskingAgain(house.nats.settings("sidecar-finance"), "test", tell=told.append)
    with pytest.raises(StoreUnavailable, match=r"(?i)permissions violation"):
        _ = [problem async for problem in origin_problems(origin, house.store.client, "dev", {}, [])]
    await origin.close()
    assert told == []


@pytest.fixture
def open_nats(tmp_path: Path) -> Iterator[str]:
    """A server whose streams may lose messages; ours never may."""
    port = free_port()
    line = (find_binary(), "-js", "-sd", str(tmp_path / "js"), "-a", "127.0.0.1", "-p", str(port))
    process = subprocess.Popen(line, stderr=subprocess.DEVNULL)
    yield f"nats://127.0.0.1:{port}"
    process.terminate()
    process.wait(20)


@pytest.mark.asyncio
@pytest.mark.timeout(120)
@pytest.mark.parametrize(("deleted", "vain"), [(0, False), (2, False), (3, True)])
async def test_message_that_jetstream_lost_is_named_or_waited_for_and_never_passed_over(
    open_nats: str, store: Any, event: Any, deleted: int, vain: bool
) -> None:
    settings = NatsSettings(open_nats)
    origin = AskingAgain(settings, "test", patience_s=20)
    nc = await origin.ask("the server", lambda nc: asyncio.sleep(0, nc))
    for name in streams("dev"):
        subject = "licet.audit.dev.>" if "AUDIT" in name else f"other.{name}"
        await call(nc, f"STREAM.CREATE.{name}", {"name": name, "subjects": [subject], "storage": "file"})
    for number in range(1, 4):
        await nc.request(SUBJECT, event(number), timeout=10)
    tail = Tail(nc, AUDIT)
    rows = encode(await tail.read(1, 3), House("dev", "licet.local", None))
    await tail.close()
    settings_ = dict(insert_settings(f"{AUDIT}:1"))
    store.client.raw_insert("events", COLUMNS, rows, fmt="Protobuf", settings=settings_)
    if deleted:
        await call(nc, "STREAM.MSG.DELETE.LICET_AUDIT_dev", {"seq": deleted})
    impatient = AskingAgain(settings, "test", patience_s=0.1)
    found = origin_problems(impatient, store.client, "dev", dict(SETTINGS), [])
    if vain:
        with pytest.raises(StoreUnavailable, match="no message came, though the stream should have 3 to 3"):
            _ = [problem async for problem in found]
    else:
        lost = "the store has the row, JetStream has no such message"
        expected = [(f"LICET_AUDIT_dev {deleted}", lost)] if deleted else []
        assert [(problem.where, problem.detail) async for problem in found] == expected
    await impatient.close()
    await origin.close()
