"""The journal on the real server: order, chain, checkpoints, goodbye; kills of both ends."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from licet.event import ZERO_HASH, EventKind, event_hash, read_checkpoint
from licet.journal import Journal, SpoolBroken, SpoolError, SpoolFull
from licet.journal import spool as spool_module
from licet.refusal import Refusal
from licet.streams import StoreUnavailable, stream_audit, subject_audit
from licet.v1.event_pb2 import Event
from tests.worlds.guarded_tool import QuickMint
from tests.worlds.mint import ENVIRONMENT, TOOL, now_ms
from tests.worlds.nats import NatsWorld, Proxy

pytestmark = pytest.mark.asyncio

AUDIT = stream_audit(ENVIRONMENT)
SOURCE = f"spiffe://licet.local/{ENVIRONMENT}/sidecar/{TOOL}"
SUBJECT = subject_audit(ENVIRONMENT, "sidecar", TOOL)
KILLS = 8


class Journals:
    """Runs of one process on one directory."""

    def __init__(self, nats: NatsWorld, mint: QuickMint, directory: Path) -> None:
        self.nats, self.mint, self.directory = nats, mint, directory
        self._runs: list[Journal] = []

    async def start(self, *, publisher: Any = None, **more: Any) -> Journal:
        journal = await Journal.open(
            self.directory,
            source=SOURCE,
            environment=ENVIRONMENT,
            subject=SUBJECT,
            checkpoint_key=self.mint.key(f"checkpoint-sidecar-{TOOL}"),
            publisher=publisher or await self.nats.sidecar(TOOL),
            **more,
        )
        self._runs.append(journal)
        return journal

    async def events(self, count: int) -> list[Event]:
        return [Event.FromString(message.data) for message in await self.nats.until(AUDIT, count)]

    async def stop(self) -> None:
        for journal in self._runs:
            await journal.close(0)


@pytest_asyncio.fixture
async def journals(nats: NatsWorld, mint: QuickMint, tmp_path: Path) -> AsyncIterator[Journals]:
    made = Journals(nats, mint, tmp_path / "spool")
    yield made
    await made.stop()


def runs_of(events: list[Event], mint: QuickMint) -> dict[str, list[Event]]:
    """Check numbers, chain and checkpoints of every run, and return the runs."""
    runs: dict[str, dict[int, Event]] = {}
    for event in events:
        known = runs.setdefault(event.stream, {}).setdefault(event.seq, event)
        assert known == event, "two events with one number"
    for run in runs.values():
        tip = ZERO_HASH
        assert sorted(run) == list(range(1, len(run) + 1))
        for number in sorted(run):
            event = run[number]
            assert event.prev_hash == tip
            if event.kind in {EventKind.CHECKPOINT, EventKind.PROCESS_STOPPED}:
                checkpoint = read_checkpoint(event.checkpoint, mint.keyset, now_ms=now_ms())
                assert not isinstance(checkpoint, Refusal)
                assert (checkpoint.stream, checkpoint.seq, checkpoint.tip) == (event.stream, number - 1, tip)
                assert checkpoint.count == number - 1
            tip = event_hash(tip, event.SerializeToString(deterministic=True))
    return {stream: [run[number] for number in sorted(run)] for stream, run in runs.items()}


async def test_a_run_is_numbered_chained_signed_and_closed(journals: Journals) -> None:
    journal = await journals.start()
    ids = [await journal.append(EventKind.DOOR_REFUSED, reason="NO_PERMIT") for _ in range(5)]
    assert await journal.close()
    run = runs_of(await journals.events(7), journals.mint)[journal.stream]
    assert [event.kind for event in run] == [
        "process.started", *["door.refused"] * 5, "process.stopped"
    ]  # fmt: skip
    assert [event.event_id for event in run[1:6]] == ids
    assert {(event.source, event.environment) for event in run} == {(SOURCE, ENVIRONMENT)}
    assert run[0].previous_stream == ""


async def test_many_at_once_keep_the_order_in_which_they_began(journals: Journals) -> None:
    journal = await journals.start()
    appends = [journal.append(EventKind.DOOR_PASSED, call_id=f"{number}") for number in range(500)]
    await asyncio.gather(*appends)
    await journal.close()
    run = runs_of(await journals.events(503), journals.mint)[journal.stream]
    passed = [event.call_id for event in run if event.kind == "door.passed"]
    assert passed == [f"{number}" for number in range(500)]
    assert [event.seq for event in await journals.events(503)] == list(range(1, 504))


async def test_a_checkpoint_comes_every_256_events(journals: Journals) -> None:
    journal = await journals.start()
    for _ in range(600):
        await journal.append(EventKind.DOOR_REFUSED)
    await journal.close()
    run = runs_of(await journals.events(604), journals.mint)[journal.stream]
    assert [event.seq for event in run if event.kind == "checkpoint"] == [257, 514]


async def test_a_checkpoint_comes_also_when_nothing_happens(journals: Journals) -> None:
    journal = await journals.start(checkpoint_s=0.05)
    events = await journals.events(4)
    assert [event.kind for event in events[:4]] == ["process.started", *["checkpoint"] * 3]
    await journal.close()
    runs_of(await journals.events(5), journals.mint)


async def test_a_new_run_names_the_one_before(journals: Journals) -> None:
    first = await journals.start()
    await first.close()
    second = await journals.start()
    await second.close()
    runs = runs_of(await journals.events(4), journals.mint)
    assert runs[second.stream][0].previous_stream == first.stream


async def test_an_acked_event_is_in_the_stream_when_append_returns(journals: Journals) -> None:
    journal = await journals.start()
    event_id = await journal.append_acked(EventKind.DECISION_ALLOWED, decision_id="d1")
    stored = [Event.FromString(message.data) for message in await journals.nats.messages(AUDIT)]
    assert stored[-1].event_id == event_id


async def test_a_disk_that_hangs_holds_up_nobody_but_who_waits_for_it(
    journals: Journals, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = await journals.start()
    released = threading.Event()
    fdatasync = os.fdatasync

    def hang(file: int) -> None:
        released.wait(60)
        fdatasync(file)

    monkeypatch.setattr(spool_module.os, "fdatasync", hang)
    waits = asyncio.create_task(journal.append(EventKind.DOOR_PASSED))
    await journals.events(2)  # published, and the disk has not answered
    spooled = [journal.spool(EventKind.DOOR_REFUSED) for _ in range(5)]
    assert [event.event_id for event in await journals.events(7)][2:] == spooled
    assert not waits.done()
    released.set()
    assert await waits
    assert await journal.close()


async def test_an_event_that_nobody_waits_for_and_no_server_takes_is_synced(
    journals: Journals, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = await journals.start()
    await journals.events(1)
    journals.nats.server.kill()
    synced = threading.Event()
    fdatasync = os.fdatasync

    def note(file: int) -> None:
        fdatasync(file)
        synced.set()

    monkeypatch.setattr(spool_module.os, "fdatasync", note)
    journal.spool(EventKind.DOOR_REFUSED)
    assert await asyncio.to_thread(synced.wait, 60)
    journals.nats.server.start()
    await journals.events(2)
    assert await journal.close(20)


async def test_a_disk_that_fails_behind_the_back_of_a_spooled_event_stops_the_journal(
    journals: Journals, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was told before the disk failed was in good faith; nothing may be told after."""
    journal = await journals.start()
    await journals.events(1)
    journals.nats.server.kill()

    def fail(_file: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(spool_module.os, "fdatasync", fail)
    journal.spool(EventKind.DOOR_REFUSED)
    async with asyncio.timeout(60):
        while not journal.full:  # noqa: ASYNC110 - the queue's doing
            await asyncio.sleep(0.01)
    with pytest.raises(SpoolBroken):
        journal.spool(EventKind.DOOR_REFUSED)


async def test_without_the_server_events_wait_and_acked_ones_say_so(journals: Journals) -> None:
    journal = await journals.start()
    await journals.events(1)
    journals.nats.server.kill()
    await journal.append(EventKind.DOOR_REFUSED)
    with pytest.raises(StoreUnavailable):
        await journal.append_acked(EventKind.DECISION_ALLOWED, within_s=0.3)
    assert journal.depth == 2
    journals.nats.server.start()
    await journals.events(3)
    await journal.append_acked(EventKind.DECISION_DENIED, within_s=60)
    assert journal.depth == 0
    await journal.close()
    runs_of(await journals.events(5), journals.mint)


async def test_a_journal_begins_before_there_is_a_connection(journals: Journals) -> None:
    journal = await Journal.open(
        journals.directory,
        source=SOURCE,
        environment=ENVIRONMENT,
        subject=SUBJECT,
        checkpoint_key=journals.mint.key(f"checkpoint-sidecar-{TOOL}"),
    )
    await journal.append(EventKind.DOOR_REFUSED)
    assert journal.depth == 2
    journal.attach(await journals.nats.sidecar(TOOL))
    assert await journal.close()
    runs_of(await journals.events(3), journals.mint)


async def test_a_full_spool_refuses_before_it_must_and_recovers(journals: Journals) -> None:
    journal = await journals.start(cap_bytes=8_000)
    await journals.events(1)
    journals.nats.server.kill()
    assert not journal.crowded
    while not journal.crowded:
        await journal.append(EventKind.DOOR_REFUSED)
    assert not journal.full  # refusals are counted before writes are refused
    while not journal.full:
        await journal.append(EventKind.DOOR_REFUSED)
    await asyncio.gather(*(journal.append(EventKind.DOOR_REFUSED) for _ in range(2)))  # room to say why
    with pytest.raises(SpoolFull):
        await asyncio.gather(*(journal.append(EventKind.DOOR_REFUSED) for _ in range(10)))
    waiting = journal.depth
    journals.nats.server.start()
    await journals.events(1 + waiting)
    async with asyncio.timeout(60):
        while journal.full:  # noqa: ASYNC110 - the queue's doing
            await asyncio.sleep(0.01)
    await journal.append(EventKind.DOOR_REFUSED)
    await journal.close()
    runs_of(await journals.events(3 + waiting), journals.mint)


async def test_two_processes_do_not_share_a_directory(journals: Journals) -> None:
    await journals.start()
    with pytest.raises(SpoolBroken, match="another process"):
        await journals.start()


async def test_a_number_out_of_range_leaves_no_gap(journals: Journals) -> None:
    journal = await journals.start()
    for bad in ({"amount_minor": 2**63}, {"tier": -1}, {"no_such_field": 1}, {"seq": 1}):
        with pytest.raises(ValueError):
            await journal.append(EventKind.DOOR_REFUSED, **bad)
    await journal.append(EventKind.DOOR_REFUSED, amount_minor=2**63 - 1)
    await journal.close()
    assert len(runs_of(await journals.events(3), journals.mint)[journal.stream]) == 3


async def test_after_close_nothing_is_recorded(journals: Journals) -> None:
    journal = await journals.start()
    await journal.close()
    with pytest.raises(SpoolError):
        await journal.append(EventKind.DOOR_REFUSED)


async def test_lost_acks_store_no_event_twice(journals: Journals, nats: NatsWorld) -> None:
    proxy = Proxy(nats.server.port)
    await proxy.start()
    journal = await journals.start(publisher=await nats.sidecar(TOOL, proxy.url))
    await journals.events(1)
    proxy.swallow = True
    for _ in range(300):
        await journal.append(EventKind.DOOR_REFUSED)
    await journals.events(250)
    proxy.cut()
    proxy.swallow = False
    assert await journal.close(10)
    await proxy.stop()
    events = await journals.events(303)
    assert len({event.event_id for event in events}) == len(events) == 303
    runs_of(events, journals.mint)


CHILD = """
import asyncio, sys
from pathlib import Path
from licet.event import EventKind
from licet.journal import Journal
from licet.keyfile import read_signing_key
from licet.streams import NatsSettings, Publisher, connect

async def main(directory, key, url, password, subject, source):
    settings = NatsSettings(url, "sidecar-finance", Path(password))
    publisher = await Publisher.open(await connect(settings, "child"))
    journal = await Journal.open(
        Path(directory), source=source, environment="dev", subject=subject,
        checkpoint_key=read_signing_key(Path(key)), publisher=publisher, checkpoint_s=0.02,
    )
    async def work(waits):
        while True:
            if waits:
                event_id = await journal.append(EventKind.DOOR_PASSED, detail="x" * 200)
            else:
                event_id = journal.spool(EventKind.DOOR_PASSED, detail="x" * 200)
                await asyncio.sleep(0.01)
            sys.stdout.write(event_id + "\\n")
            sys.stdout.flush()
    await asyncio.gather(*(work(number % 2) for number in range(8)))

asyncio.run(main(*sys.argv[1:]))
"""


KILLED_AT_ONCE = """
import asyncio, os, signal, sys
from pathlib import Path
from licet.event import EventKind
from licet.journal import Journal
from licet.keyfile import read_signing_key

async def main(directory, key, subject, source, when):
    journal = await Journal.open(
        Path(directory), source=source, environment="dev", subject=subject,
        checkpoint_key=read_signing_key(Path(key)),
    )
    if when == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    sys.stdout.write(journal.spool(EventKind.DOOR_PASSED, call_id="call_42"))
    sys.stdout.flush()
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.parametrize(("when", "passed"), [("after", 1), ("before", 0)])
async def test_a_kill_right_after_an_event_was_spooled_loses_nothing(
    journals: Journals, when: str, passed: int
) -> None:
    """Nothing was published and nothing synced: the event loop never ran again. Its twin never spooled."""
    key = journals.mint.keys_dir / f"checkpoint-sidecar-{TOOL}.key"
    command = (sys.executable, "-c", KILLED_AT_ONCE, str(journals.directory), str(key), SUBJECT, SOURCE, when)
    child = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
    event_id, _ = await child.communicate()
    assert child.returncode == -signal.SIGKILL
    assert await journals.nats.messages(AUDIT) == []
    last = await journals.start()
    assert await last.close(20)
    runs = runs_of(await journals.events(3 + passed), journals.mint)
    killed = next(run for stream, run in runs.items() if stream != last.stream)
    assert [event.kind for event in killed] == ["process.started", *["door.passed"] * passed]
    assert [event.event_id for event in killed[1:]] == [event_id.decode()] * passed


def spawn(arguments: list[str]) -> "subprocess.Popen[str]":
    return subprocess.Popen([sys.executable, "-c", CHILD, *arguments], stdout=subprocess.PIPE, text=True)


@pytest.mark.timeout(240)
async def test_no_event_is_lost_over_kills_of_the_process(journals: Journals, nats: NatsWorld) -> None:
    """Whatever `append` or `spool` returned for is in the stream once, in an unbroken chain, after the next
    run.
    """
    key = journals.mint.keys_dir / f"checkpoint-sidecar-{TOOL}.key"
    password = nats.server.password_file(f"sidecar-{TOOL}")
    arguments = [str(journals.directory), str(key), nats.server.url, str(password), SUBJECT, SOURCE]
    returned: set[str] = set()
    for kill in range(KILLS):
        child = spawn(arguments)
        assert child.stdout is not None
        for _ in range(20 + 13 * kill):
            returned.add((await asyncio.to_thread(child.stdout.readline)).strip())
        if kill % 5 == 4:
            nats.server.kill()
        child.send_signal(signal.SIGKILL)
        returned |= {line.strip() for line in child.stdout if len(line) == 33}
        child.wait()
        child.stdout.close()
        nats.server.start()
    last = await journals.start()
    assert await last.close(20)
    events = [Event.FromString(message.data) for message in await nats.until(AUDIT, len(returned))]
    assert returned <= {event.event_id for event in events}
    assert len(events) == len({event.event_id for event in events})
    runs = runs_of(events, journals.mint)
    assert len(runs) == KILLS + 1
    ended = [run for run in runs.values() if run[-1].kind == "process.stopped"]
    assert [run[0].stream for run in ended] == [last.stream]
    named = {run[0].previous_stream for run in runs.values()} - {""}
    assert named == set(runs) - {last.stream}
