"""Streams made, repaired and judged; connections, publishing and configuration on the real server."""

import asyncio
import contextlib
import json
import os
from asyncio.subprocess import PIPE
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from licet.cli import app
from licet.embedded.nats_accounts import SETUP
from licet.embedded.nats_server import NatsCluster, NatsServer, find_binary
from licet.statement import artifact_sha256, canonical
from licet.streams import (
    EMBEDDED_SIZES,
    ActivationLost,
    ArtifactDamaged,
    ConfigStore,
    Connection,
    CredentialsRefused,
    NatsSettings,
    Publisher,
    SpendPosition,
    StoreRefused,
    StoreUnavailable,
    StreamSizes,
    UnsafeChange,
    apply_streams,
    check_streams,
    connect,
    spend_position,
    stream_audit,
    stream_budget,
    stream_config,
    stream_ledger,
    stream_payload,
    stream_spend,
    stream_spend_log,
    subject_artifact,
    subject_audit,
    subject_config_active,
    subject_spend,
)
from licet.streams.api import call
from licet.streams.settings import DAY_S, NANOSECONDS
from licet.v1.beacon_pb2 import ActiveConfig
from tests.worlds.guarded_tool import QuickMint
from tests.worlds.mint import ENVIRONMENT
from tests.worlds.nats import NatsWorld, Proxy

pytestmark = pytest.mark.asyncio

SPEND = stream_spend(ENVIRONMENT)
ALL = {
    SPEND,
    stream_spend_log(ENVIRONMENT),
    stream_audit(ENVIRONMENT),
    stream_ledger(ENVIRONMENT),
    stream_payload(ENVIRONMENT),
    stream_config(ENVIRONMENT),
    stream_budget(ENVIRONMENT),
}


def reserve(number: int) -> str:
    return subject_spend(ENVIRONMENT, "finance", f"{number:032x}", 0, "reserve")


async def update(nats: NatsWorld, stream: str, **changes: Any) -> None:
    info = await call(nats.setup, f"STREAM.INFO.{stream}")
    await call(nats.setup, f"STREAM.UPDATE.{stream}", {**info["config"], **changes})


async def test_a_second_apply_changes_nothing(nats: NatsWorld) -> None:
    assert await check_streams(nats.setup, ENVIRONMENT) == ()
    done = await apply_streams(nats.setup, ENVIRONMENT, sizes=EMBEDDED_SIZES)
    assert {(one.stream, one.action) for one in done} == {(stream, "unchanged") for stream in ALL}


async def test_an_unsafe_setting_is_repaired_and_told(nats: NatsWorld) -> None:
    await update(nats, SPEND, max_msgs_per_subject=5)
    done = {one.stream: one for one in await apply_streams(nats.setup, ENVIRONMENT, sizes=EMBEDDED_SIZES)}
    assert [problem.setting for problem in done[SPEND].repaired] == ["max_msgs_per_subject"]
    assert await check_streams(nats.setup, ENVIRONMENT) == ()


async def test_a_missing_stream_is_a_problem(nats: NatsWorld) -> None:
    problems = await check_streams(nats.setup, "dev", only=frozenset({SPEND}))
    assert problems == ()
    server = await connect(nats.server.settings(SETUP), "other", forever=False)
    with pytest.raises(StoreUnavailable):  # the user may not even look at another environment's streams
        await check_streams(server, "prod")
    await server.close()


@pytest.mark.parametrize("stream", sorted(ALL))
async def test_a_setting_this_version_does_not_know_is_a_problem(nats: NatsWorld, stream: str) -> None:
    await update(nats, stream, republish={"src": ">", "dest": "elsewhere.>"})
    found = await check_streams(nats.setup, ENVIRONMENT)
    assert [(problem.stream, problem.setting) for problem in found] == [(stream, "republish")]
    assert "republish" in str(found[0])


async def test_a_source_with_a_filter_is_a_problem(nats: NatsWorld) -> None:
    """Such a log would leave out whom it was told to leave out."""
    log = stream_spend_log(ENVIRONMENT)
    await update(nats, log, sources=[{"name": SPEND, "filter_subject": "licet.spend.dev.crm.>"}])
    found = await check_streams(nats.setup, ENVIRONMENT)
    assert [(problem.stream, problem.setting) for problem in found] == [(log, "sources")]


async def test_a_longer_age_is_kept_and_messages_stay(nats: NatsWorld) -> None:
    await update(nats, SPEND, max_age=3 * DAY_S * NANOSECONDS)
    await (await nats.sidecar()).publish(reserve(1), b"x", msg_id="a")
    assert await check_streams(nats.setup, ENVIRONMENT) == ()
    await apply_streams(nats.setup, ENVIRONMENT, sizes=EMBEDDED_SIZES)
    info = await call(nats.setup, f"STREAM.INFO.{SPEND}")
    assert info["config"]["max_age"] == 3 * DAY_S * NANOSECONDS
    assert info["state"]["messages"] == 1


async def test_a_size_below_what_is_stored_is_refused(nats: NatsWorld) -> None:
    store = await nats.sidecar()
    for number in range(10):
        await store.publish(reserve(number), b"x" * 500, msg_id=str(number))
    with pytest.raises(UnsafeChange, match="more than its new limit"):
        await apply_streams(nats.setup, ENVIRONMENT, sizes=StreamSizes(spend_bytes=1_000))
    assert len(await nats.messages(SPEND)) == 10


async def test_a_stream_that_was_not_write_once_is_not_quietly_made_so(nats: NatsWorld) -> None:
    """Its second messages may be second spends: people must look."""
    await update(nats, SPEND, max_msgs_per_subject=2, discard_new_per_subject=False)
    store = await nats.sidecar()
    await store.publish(reserve(1), b"one", msg_id="a")
    await store.publish(reserve(1), b"two", msg_id="b")
    with pytest.raises(UnsafeChange, match="write-once"):
        await apply_streams(nats.setup, ENVIRONMENT, sizes=EMBEDDED_SIZES)


async def test_commands_print_what_they_did(nats: NatsWorld) -> None:
    def run(*arguments: str) -> Any:
        options = ["--environment", ENVIRONMENT, "--nats-url", nats.server.url]
        password = ["--nats-password-file", str(nats.server.password_file(SETUP))]
        return CliRunner().invoke(app, ["streams", *arguments, *options, *password])

    done = await asyncio.to_thread(run, "apply", "--json", "--spend-mib", "256")
    assert done.exit_code == 0, done.output
    assert {row["stream"] for row in json.loads(done.stdout)} == ALL
    assert (await asyncio.to_thread(run, "check")).exit_code == 0
    await update(nats, SPEND, discard="old", discard_new_per_subject=False)
    unsafe = await asyncio.to_thread(run, "check")
    assert unsafe.exit_code == 1
    assert "discard is `old`, must be `new`" in unsafe.stdout


async def test_a_server_of_ones_own_runs_on_the_written_accounts(tmp_path: Path) -> None:
    """Production includes this file; a second run changes no password."""
    out, passwords = tmp_path / "accounts.conf", tmp_path / "passwords"
    arguments = ["streams", "accounts", "--environment", ENVIRONMENT, "--tool", "finance", "--tool", "crm"]
    for _ in range(2):
        done = CliRunner().invoke(app, [*arguments, "--passwords", str(passwords), "--out", str(out)])
        assert done.exit_code == 0, done.output
    assert out.stat().st_mode & 0o777 == 0o600
    written = json.loads(out.read_text())["accounts"]
    assert set(written) == {"HUB", "tool-finance", "tool-crm"}
    assert (tmp_path / "passwords" / "sidecar-crm.password").read_text().strip() in out.read_text()
    main = tmp_path / "nats.conf"
    main.write_text(f'jetstream {{ store_dir: "{tmp_path}/js" }}\ninclude "accounts.conf"\n')
    checked = await asyncio.create_subprocess_exec(find_binary(), "-t", "-c", str(main), stderr=PIPE)
    assert await checked.wait() == 0, await checked.stderr.read()  # type: ignore[union-attr]
    hostile = ["--passwords", str(passwords), "--out", str(out), "--tool", "a.>"]
    assert CliRunner().invoke(app, [*arguments, *hostile]).exit_code == 1


async def test_the_log_says_where_it_is_also_after_a_restart(nats: NatsWorld) -> None:
    store = await nats.sidecar()
    for number in range(3):
        await store.publish(reserve(number), b"x", msg_id=str(number))
    await nats.until(stream_spend_log(ENVIRONMENT), 3)
    nats.server.kill()
    nats.server.start()
    async with asyncio.timeout(60):
        while not nats.setup.is_connected:  # noqa: ASYNC110 - the client's doing
            await asyncio.sleep(0.02)
    position = await spend_position(await nats.connect("decider"), ENVIRONMENT)
    assert (position.last_seq, position.log_origin_seq) == (3, 3)


async def test_port_and_passwords_stay_over_restarts_and_are_private(tmp_path: Path) -> None:
    first = NatsServer(tmp_path / "n", environment=ENVIRONMENT, tools=("finance",))
    password = first.password_file(SETUP).read_text()
    second = NatsServer(tmp_path / "n", environment=ENVIRONMENT, tools=("finance", "new-tool"))
    assert (second.url, second.password_file(SETUP).read_text()) == (first.url, password)
    second.start()
    private = [second.password_file("sidecar-new-tool"), tmp_path / "n" / "nats.conf"]
    assert {path.stat().st_mode & 0o077 for path in private} == {0}
    await (await connect(second.settings("sidecar-new-tool"), "t", forever=False)).close()
    second.stop()
    second.stop()
    assert second.pid is None


async def test_a_server_left_by_a_killed_parent_is_ended_before_the_next(tmp_path: Path) -> None:
    left = NatsServer(tmp_path / "n", environment=ENVIRONMENT, tools=())
    left.start()
    pid = left.pid
    assert pid is not None
    process, left._process = left._process, None
    assert process is not None
    waiting = asyncio.create_task(asyncio.to_thread(process.wait))  # reaps what init would
    following = NatsServer(tmp_path / "n", environment=ENVIRONMENT, tools=())
    await asyncio.to_thread(following.start)
    await waiting
    assert following.pid not in {None, pid}
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    following.stop()


async def test_wrong_credentials_fail_at_once_for_services_too(nats: NatsWorld, tmp_path: Path) -> None:
    (tmp_path / "wrong").write_text("no")
    for forever in (True, False):
        with pytest.raises(CredentialsRefused, match="decider"):
            await connect(NatsSettings(nats.server.url, "decider", tmp_path / "wrong"), "t", forever=forever)


async def test_a_try_that_takes_its_cancellation_for_a_failed_try_is_cancelled_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cancelled = 0

    async def stubborn(*_: Any, **__: Any) -> None:
        nonlocal cancelled
        while cancelled < 2:
            try:
                await asyncio.sleep(3_600)
            except asyncio.CancelledError:
                cancelled += 1

    monkeypatch.setattr("licet.streams.connection._open", stubborn)
    with pytest.raises(StoreUnavailable):
        await connect(NatsSettings("nats://127.0.0.1:1"), "t", within_s=0.01)
    assert cancelled == 2


async def test_a_password_file_that_is_not_there_is_said_to_be_missing(tmp_path: Path) -> None:
    absent = tmp_path / "absent"
    with pytest.raises(StoreUnavailable, match="absent"):
        await connect(NatsSettings("nats://127.0.0.1:1", "decider", absent), "t")


async def test_no_server_is_said_to_be_unavailable(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="no nats server"):
        await connect(NatsSettings("nats://127.0.0.1:1"), "t", within_s=0.5)


async def test_a_link_that_went_silent_is_noticed(nats: NatsWorld) -> None:
    proxy = Proxy(nats.server.port)
    await proxy.start()
    publisher = await nats.sidecar("finance", proxy.url)
    proxy.black_hole = True
    async with asyncio.timeout(60):
        while publisher.connected:  # noqa: ASYNC110 - the client's doing
            await asyncio.sleep(0.05)
    with pytest.raises(StoreUnavailable) as away:
        await publisher.publish(reserve(1), b"x")
    assert not away.value.maybe_stored
    await proxy.stop()


async def test_acks_find_their_publishes_and_leave_nothing_behind(nats: NatsWorld) -> None:
    publisher = await nats.sidecar()
    subject = subject_audit(ENVIRONMENT, "sidecar", "finance")
    acks = await asyncio.gather(*(publisher.publish(subject, b"%d" % number) for number in range(500)))
    stored = {message.seq: message.data for message in await nats.messages(stream_audit(ENVIRONMENT))}
    assert [stored[ack.seq] for ack in acks] == [b"%d" % number for number in range(500)]
    assert publisher.in_flight == 0


async def test_what_waits_when_a_publisher_closes_is_told(nats: NatsWorld) -> None:
    proxy = Proxy(nats.server.port)
    await proxy.start()
    publisher = await nats.sidecar("finance", proxy.url)
    proxy.swallow = True
    waiting = asyncio.create_task(publisher.publish(reserve(1), b"x"))
    await asyncio.sleep(0.05)
    await publisher.close()
    with pytest.raises(StoreUnavailable, match="closed"):
        await waiting
    await proxy.stop()


async def test_a_configuration_is_replaced_only_by_who_has_seen_it(nats: NatsWorld) -> None:
    one = ConfigStore(await Publisher.open(await nats.connect(SETUP)), ENVIRONMENT)
    two = ConfigStore(await Publisher.open(await nats.connect(SETUP)), ENVIRONMENT)
    config = ActiveConfig(version=1, environment=ENVIRONMENT, generation=1, bundle_version=1)
    assert await one.active() is None
    seq = await one.activate(config, 0)
    assert await two.active() == (config, seq)
    with pytest.raises(ActivationLost):
        await two.activate(config, 0)
    changed = ActiveConfig(version=1, environment=ENVIRONMENT, generation=1, bundle_version=2)
    later = await two.activate(changed, seq)
    assert later > seq
    assert await one.active() == (changed, later)
    with pytest.raises(ValueError, match="prod"):
        await one.activate(ActiveConfig(version=1, environment="prod"), later)


async def test_an_artifact_is_what_its_digest_says(nats: NatsWorld, mint: QuickMint) -> None:
    publisher = await Publisher.open(await nats.connect(SETUP))
    store = ConfigStore(publisher, ENVIRONMENT)
    signed = mint.keyset_signed
    digest = await store.put_artifact(signed)
    assert digest == artifact_sha256(signed).hex()
    assert await store.put_artifact(signed) == digest
    assert await store.artifact(digest) == canonical(signed)
    assert await store.artifact("0" * 64) is None
    await publisher.publish(subject_artifact(ENVIRONMENT, "1" * 64), b"something else")
    with pytest.raises(ArtifactDamaged):
        await store.artifact("1" * 64)
    await publisher.publish(subject_config_active(ENVIRONMENT), b"\xff\xff")
    with pytest.raises(ArtifactDamaged):
        await store.active()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kills", [1, pytest.param(3, marks=pytest.mark.soak)])
async def test_three_servers_keep_acked_spends_over_a_kill_of_each(tmp_path: Path, kills: int) -> None:
    cluster = NatsCluster(tmp_path, environment=ENVIRONMENT, tools=("finance",))
    await asyncio.to_thread(cluster.start)
    setup = await connect(cluster.settings(SETUP), "setup")
    await apply_streams(setup, ENVIRONMENT, replicas=3, sizes=EMBEDDED_SIZES)
    publisher = await Publisher.open(await connect(cluster.settings("sidecar-finance"), "sidecar"))
    acked: list[int] = []
    try:
        for server in cluster.servers[:kills]:
            acked += await publish_some(publisher, len(acked), 40)
            server.kill()
            acked += await publish_some(publisher, len(acked), 40)
            await asyncio.to_thread(server.start, 30)
        position = await caught_up(setup, len(acked))
        assert await checked(setup) == ()
        assert len(set(acked)) == 80 * kills
        assert position.last_seq == position.log_origin_seq == 80 * kills
    finally:
        await setup.close()
        await publisher.nc.close()
        cluster.stop()


async def caught_up(setup: Connection, count: int) -> SpendPosition:
    """Wait for the log; after a kill of its leader the servers took up to a minute to go on sourcing."""
    position = SpendPosition(0, 0, 0, 0)
    async with asyncio.timeout(150):
        while position.log_origin_seq < count:
            await asyncio.sleep(0.1)
            with contextlib.suppress(StoreUnavailable, StoreRefused):  # a new leader is being elected
                position = await spend_position(setup, ENVIRONMENT)
    return position


async def checked(setup: Connection) -> tuple[str, ...]:
    """Check the streams, once each of them has a leader again."""
    async with asyncio.timeout(100):
        while True:
            with contextlib.suppress(StoreUnavailable):
                return tuple(map(str, await check_streams(setup, ENVIRONMENT, replicas=3)))


async def publish_some(publisher: Publisher, start: int, count: int) -> list[int]:
    """Publish until each is acked, again under the same Msg-Id where an ack is missing."""
    seqs = []
    for number in range(start, start + count):
        async with asyncio.timeout(30):
            while True:
                try:
                    ack = await publisher.publish(reserve(number), b"x", msg_id=f"{number}", timeout=1)
                except (StoreUnavailable, StoreRefused):
                    await asyncio.sleep(0.1)
                    continue
                seqs.append(ack.seq)
                break
    return seqs
