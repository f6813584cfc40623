"""Sealed payloads from JetStream to the store, opened by whoever has the key, and by nobody without it."""

import asyncio
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from audit.cli import app
from audit.proof.chain import ProblemKind, Trust
from audit.proof.payloads import payload_problems
from audit.proof.verify import Scope
from audit.proof.witness import verify_store
from audit.sealed.opener import PayloadError, carriers, open_payload, secrets_in
from audit.store.sheet import EVENTS, PAYLOADS, Sheet
from audit.store.stored import House, Stored
from audit.writing.tail import Tail
from licet.embedded.dev_keys import make_dev_keys
from licet.keyfile import write_secret
from licet.sealed import address, input_payload, payload_key, payload_keys, payload_ref, seal
from licet.streams import connect
from tests.worlds.payloads import decision_input

SUBJECT = "licet.payload.dev.decider.main"
EVENTS_SUBJECT = "licet.audit.dev.decider.main"
STREAM, AUDIT = "LICET_PAYLOAD_dev", "LICET_AUDIT_dev"
OWNER = House("dev", "licet.local", None)


class Tenant:
    """A tenant with its keys, and payloads sealed for events of its own."""

    def __init__(self, directory: Path, name: str = "t1") -> None:
        self.name, self.keys_dir = name, directory / "keys"
        self.keys = make_dev_keys(self.keys_dir, "dev", (), (), "licet.local", tenants=("t1", "t2"))
        self.private = directory / f"private-{name}"
        self.private.mkdir()
        (self.keys_dir / f"payload-{name}.key").rename(self.private / f"payload-{name}.key")
        owned = payload_keys(self.keys)[name]
        found = payload_key(owned, now_ms=owned[0].not_before_ms)
        assert found is not None
        self.envelope = address(found, bytes([len(name)]) * 31 + name[-1].encode())

    def sealed(self, number: int, request: bytes = b"\x0a\x02O1") -> bytes:
        message = decision_input(request)
        message.rule_input.attributes_json = b'{"refund_allowed":false}'
        message.rule_input.context_json = b'{"tier":4}'
        return seal(self.envelope, number, f"{number:032x}", input_payload(message))


def put(store: Any, event: Any, tenants: list[Tenant], count: int = 3) -> list[bytes]:
    """Store `count` events of each tenant with their payloads, as the writer does; return the payloads."""
    bodies, payloads = [], []
    for at, tenant in enumerate(tenants):
        for number in range(at * count + 1, (at + 1) * count + 1):
            payloads.append(tenant.sealed(number))
            bodies.append(event(number, tenant=tenant.name, payload_ref=payload_ref(payloads[-1])))
    now = time.time_ns() // 1000 - 600_000_000
    found = [Stored(STREAM, SUBJECT, n, now + n * 100_000_000, body) for n, body in enumerate(payloads, 1)]
    write(store, PAYLOADS, found)
    audit = [Stored(AUDIT, EVENTS_SUBJECT, n, now + n, body) for n, body in enumerate(bodies, 1)]
    write(store, EVENTS, audit)
    return payloads


def write(store: Any, sheet: Sheet, messages: list[Stored]) -> None:
    data = sheet.encode(messages, OWNER, frozenset())
    settings = dict(sheet.settings(f"{messages[0].stream}:{messages[0].seq}"))
    store.client.raw_insert(sheet.table, sheet.columns, data, fmt=sheet.format, settings=settings)


def licet(store: Any, *args: str, **more: str) -> Any:
    """Run `licet audit …` in this process; what a shell would see."""
    environment = {
        "LICET_CLICKHOUSE_URL": store.address.url,
        "LICET_CLICKHOUSE_PASSWORD_FILE": str(store.address.password_file),
        "LICET_CLICKHOUSE_DATABASE": store.address.database,
        "LICET_ENVIRONMENT": "dev",
    }
    return CliRunner().invoke(app, args, env=environment | more)


@pytest.mark.asyncio
async def test_the_writer_stores_every_payload_byte_by_byte_and_opens_none(
    house: Any, tmp_path: Path
) -> None:
    """It has no key; bytes that are no payload cost it no more than one that is."""
    tenant = Tenant(tmp_path / "one")
    bodies = [tenant.sealed(1), b"", b"\xff" * 300, b"'; DROP TABLE events --", tenant.sealed(2)]
    await house.publish(bodies, SUBJECT)
    house.start_writer()
    await house.until(lambda: house.store.value("SELECT count() FROM payloads") == len(bodies), 90)
    rows = house.store.client.query(
        "SELECT js_seq, payload_ref, sealed, js_subject FROM payloads ORDER BY js_seq",
        column_formats={"sealed": "bytes"},
    ).result_rows
    assert [(int(seq), str(ref), bytes(sealed), str(subject)) for seq, ref, sealed, subject in rows] == [
        (number, payload_ref(sealed), sealed, SUBJECT) for number, sealed in enumerate(bodies, 1)
    ]


def test_a_batch_of_payloads_written_twice_is_there_once(store: Any, tmp_path: Path) -> None:
    tenant = Tenant(tmp_path / "one")
    now = time.time_ns() // 1000
    batch = [Stored(STREAM, SUBJECT, n, now, tenant.sealed(n)) for n in (1, 2)]
    write(store, PAYLOADS, batch)
    write(store, PAYLOADS, batch)
    assert store.rows("SELECT count(), uniqExact(js_seq) FROM payloads") == [(2, 2)]


def test_payloads_open_for_their_tenant_alone(store: Any, event: Any, tmp_path: Path) -> None:
    one, two = Tenant(tmp_path / "one"), Tenant(tmp_path / "two", "t2")
    put(store, event, [one, two])
    client = store.client
    for tenant, stranger in ((one, two), (two, one)):
        found = carriers(client, "tenant = {t:String}", {"t": tenant.name})
        opened = [open_payload(client, each, secrets_in(tenant.private)) for each in found]
        assert [each.input.decision for each in opened] == ["deny"] * 3
        with pytest.raises(PayloadError, match="not in the directory"):
            open_payload(client, found[0], secrets_in(stranger.private))
    shown = licet(store, "open", f"{2:032x}", "--payload-keys", str(one.private), "--json")
    assert shown.exit_code == 0, shown.output
    value = json.loads(shown.stdout)
    assert (value["rules"]["attributes"], value["request_size"]) == ({"refund_allowed": False}, 4)
    refused = licet(store, "open", f"{2:032x}", "--payload-keys", str(two.private))
    assert (refused.exit_code, refused.stdout) == (1, "")
    out = tmp_path / "inputs.jsonl"
    some = licet(store, "inputs", "--payload-keys", str(one.private), "--out", str(out))
    assert (some.exit_code, "3 could not be opened" in some.stderr) == (3, True)
    assert [json.loads(line)["tenant"] for line in out.read_text().splitlines()] == ["t1"] * 3
    assert out.stat().st_mode & 0o077 == 0


def shredding(tenant: Tenant, nats: Any) -> dict[str, str]:
    return {
        "LICET_KEYS_DIR": str(tenant.keys_dir),
        "LICET_CHECKPOINT_KEY_FILE": str(tenant.keys_dir / "checkpoint-reconciler.key"),
        "LICET_NATS_URL": nats.url,
        "LICET_NATS_USER": "reconciler",
        "LICET_NATS_PASSWORD_FILE": str(nats.password_file("reconciler")),
    }


async def audited(nats: Any) -> list[Stored]:
    """What the audit stream holds, as the writer reads it."""
    nc = await connect(nats.settings("audit-writer"), "test")
    try:
        tail = Tail(nc, AUDIT)
        found = await tail.read(1, 100)
        await tail.close()
    finally:
        await nc.close()
    return found


def test_shredding_ends_the_payloads_and_leaves_a_record_that_verifies(
    store: Any, nats: Any, event: Any, tmp_path: Path
) -> None:
    tenant = Tenant(tmp_path / "one")
    put(store, event, [tenant])
    secret, given = tenant.private / "payload-t1.key", shredding(tenant, nats)
    asked = licet(store, "shred", "t1", "--payload-keys", str(tenant.private), **given)
    assert (asked.exit_code, "no way back" in asked.stderr) == (0, True)
    assert secret.exists(), "without --yes nothing is destroyed"
    assert asyncio.run(audited(nats)) == []
    done = licet(store, "shred", "t1", "--payload-keys", str(tenant.private), "--yes", **given)
    assert (done.exit_code, secret.exists()) == (0, False), done.output
    found = carriers(store.client, "tenant = {t:String}", {"t": "t1"})
    with pytest.raises(PayloadError, match="nothing opens it"):
        open_payload(store.client, found[0], secrets_in(tenant.private))
    store.client.command("TRUNCATE TABLE events")
    store.client.command("TRUNCATE TABLE call_states")
    write(store, EVENTS, asyncio.run(audited(nats)))
    assert store.rows("SELECT tenant, key_id, source FROM events WHERE kind = 'key.revoked'") == [
        ("t1", "payload-t1", "spiffe://licet.local/dev/reconciler")
    ]
    scope = Scope(House("dev", "licet.local", tenant.keys), Trust(tenant.keys), time.time_ns() // 1000)
    report = verify_store(store.client, scope)
    assert (report.problems, report.runs) == ([], 1)
    exported_window_verifies_offline(store, tenant, tmp_path)
    again = licet(store, "shred", "t1", "--payload-keys", str(tenant.private), "--yes", **given)
    assert (again.exit_code, "no private key" in again.stderr) == (1, True)
    other = licet(store, "shred", "t3", "--payload-keys", str(tenant.private), "--yes", **given)
    assert (other.exit_code, "no payload key of tenant `t3`" in other.stderr) == (1, True)


def exported_window_verifies_offline(store: Any, tenant: Tenant, directory: Path) -> None:
    given = {"LICET_KEYS_DIR": str(tenant.keys_dir)}
    window = directory / "window.jsonl"
    ago, ahead = ("2026-01-01T00:00:00", "2099-01-01T00:00:00")
    done = licet(store, "export", "--since", ago, "--until", ahead, "--out", str(window), **given)
    assert done.exit_code == 0, done.output
    root = str(tenant.keys_dir / "root.pub")
    proved = licet(store, "verify", "--bundle", str(window), "--root-key", root, "--json")
    assert (proved.exit_code, json.loads(proved.stdout)["sound"]) == (0, True), proved.output
    early = ("export", "--since", "2025-01-01T00:00:00", "--until", ago, "--out", str(directory / "none"))
    for words in (early, ("export", "--until", ahead, "--task", "t", "--out", str(directory / "none"))):
        assert licet(store, *words, **given).exit_code == 1


def test_without_its_record_no_key_is_destroyed(store: Any, nats: Any, tmp_path: Path) -> None:
    tenant = Tenant(tmp_path / "one")
    given = shredding(tenant, nats) | {"LICET_NATS_URL": "nats://127.0.0.1:9"}
    done = licet(store, "shred", "t1", "--payload-keys", str(tenant.private), "--yes", **given)
    assert (done.exit_code, (tenant.private / "payload-t1.key").exists()) == (1, True)


def test_swapped_changed_and_missing_payloads_are_named(store: Any, event: Any, tmp_path: Path) -> None:
    tenant = Tenant(tmp_path / "one")
    put(store, event, [tenant])
    client = store.client
    assert list(payload_problems(client, {})) == []
    secrets = secrets_in(tenant.private)
    first, second, _ = carriers(client, "1", {})
    assert open_payload(client, first, secrets).input.decision == "deny"
    sealed = client.query("SELECT hex(sealed) FROM payloads WHERE js_seq = 2").result_rows[0][0]
    change(client, f"ALTER TABLE payloads UPDATE sealed = unhex('{sealed}') WHERE js_seq = 1")
    with pytest.raises(PayloadError, match="other bytes than the event names"):
        open_payload(client, first, secrets)
    assert [one.kind for one in payload_problems(client, {})] == [ProblemKind.PAYLOAD]
    change(client, "ALTER TABLE payloads DELETE WHERE js_seq = 2")
    with pytest.raises(PayloadError, match="no more"):
        open_payload(client, second, secrets)
    assert {one.kind for one in payload_problems(client, {})} == {ProblemKind.PAYLOAD, ProblemKind.GAP}


def test_payload_and_its_name_exchanged_together_open_for_no_other_event(
    store: Any, event: Any, tmp_path: Path
) -> None:
    tenant = Tenant(tmp_path / "one")
    put(store, event, [tenant])
    first, second, _ = carriers(store.client, "1", {})
    swapped = replace(first, payload_ref=second.payload_ref)
    with pytest.raises(PayloadError, match="NOT_OPENED"):
        open_payload(store.client, swapped, secrets_in(tenant.private))


def change(client: Any, sql: str) -> None:
    client.command(sql, settings={"mutations_sync": "2"})


def test_key_id_of_a_payload_leads_out_of_no_directory(tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside.key"
    inside.mkdir()
    write_secret(outside, b"\x01" * 32)
    write_secret(inside / "payload-t1.key", b"\x02" * 32)
    secrets = secrets_in(inside)
    assert [secrets(name) for name in ("../outside", str(outside)[:-4], "..", "", "other")] == [None] * 5
    assert secrets("payload-t1") == b"\x02" * 32
