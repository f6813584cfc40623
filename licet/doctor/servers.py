"""Checks over the network: NATS and its streams, the decider's beacon and clock, ClickHouse."""

import asyncio
import urllib.error
import urllib.parse
import urllib.request
from base64 import b64encode
from typing import Final

import grpc
import grpc.aio

from licet.clock import wall_ms
from licet.doctor.finding import Finding, ok, problem, skipped
from licet.doctor.settings import DoctorSettings
from licet.identity import decider_id
from licet.metadata import DEV_IDENTITY
from licet.streams import StreamsError, check_streams, connect
from licet.tls_relay import CertificateFiles, TlsRelay
from licet.v1 import beacon_pb2, decider_pb2, decider_pb2_grpc
from licet.v1.statement_pb2 import Signed

TIMEOUT_S: Final = 15.0
"""What is slower than this is away, for a person who waits."""
CLICKHOUSE_S: Final = 30.0
"""As long as the audit's own processes wait for a connection."""

MAX_SKEW_MS: Final = 1_000
"""As the door asserts it."""

MAX_AGE_MS: Final = 5_000
"""From here on the door lets no write through."""

BETWEEN_S: Final = 1.5
"""Beacons come every second: the second look must see a newer one."""

HUB_USERS: Final = frozenset({"setup", "decider", "audit-writer", "reconciler"})


async def check_nats(settings: DoctorSettings, replicas: int) -> Finding:
    """NATS takes our user, and every stream is safe; a door's user may not look at streams."""
    if not settings.nats_url:
        return skipped("streams", "nats_url")
    try:
        nc = await connect(settings.nats, "licet-doctor", forever=False)
    except (StreamsError, OSError) as error:
        return problem("streams", f"NATS: {error}", "is the server up, and are user and password its own?")
    try:
        if settings.nats_user not in HUB_USERS:
            return ok(
                "streams", f"NATS takes `{settings.nats_user}`; only our own services may look at streams"
            )
        found = await check_streams(nc, settings.environment, replicas=replicas)
    except StreamsError as error:
        return problem("streams", str(error), "`licet streams apply`")
    finally:
        await nc.close()
    if found:
        return problem("streams", "; ".join(str(one) for one in found), "`licet streams apply`")
    return ok("streams", f"the streams of `{settings.environment}` are safe")


async def check_beacon(settings: DoctorSettings) -> tuple[Finding, Finding]:
    """The decider signs beacons, they say that the store is safe, and its clock is ours."""
    if not settings.decider:
        return skipped("beacon", "decider"), skipped("clock", "decider")
    relay = None
    try:
        relay = _relay(settings)
        first = await _beacon(settings, relay)
        await asyncio.sleep(BETWEEN_S)
        second = await _beacon(settings, relay)
    except (grpc.aio.AioRpcError, OSError) as error:
        said: object = error.details() if isinstance(error, grpc.aio.AioRpcError) else error
        trouble = relay.trouble if relay is not None else ""
        nobody = problem(
            "beacon",
            f"`{settings.decider}`: {trouble or said}",
            "is a decider up, has its certificate its SPIFFE id and this name, and does it take ours?",
        )
        return nobody, skipped("clock", "decider")
    finally:
        if relay is not None:
            await relay.close()
    return judge_beacon(first, second, now_ms=wall_ms(), generation=settings.generation)


def judge_beacon(
    first: beacon_pb2.Beacon, second: beacon_pb2.Beacon, *, now_ms: int, generation: int = 0
) -> tuple[Finding, Finding]:
    """Return what two beacons, 1.5 s apart, say of the decider and of its clock.

    `generation` is the one that a door's key is of, 0 for who is no door: a door of another one refuses every
    call with GENERATION_SUPERSEDED, however well all else is.
    """
    age_ms = now_ms - second.issued_at_ms
    unclear = Finding("clock", skipped("clock").state, "no fresh beacon to compare with")
    if second.issued_at_ms <= first.issued_at_ms:
        stale = problem("beacon", f"the decider signs none: the last is {age_ms} ms old", "can it read NATS?")
        return stale, unclear
    clock = ok("clock", f"within {MAX_AGE_MS} ms of the decider's")
    if age_ms < -MAX_SKEW_MS or age_ms > MAX_AGE_MS:
        side = "behind" if age_ms < 0 else "ahead of"
        clock = problem(
            "clock",
            f"ours is about {abs(age_ms)} ms {side} the decider's",
            "mend the time service of the node that is off",
        )
    if not second.store_safe:
        return problem("beacon", "it says that the spend store is not safe", "`licet streams check`"), clock
    if generation and generation != second.generation:
        other = problem(
            "beacon",
            f"generation {second.generation} is in force, this door's key is of {generation}: no call passes",
            f"`licet keys generation {second.generation}`, then the tool's Secret, and its chart"
            if generation < second.generation
            else f"`licet policy generation --to {generation}`, where a restore is under way",
        )
        return other, clock
    return ok("beacon", f"bundle {second.bundle_version}, generation {second.generation}"), clock


def _relay(settings: DoctorSettings) -> TlsRelay | None:
    """Return mTLS to the environment's decider and to nobody else; None without certificates."""
    certificate, key, authority = settings.tls_certificate_file, settings.tls_key_file, settings.tls_ca_file
    if certificate is None or key is None or authority is None:
        return None
    expected = decider_id(settings.trust_domain, settings.environment)
    relay = TlsRelay(settings.decider, CertificateFiles(certificate, key, authority), expected)
    relay.start()
    return relay


async def _beacon(settings: DoctorSettings, relay: TlsRelay | None) -> beacon_pb2.Beacon:
    channel = grpc.aio.insecure_channel(settings.decider) if relay is None else relay.channel(())
    identity = ((DEV_IDENTITY, settings.identity),) if settings.identity else ()
    async with channel:
        stub: decider_pb2_grpc.DeciderServiceAsyncStub = decider_pb2_grpc.DeciderServiceStub(channel)
        answer = await stub.GetBeacon(decider_pb2.GetBeaconRequest(), timeout=TIMEOUT_S, metadata=identity)
    signed: Signed = answer.beacon
    return beacon_pb2.Beacon.FromString(signed.payload)


def check_clickhouse(settings: DoctorSettings) -> Finding:
    """ClickHouse takes our user, has our tables, and lets us read them."""
    if not settings.clickhouse_url:
        return skipped("clickhouse", "clickhouse_url")
    try:
        there = _ask(
            settings,
            "SELECT count() FROM system.tables WHERE database = currentDatabase() AND name = 'events'",
        )
        if there != "1":
            return problem(
                "clickhouse", f"`{settings.clickhouse_database}` has no tables", "`licet audit migrate`"
            )
        _ask(settings, "SELECT count() FROM events WHERE time > now() - 60")
    except urllib.error.HTTPError as error:
        said = error.read(300).decode("utf-8", "replace").splitlines()
        return problem(
            "clickhouse",
            said[0] if said else str(error),
            "user, password and grants: `licet audit roles` prints them",
        )
    except (OSError, ValueError) as error:
        return problem("clickhouse", f"`{settings.clickhouse_url}`: {error}", "is the server up?")
    return ok("clickhouse", f"`{settings.clickhouse_user}` reads `{settings.clickhouse_database}.events`")


def _ask(settings: DoctorSettings, sql: str) -> str:
    if not settings.clickhouse_url.startswith(("http://", "https://")):
        raise ValueError("write http:// or https://, host and port")
    file = settings.clickhouse_password_file
    secret = file.read_text("utf-8").strip() if file is not None else ""
    login = b64encode(f"{settings.clickhouse_user}:{secret}".encode()).decode()
    query = urllib.parse.urlencode({"database": settings.clickhouse_database})
    request = urllib.request.Request(  # noqa: S310 - the scheme is checked above
        f"{settings.clickhouse_url}/?{query}", sql.encode(), {"Authorization": f"Basic {login}"}
    )
    with urllib.request.urlopen(request, timeout=CLICKHOUSE_S) as answer:  # noqa: S310 - as above
        return str(answer.read().decode().strip())
