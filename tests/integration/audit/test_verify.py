"""What an attacker does to the store is named; what is honest passes. Negative test 40 of the protocol.

One row of attacks for each set of keys the attacker may hold: ClickHouse alone, NATS besides, and one
source's own checkpoint key, which only an anchor kept elsewhere shows.
"""

import asyncio
import json
import subprocess
import sys
import time
from dataclasses import replace
from typing import Any

import pytest

from audit.proof import export
from audit.proof.chain import ProblemKind, Trust
from audit.proof.verify import Scope, verify_rows
from audit.proof.views import definitions, view_problems
from audit.proof.witness import verify_store
from audit.store.stored import House as Owner
from audit.store.stored import Stored
from licet.embedded.dev_keys import make_dev_keys
from licet.event import ZERO_HASH, Checkpoint, EventKind, checkpoint_payload, event_hash
from licet.identity import audience_of, decider_id, sidecar_id
from licet.keys import KeyRole, KeySet, PublicKey
from licet.spend import outcome_payload, reserve_payload, spend_id
from licet.statement import PayloadType, SigningKey, canonical
from licet.v1.decision_pb2 import Decision, DecisionType
from licet.v1.event_pb2 import Event
from licet.v1.guard_pb2 import LedgerChange
from licet.v1.spend_pb2 import OUTCOME_EXECUTED

DECIDER = decider_id("licet.local", "dev")
SIDECAR = sidecar_id("licet.local", "dev", "finance")
AUDIENCE = audience_of("licet.local", "dev", "finance")
AUDIT, SPEND, LEDGER = "LICET_AUDIT_dev", "LICET_SPEND_LOG_dev", "LICET_LEDGER_dev"
SUBJECTS = {DECIDER: "licet.audit.dev.decider.main", SIDECAR: "licet.audit.dev.sidecar.finance"}
START_US = 1_790_000_000_000_000
HOUR_US = 3_600_000_000
EVERY = 16
"""Events between checkpoints here; the journal signs every 256."""


def key(name: str, number: int) -> SigningKey:
    return SigningKey.from_seed(name, bytes([number]) * 32)


KEYS = {
    "checkpoint-decider": (key("checkpoint-decider", 1), KeyRole.CHECKPOINT, DECIDER, ""),
    "checkpoint-decider-2": (key("checkpoint-decider-2", 2), KeyRole.CHECKPOINT, DECIDER, ""),
    "checkpoint-decider-3": (key("checkpoint-decider-3", 3), KeyRole.CHECKPOINT, DECIDER, ""),
    "checkpoint-sidecar": (key("checkpoint-sidecar", 4), KeyRole.CHECKPOINT, SIDECAR, ""),
    "decider": (key("decider", 5), KeyRole.DECIDER, DECIDER, ""),
    "spend": (key("spend", 6), KeyRole.SPEND, SIDECAR, AUDIENCE),
}


def keyset(**validity: tuple[int, int]) -> KeySet:
    found = {}
    for name, (signing, role, owner, audience) in KEYS.items():
        first, last = validity.get(name.replace("-", "_"), (0, 1 << 60))
        found[name] = PublicKey(
            name, role, "dev", signing.public_key, first, last, owner=owner, audience=audience
        )
    return KeySet("dev", 1, found)


OWNER = Owner("dev", "licet.local", keyset())


class Recorder:
    """Writes runs as a journal does, but with any key and any bytes."""

    def __init__(
        self, source: str, key_name: str, stream: str, start_us: int = START_US, previous: str = ""
    ) -> None:
        self.source, self.key, self.stream, self.us = source, KEYS[key_name][0], stream, start_us
        self.previous = previous
        self.tip, self.seq = ZERO_HASH, 0
        self.bodies: list[bytes] = []

    def write(self, kind: str, **fields: object) -> None:
        self.seq += 1
        self.us += 1_000
        if kind in {EventKind.CHECKPOINT, EventKind.PROCESS_STOPPED}:
            so_far = Checkpoint(
                self.source, self.stream, self.seq - 1, self.tip, self.seq - 1, self.us // 1000
            )
            fields["checkpoint"] = self.key.sign(PayloadType.CHECKPOINT, checkpoint_payload(so_far))
        body = canonical(
            Event(
                version=1,
                event_id=f"{hash((self.stream, self.seq)) & (1 << 128) - 1:032x}",
                source=self.source,
                stream=self.stream,
                seq=self.seq,
                prev_hash=self.tip,
                time_us=self.us,
                kind=kind,
                environment="dev",
                **fields,
            )
        )
        self.bodies.append(body)
        self.tip = event_hash(self.tip, body)

    def run(self, events: int, *, stop: bool = True, first: int = 0) -> list[bytes]:
        self.write("process.started", previous_stream=self.previous)
        for number in range(first, first + events):
            self.happening(number)
            if self.seq % EVERY == 0:
                self.write("checkpoint")
        if stop:
            self.write("process.stopped")
        return self.bodies

    def happening(self, number: int) -> None:
        if self.source == DECIDER:
            decided = decision(number)
            self.write(
                "decision.allowed",
                decision="allow",
                decision_id=decided.decision_id,
                spend_id=decided.spend_id,
                task_id="task_1",
                tenant="t1",
                amount_minor=5000,
            )
        else:
            self.write("door.passed", tenant="t1", task_id="task_1")


def decision(number: int) -> Decision:
    call = f"call_{number}"
    return Decision(
        version=1,
        decision_id=f"{number + 1:032x}",
        decision=DecisionType.DECISION_TYPE_ALLOW,
        environment="dev",
        tenant="t1",
        task_id="task_1",
        call_id=call,
        spend_id=spend_id("dev", "t1", AUDIENCE, "bot", "task_1", call),
        audience=AUDIENCE,
        not_after_ms=1,
    )


def reserve(number: int, permit_key: SigningKey = KEYS["decider"][0], seq: int = 0) -> Stored:
    decided = decision(number)
    permit = permit_key.sign(PayloadType.PERMIT, canonical(decided))
    payload = reserve_payload(
        environment="dev",
        permit=permit,
        attempt=f"{number:032x}",
        sidecar=SIDECAR,
        reserved_at_ms=1,
        call_digest=b"",
    )
    body = canonical(KEYS["spend"][0].sign(PayloadType.SPEND, payload))
    subject = f"licet.spend.dev.finance.{decided.spend_id}.0.reserve"
    seq = seq or number + 1
    return Stored(SPEND, subject, seq, START_US + seq, body, origin_seq=seq)


def messages(*runs: Recorder) -> list[Stored]:
    bodies = [(run, body) for run in runs for body in run.bodies]
    return [
        Stored(AUDIT, SUBJECTS[run.source], number, START_US + number * 1000, body)
        for number, (run, body) in enumerate(bodies, 1)
    ]


@pytest.fixture
def insert(store: Any) -> Any:
    from audit.store.row import COLUMNS, insert_settings
    from audit.store.sheet import encode

    def put(found: Any, owner: Any = OWNER) -> None:
        settings = dict(insert_settings(f"{found[0].stream}:{found[0].seq}"))
        store.client.raw_insert("events", COLUMNS, encode(found, owner), fmt="Protobuf", settings=settings)

    return put


HONEST = 40
D1, D2, D3, S1, S2 = "d1" * 16, "d2" * 16, "d3" * 16, "5a" * 16, "5b" * 16


def honest() -> list[Stored]:
    decider = Recorder(DECIDER, "checkpoint-decider", D1)
    sidecar = Recorder(SIDECAR, "checkpoint-sidecar", S1)
    decider.run(HONEST)
    sidecar.run(HONEST)
    return messages(decider, sidecar)


@pytest.fixture
def kept(store: Any, insert: Any) -> Any:
    """An honest store: two runs, and a spend log of three reserves."""
    insert(honest())
    insert([reserve(number) for number in range(3)])
    return store


def scope(*, keys: Any = None, revoked: Any = None, anchors: Any = ()) -> Any:
    keys = keys or keyset()
    return Scope(
        replace(OWNER, keys=keys), Trust(keys, revoked or {}), time.time_ns() // 1000, tuple(anchors)
    )


def kinds(store: Any, *, calls: bool = False, **given: Any) -> Any:
    """What the verifier names; `calls`: also what follows from it, that calls are not what events make."""
    report = verify_store(store.client, scope(**given))
    report.problems = [one for one in report.problems if calls or one.kind is not ProblemKind.CALL]
    return {problem.kind for problem in report.problems}, report


def change(store: Any, sql: Any) -> None:
    store.client.command(sql, settings={"mutations_sync": "2", "lightweight_deletes_sync": "2"})


def test_honest_store_is_sound(kept: Any) -> None:
    found, report = kinds(kept, calls=True)
    assert (found, report.sound, report.runs) == (set(), True, 2)
    assert report.rows == len(honest()) + 3


# --- ClickHouse alone


@pytest.mark.negative(40)
def test_deleted_row_is_named_by_its_number_and_its_sequence(kept: Any) -> None:
    change(kept, f"ALTER TABLE events DELETE WHERE js_stream = '{AUDIT}' AND js_seq = 20")
    found, report = kinds(kept)
    assert found == {ProblemKind.GAP}
    assert {problem.where for problem in report.problems} == {f"{DECIDER} run {D1[:8]}", AUDIT}
    assert any("number 20 is missing" in problem.detail for problem in report.problems)
    assert any("sequence 20 is missing" in problem.detail for problem in report.problems)


@pytest.mark.negative(40)
@pytest.mark.parametrize(
    ("column", "value"),
    [("decision", "'deny'"), ("amount_minor", "1"), ("tenant", "'t2'"), ("resource", "'x'")],
)
def test_edited_column_is_named_with_both_values(kept: Any, column: Any, value: Any) -> None:
    # part of the sorting key cannot be updated in place: an attacker writes the row anew
    if column == "tenant":
        names = (
            "event_id, source, stream, seq, event, prev_hash, time_us, kind, decision, environment, task_id"
        )
        rest = "decision_id, spend_id, amount_minor, js_stream, js_subject, js_seq, js_time_us, batch"
        change(
            kept,
            f"INSERT INTO events ({names}, {rest}, tenant) SELECT {names}, {rest}, 't2' FROM events"
            f" WHERE js_stream = '{AUDIT}' AND js_seq = 20",
        )
        change(
            kept, f"ALTER TABLE events DELETE WHERE js_stream = '{AUDIT}' AND js_seq = 20 AND tenant = 't1'"
        )
    else:
        change(
            kept, f"ALTER TABLE events UPDATE {column} = {value} WHERE js_stream = '{AUDIT}' AND js_seq = 20"
        )
    found, report = kinds(kept)
    assert found == {ProblemKind.COLUMN}
    assert [problem.where for problem in report.problems] == [f"{AUDIT} 20"]
    assert f"column {column} is" in report.problems[0].detail


def rewrite(store: Any, seq: Any, body: Any, owner: Any = OWNER) -> None:
    """What an attacker with ClickHouse writes: event bytes and columns that fit each other."""
    from audit.store.row import read_columns

    row = store.rows(
        "SELECT js_subject, js_time_us FROM events WHERE js_stream = {s:String} AND js_seq = {n:UInt64}",
        s=AUDIT,
        n=seq,
    )[0]
    columns = read_columns(Stored(AUDIT, row[0], seq, row[1], body), owner, repeated=False)
    change(store, f"ALTER TABLE events DELETE WHERE js_stream = '{AUDIT}' AND js_seq = {seq}")
    columns["batch"] = 1
    store.client.insert("events", [list(columns.values())], column_names=list(columns))


@pytest.mark.negative(40)
def test_event_edited_with_its_columns_is_named(kept: Any) -> None:
    event = Event.FromString(honest()[19].data)
    event.amount_minor = 1
    rewrite(kept, 20, canonical(event))
    found, report = kinds(kept)
    assert found == {ProblemKind.EDIT}
    assert report.problems[0].event_id == event.event_id


@pytest.mark.negative(40)
def test_two_events_in_each_others_place_are_named(kept: Any) -> None:
    first, second = (Event.FromString(message.data) for message in honest()[19:21])
    first.seq, second.seq = second.seq, first.seq
    rewrite(kept, 20, canonical(second))
    rewrite(kept, 21, canonical(first))
    found, _ = kinds(kept)
    assert found == {ProblemKind.EDIT}


@pytest.mark.negative(40)
def test_two_events_with_one_number_are_a_fork(kept: Any) -> None:
    event = Event.FromString(honest()[19].data)
    event.detail = "another"
    body = canonical(event)
    from audit.store.row import read_columns

    columns = read_columns(Stored(AUDIT, SUBJECTS[DECIDER], 500, START_US, body), OWNER, repeated=False)
    kept.client.insert("events", [list(columns.values())], column_names=list(columns))
    found, report = kinds(kept)
    assert ProblemKind.FORK in found
    fork = next(problem for problem in report.problems if problem.kind is ProblemKind.FORK)
    assert event.event_id in fork.detail


@pytest.mark.negative(40)
def test_tail_cut_off_leaves_an_open_ended_run(kept: Any) -> None:
    last = len(honest())
    change(kept, f"ALTER TABLE events DELETE WHERE js_stream = '{AUDIT}' AND js_seq > {last - 5}")
    found, report = kinds(kept)
    assert found == {ProblemKind.OPEN_ENDED}
    assert report.problems[0].where.startswith(SIDECAR)


@pytest.mark.negative(40)
def test_tail_cut_to_the_last_checkpoint_is_shown_by_an_anchor(kept: Any) -> None:
    tips = tuple(export.anchors(kept.client))
    last = len(honest())
    change(kept, f"ALTER TABLE events DELETE WHERE js_stream = '{AUDIT}' AND js_seq > {last - 5}")
    found, _ = kinds(kept, anchors=tips)
    assert found == {ProblemKind.CUT_TAIL}


@pytest.mark.negative(40)
def test_whole_run_that_vanished_is_shown_by_an_anchor(kept: Any) -> None:
    tips = tuple(export.anchors(kept.client))
    change(kept, f"ALTER TABLE events DELETE WHERE stream = '{S1}'")
    assert kinds(kept)[0] == set()  # it was the last one: nothing inside the store can tell
    assert kinds(kept, anchors=tips)[0] == {ProblemKind.CUT_TAIL}


@pytest.mark.negative(40)
def test_row_doubled_is_named(kept: Any) -> None:
    columns = "event_id, source, stream, seq, event, prev_hash, time_us, kind, decision, environment, tenant"
    rest = "task_id, decision_id, spend_id, amount_minor, js_stream, js_subject, js_seq, js_time_us, batch"
    change(
        kept,
        f"INSERT INTO events ({columns}, {rest}) SELECT {columns}, {rest} FROM events"
        f" WHERE js_stream = '{AUDIT}' AND js_seq = 20",
    )
    found, report = kinds(kept)
    assert found == {ProblemKind.DOUBLED}
    assert "sequence 20 is there 2 times" in report.problems[0].detail


@pytest.mark.negative(40)
def test_row_hidden_as_a_repetition_or_as_quarantined_is_named(kept: Any) -> None:
    for kind, seq in (("repeated", 20), ("quarantined", 21)):
        names = "event_id, source, stream, seq, event, prev_hash, time_us, environment"
        rest = "js_stream, js_subject, js_seq, js_time_us"
        change(
            kept,
            f"INSERT INTO events ({names}, {rest}, kind) SELECT {names}, {rest}, '{kind}' FROM events"
            f" WHERE js_stream = '{AUDIT}' AND js_seq = {seq}",
        )
        change(
            kept,
            f"ALTER TABLE events DELETE WHERE js_stream = '{AUDIT}' AND js_seq = {seq} AND kind != '{kind}'",
        )
    found, report = kinds(kept)
    assert ProblemKind.COLUMN in found
    assert {f"{AUDIT} 20", f"{AUDIT} 21"} <= {problem.where for problem in report.problems}


@pytest.mark.negative(40)
def test_spend_deleted_from_the_log_is_named(kept: Any) -> None:
    change(kept, f"ALTER TABLE events DELETE WHERE js_stream = '{SPEND}' AND js_seq = 2")
    found, report = kinds(kept)
    assert found == {ProblemKind.GAP}
    assert {problem.where for problem in report.problems} == {SPEND, "spend stream"}


# --- NATS and ClickHouse: whatever is published under a source's subject, without its keys


@pytest.mark.negative(40)
@pytest.mark.parametrize(
    ("key_name", "kind"),
    [
        ("checkpoint-sidecar", ProblemKind.WRONG_KEY),
        ("decider", ProblemKind.WRONG_KEY),
        ("stranger", ProblemKind.UNKNOWN_KEY),
    ],
)
def test_chain_replaced_under_another_key_is_named(
    store: Any, insert: Any, monkeypatch: Any, key_name: Any, kind: Any
) -> None:
    monkeypatch.setitem(KEYS, "stranger", (key("stranger", 9), KeyRole.CHECKPOINT, DECIDER, ""))
    forged = Recorder(DECIDER, key_name, D1)
    forged.run(HONEST)
    insert(messages(forged))
    keys = keyset()
    known = KeySet("dev", 1, {name: found for name, found in keys.keys.items() if name != "stranger"})
    assert kinds(store, keys=known)[0] >= {kind}


@pytest.mark.negative(40)
def test_chain_signed_under_the_right_name_by_another_key_is_named(
    store: Any, insert: Any, monkeypatch: Any
) -> None:
    signing, role, owner, audience = KEYS["checkpoint-decider"]
    honest_keys = keyset()
    monkeypatch.setitem(KEYS, "checkpoint-decider", (key("checkpoint-decider", 9), role, owner, audience))
    forged = Recorder(DECIDER, "checkpoint-decider", D1)
    forged.run(HONEST)
    insert(messages(forged))
    assert kinds(store, keys=honest_keys)[0] == {ProblemKind.BAD_SIGNATURE}
    assert signing


@pytest.mark.negative(40)
def test_permit_spent_without_a_decision_is_named(kept: Any, insert: Any) -> None:
    insert([reserve(HONEST + 7, seq=4)])  # signed by the decider's stolen key, so every signature holds
    found, report = kinds(kept)
    assert found == {ProblemKind.SPENT_WITHOUT_DECISION}
    assert f"{HONEST + 8:032x}" in report.problems[0].detail


@pytest.mark.negative(40)
def test_permit_signed_by_a_strangers_key_is_named_at_its_reserve(kept: Any, insert: Any) -> None:
    insert([reserve(5, key("decider", 8), seq=4)])
    assert kept.value(
        "SELECT signature FROM events WHERE js_stream = {s:String} AND js_seq = 4", s=SPEND
    ) == ("PERMIT_SIGNATURE_INVALID")
    assert kinds(kept)[0] == {ProblemKind.BAD_SIGNATURE}


# --- with one source's own checkpoint key


@pytest.mark.negative(40)
def test_run_written_anew_with_the_sources_own_key_is_found_against_an_anchor_only(
    store: Any, insert: Any
) -> None:
    true = Recorder(DECIDER, "checkpoint-decider", D1)
    true.run(HONEST)
    insert(messages(true))
    tips = tuple(export.anchors(store.client))
    change(store, "TRUNCATE TABLE events")
    lie = Recorder(DECIDER, "checkpoint-decider", D1)
    lie.run(HONEST, first=1000)
    moved = [replace(message, seq=message.seq, stream=AUDIT) for message in messages(lie)]
    insert([replace(moved[0], time_us=moved[0].time_us), *moved[1:]])
    if store.value("SELECT count() FROM events") == 0:  # the token of the first batch is still known
        from audit.store.row import COLUMNS, insert_settings
        from audit.store.sheet import encode

        settings = dict(insert_settings("attacker"))
        store.client.raw_insert("events", COLUMNS, encode(moved, OWNER), fmt="Protobuf", settings=settings)
    assert kinds(store)[0] == set()
    assert kinds(store, anchors=tips)[0] == {ProblemKind.REWRITTEN}


# --- keys over time


def test_three_generations_of_keys_verify(store: Any, insert: Any) -> None:
    first = Recorder(DECIDER, "checkpoint-decider", D1, START_US)
    second = Recorder(DECIDER, "checkpoint-decider-2", D2, START_US + HOUR_US, previous=D1)
    third = Recorder(DECIDER, "checkpoint-decider-3", D3, START_US + 2 * HOUR_US, previous=D2)
    for number, run in enumerate((first, second, third)):
        run.run(HONEST, first=100 * number)
        for message in [messages(run)]:
            moved = [
                replace(one, seq=one.seq + number * 1000, time_us=one.time_us + number * HOUR_US)
                for one in message
            ]
            insert([replace(one, seq=index) for index, one in enumerate(moved, 1 + number * len(moved))])
    ms = START_US // 1000
    hour = HOUR_US // 1000
    keys = keyset(
        checkpoint_decider=(0, ms + hour),
        checkpoint_decider_2=(ms + hour, ms + 2 * hour),
        checkpoint_decider_3=(ms + 2 * hour, 1 << 60),
    )
    assert kinds(store, keys=keys)[0] == set()
    expired = keyset(checkpoint_decider=(0, 1))
    assert kinds(store, keys=expired)[0] == {ProblemKind.WRONG_KEY}


def test_checkpoint_signed_after_its_keys_revocation_is_named(kept: Any) -> None:
    assert kinds(kept, revoked={"checkpoint-decider": START_US})[0] == {ProblemKind.REVOKED_KEY}
    assert kinds(kept, revoked={"checkpoint-decider": START_US + HOUR_US})[0] == set()


def test_killed_run_that_its_successor_names_is_a_note_and_no_problem(store: Any, insert: Any) -> None:
    killed = Recorder(DECIDER, "checkpoint-decider", D1)
    killed.run(HONEST, stop=False)
    after = Recorder(DECIDER, "checkpoint-decider", D2, previous=D1)
    after.run(HONEST, first=100)
    insert(messages(killed, after))
    found, report = kinds(store)
    assert found == set()
    assert any("was killed" in note for note in report.notes)


# --- exports


def exported(store: Any, path: Any, condition: Any = "task_id = 'task_1' AND seq = 20") -> Any:
    with path.open("x") as file:
        rows = export.scope_rows(store.client, condition, {})
        export.write(file, {"environment": "dev"}, b"", export.anchors(store.client), rows)
    return export.read(path)


def test_export_verifies_offline(kept: Any, tmp_path: Any) -> None:
    bundle = exported(kept, tmp_path / "export")
    assert len(bundle.rows) > 2
    report = verify_rows(bundle.rows, replace(scope(), whole=False))
    assert (report.sound, report.runs) == (True, 2)


def test_export_that_lost_its_checkpoint_does_not_verify(kept: Any, tmp_path: Any) -> None:
    bundle = exported(kept, tmp_path / "export")
    cut = [row for row in bundle.rows if row["kind"] not in {"checkpoint", "process.stopped"}]
    report = verify_rows(cut, replace(scope(), whole=False))
    assert {problem.kind for problem in report.problems} == {ProblemKind.UNSIGNED}


def test_export_that_was_changed_is_refused(kept: Any, tmp_path: Any) -> None:
    exported(kept, tmp_path / "export")
    text = (tmp_path / "export").read_text()
    (tmp_path / "changed").write_text(text.replace('"tenant":"t1"', '"tenant":"t2"', 1))
    (tmp_path / "cut").write_text("\n".join(text.split("\n")[:-2]) + "\n")
    for name in ("changed", "cut"):
        with pytest.raises(export.ExportError):
            export.read(tmp_path / name)


def test_export_of_a_killed_source_verifies_and_says_what_nothing_proves(
    store: Any, insert: Any, tmp_path: Any
) -> None:
    killed = Recorder(DECIDER, "checkpoint-decider", D1)
    killed.run(HONEST, stop=False)
    after = Recorder(DECIDER, "checkpoint-decider", D2, previous=D1)
    after.run(HONEST, first=100)
    insert(messages(killed, after))
    bundle = exported(store, tmp_path / "export", f"stream = '{D1}' AND seq >= {killed.seq - 3}")
    assert {row["stream"] for row in bundle.rows} == {D1, D2}
    report = verify_rows(bundle.rows, replace(scope(anchors=bundle.anchors), whole=False))
    assert (report.problems, report.unsigned) == ([], 4)
    first, last = killed.seq - 3, killed.seq
    assert any(f"numbers {first} to {last} stand under no checkpoint" in note for note in report.notes)


@pytest.mark.negative(40)
def test_export_whose_end_was_cut_and_called_a_kill_does_not_verify(
    store: Any, insert: Any, tmp_path: Any
) -> None:
    went_on = Recorder(DECIDER, "checkpoint-decider", D1)
    went_on.run(HONEST)
    after = Recorder(DECIDER, "checkpoint-decider", D2, previous=D1)
    after.run(HONEST, first=100)
    insert(messages(went_on, after))
    bundle = exported(store, tmp_path / "export", f"stream = '{D2}' OR stream = '{D1}' AND seq < 30")
    cut = [row for row in bundle.rows if row["stream"] == D2 or int(row["seq"]) < 30]
    report = verify_rows(cut, replace(scope(anchors=bundle.anchors), whole=False))
    assert {problem.kind for problem in report.problems} == {ProblemKind.CUT_TAIL}
    unnamed = [row for row in cut if row["stream"] == D1]
    report = verify_rows(unnamed, replace(scope(anchors=bundle.anchors), whole=False))
    assert {problem.kind for problem in report.problems} == {ProblemKind.UNSIGNED}


# --- records in another's place, calls and ledgers


def outcome(number: int, seq: int) -> Stored:
    decided = decision(number)
    payload = outcome_payload(
        environment="dev", spend_id=decided.spend_id, round=0, attempt=f"{number:032x}",
        outcome=OUTCOME_EXECUTED, sidecar=SIDECAR, recorded_at_ms=START_US // 1000, status_code=0,
        decision_id=decided.decision_id,
    )  # fmt: skip
    body = canonical(KEYS["spend"][0].sign(PayloadType.SPEND, payload))
    subject = f"licet.spend.dev.finance.{decided.spend_id}.0.outcome"
    return Stored(SPEND, subject, seq, START_US + seq, body, origin_seq=seq)


def ledger(number: int, seq: int, amount: int = 5000) -> Stored:
    decided = decision(number)
    row = LedgerChange(
        outbox_seq=seq, audience=AUDIENCE, spend_id=decided.spend_id, entry=1,
        decision_id=decided.decision_id,
        change_id=f"c/{number}", resource="order:O1", tenant="t1", account="a", amount_minor=amount,
        currency="USD", committed_at_us=START_US, issuer="permit",
    )  # fmt: skip
    return Stored(LEDGER, f"licet.ledger.dev.finance.{seq}", seq, START_US + seq, canonical(row))


@pytest.fixture
def spent(store: Any, insert: Any) -> Any:
    """An honest store of three calls that were reserved, executed and changed the ledger."""
    insert(honest())
    insert([reserve(number, seq=number + 1) for number in range(3)])
    insert([outcome(number, number + 4) for number in range(3)])
    insert([ledger(number, number + 1) for number in range(3)])
    return store


def put_in_place(store: Any, insert: Any, old: Stored, copy: Stored, **changed: Any) -> None:
    """What an attacker with ClickHouse does: a row away, another one in its place, columns and all."""
    from audit.store.row import COLUMNS, insert_settings
    from audit.store.sheet import encode

    where = f"js_stream = '{old.stream}' AND js_seq = {old.seq}"
    change(store, f"ALTER TABLE events DELETE WHERE {where}")
    row = replace(copy, seq=old.seq, time_us=old.time_us, origin_seq=old.origin_seq, **changed)
    settings = dict(insert_settings(f"attacker:{old.stream}:{old.seq}:{time.time()}"))
    store.client.raw_insert("events", COLUMNS, encode([row], OWNER), fmt="Protobuf", settings=settings)


def test_store_of_executed_calls_is_sound(spent: Any) -> None:
    found, report = kinds(spent, calls=True)
    assert (found, report.problems, report.sound) == (set(), [], True)


@pytest.mark.negative(40)
def test_reserve_and_outcome_replaced_by_copies_of_another_steps_records_are_named(
    spent: Any, insert: Any
) -> None:
    put_in_place(spent, insert, reserve(0, seq=1), reserve(2, seq=3))
    found, report = kinds(spent)
    assert {ProblemKind.REPLACED, ProblemKind.EXECUTED_WITHOUT_SPEND} <= found
    assert any("is at 1, 3" in problem.detail for problem in report.problems)
    put_in_place(spent, insert, outcome(0, 4), outcome(2, 6))
    assert any("is at 4, 6" in problem.detail for problem in kinds(spent)[1].problems)


@pytest.mark.negative(40)
def test_record_under_the_subject_of_the_one_it_replaces_is_named(spent: Any, insert: Any) -> None:
    old = reserve(0, seq=1)
    put_in_place(spent, insert, old, reserve(2, seq=3), subject=old.subject)
    found, report = kinds(spent)
    assert {ProblemKind.REPLACED, ProblemKind.BAD_SIGNATURE} <= found
    assert any(problem.detail == "SUBJECT_MISMATCH" for problem in report.problems)


@pytest.mark.negative(40)
def test_ledger_row_under_another_rows_subject_is_named(spent: Any, insert: Any) -> None:
    put_in_place(spent, insert, ledger(0, 1), ledger(2, 3), subject="licet.ledger.dev.finance.1")
    assert ProblemKind.REPLACED in kinds(spent)[0]


@pytest.mark.negative(40)
def test_ledger_change_whose_permit_was_never_reserved_is_named(spent: Any, insert: Any) -> None:
    insert([ledger(7, 4)])
    found, report = kinds(spent)
    assert found == {ProblemKind.EXECUTED_WITHOUT_SPEND}
    assert decision(7).decision_id in report.problems[0].detail


@pytest.mark.negative(40)
@pytest.mark.parametrize(
    "attack",
    [
        f"ALTER TABLE call_states DELETE WHERE decision_id = '{1:032x}'",
        f"INSERT INTO call_states (decision_id, day, decision) VALUES ('{1:032x}', '2026-09-21', 'deny')",
        f"INSERT INTO call_states (decision_id, day, decision) VALUES ('{999:032x}', '2026-09-21', 'allow')",
        f"CREATE OR REPLACE VIEW calls AS SELECT * FROM calls_kept WHERE decision_id != '{1:032x}'",
    ],
    ids=["emptied", "changed", "invented", "view redefined"],
)
def test_calls_that_are_not_what_their_events_make_are_named(spent: Any, attack: Any) -> None:
    if "VIEW" in attack:
        text = spent.value(
            "SELECT as_select FROM system.tables WHERE name = 'calls' AND database = currentDatabase()"
        )
        change(spent, f"CREATE VIEW calls_kept AS {text}")
    change(spent, attack)
    found, report = kinds(spent, calls=True)
    assert found == {ProblemKind.CALL}
    assert report.found == 1


@pytest.mark.negative(40)
def test_other_tools_sidecar_cannot_put_its_word_into_a_decisions_call(spent: Any, insert: Any) -> None:
    decided = decision(1)
    before = spent.rows("SELECT * FROM calls WHERE decision_id = {d:String}", d=decided.decision_id)
    body = canonical(
        Event(
            version=1, event_id="cc" * 16, source=sidecar_id("licet.local", "dev", "crm"), seq=1,
            stream="cc" * 16,
            prev_hash=bytes(32), time_us=START_US, kind="door.refused", reason="ROUND_SPENT",
            environment="dev",
            decision_id=decided.decision_id, spend_id="ff" * 16, tool="finance",
        )
    )  # fmt: skip
    insert([Stored(AUDIT, "licet.audit.dev.sidecar.crm", len(honest()) + 1, START_US + HOUR_US, body)])
    after = spent.rows("SELECT * FROM calls WHERE decision_id = {d:String}", d=decided.decision_id)
    assert after == before


@pytest.mark.asyncio
@pytest.mark.negative(40)
async def test_ledger_row_rewritten_or_its_time_of_storing_is_named_against_jetstream_only(
    house: Any, tmp_path: Any
) -> None:
    from audit.proof.asking_again import AskingAgain
    from audit.proof.origin import origin_problems
    from audit.proof.witness import SETTINGS

    house.start_writer(LICET_KEYS_DIR="")
    for seq in (1, 2, 3):
        row = ledger(seq, seq)
        await house.publish([row.data], row.subject, "sidecar-finance")
    await house.until(house.stored(3, LEDGER))
    origin = AskingAgain(house.nats.settings("audit-writer"), "test")

    async def against_jetstream() -> tuple[list[Any], list[str]]:
        notes: list[str] = []
        found = origin_problems(origin, house.store.client, "dev", dict(SETTINGS), notes)
        return [problem async for problem in found], notes

    problems, notes = await against_jetstream()
    assert problems == []
    assert f"{LEDGER}: 3 messages compared with JetStream" in notes
    old = replace(
        ledger(2, 2),
        time_us=house.store.value(
            "SELECT js_time_us FROM events WHERE js_stream = {s:String} AND js_seq = 2", s=LEDGER
        ),
    )
    put_in_place(house.store, None, old, ledger(2, 2, amount=-1))
    put_in_place(house.store, None, replace(ledger(3, 3), time_us=old.time_us - 60_000_000), ledger(3, 3))
    problems, _ = await against_jetstream()
    await origin.close()
    make_dev_keys(tmp_path / "keys", "dev", ("finance",), (), "licet.local")
    told = {**house.environment(), "LICET_KEYS_DIR": str(tmp_path / "keys")}
    command = [sys.executable, "-m", "licet", "audit", "verify", "--json"]
    done = await asyncio.to_thread(
        subprocess.run, command, env=told, capture_output=True, text=True, check=False
    )
    said = json.loads(done.stdout)
    assert (done.returncode, [one["where"] for one in said["problems"]]) == (
        3,
        [f"{LEDGER} 2", f"{LEDGER} 3"],
    ), done.stderr
    del told["LICET_NATS_USER"]  # an address alone is what every process is told
    done = await asyncio.to_thread(
        subprocess.run, command, env=told, capture_output=True, text=True, check=False
    )
    assert "not compared with JetStream" in json.loads(done.stdout)["notes"][-1]
    assert {str(one.kind) for one in problems} == {"row differs from JetStream"}
    assert [one.where for one in problems] == [f"{LEDGER} 2", f"{LEDGER} 3"]
    assert "the row was stored at" in problems[1].detail


# --- keys that were revoked


def test_checkpoint_after_the_revocation_that_a_decider_recorded_is_named(store: Any, insert: Any) -> None:
    decider = Recorder(DECIDER, "checkpoint-decider", D1)
    sidecar = Recorder(SIDECAR, "checkpoint-sidecar", S1)
    sidecar.run(HONEST)
    decider.write("process.started")
    decider.write("key.revoked", key_id="checkpoint-sidecar")
    decider.write("process.stopped")
    insert(messages(sidecar, decider))
    assert kinds(store)[0] == set(), "what was signed before it counts"
    late = Recorder(SIDECAR, "checkpoint-sidecar", S2, previous=S1)
    late.run(HONEST)
    following = messages(sidecar, decider, late)[len(messages(sidecar, decider)) :]
    insert(following)
    found, report = kinds(store)
    assert found == {ProblemKind.REVOKED_KEY}
    assert {problem.detail for problem in report.problems} == {"key `checkpoint-sidecar`"}


def test_revocation_that_no_decider_recorded_counts_for_nobody(store: Any, insert: Any) -> None:
    sidecar = Recorder(SIDECAR, "checkpoint-sidecar", S1)
    sidecar.write("process.started")
    sidecar.write("key.revoked", key_id="checkpoint-decider")
    sidecar.write("process.stopped")
    decider = Recorder(DECIDER, "checkpoint-decider", D1)
    decider.run(HONEST)
    insert(messages(sidecar, decider))
    found, _ = kinds(store)
    assert ProblemKind.REVOKED_KEY not in found
    assert store.rows("SELECT reason FROM quarantine") == [("KIND_FORBIDDEN",)]


@pytest.mark.parametrize("name", ["spend", "decider"])
def test_spend_stored_long_after_its_keys_revocation_is_named(store: Any, insert: Any, name: Any) -> None:
    decider = Recorder(DECIDER, "checkpoint-decider", D1)
    decider.run(3, stop=False)
    decider.write("key.revoked", key_id=name)
    decider.write("process.stopped")
    insert(messages(decider))
    revoked = messages(decider)[-2].time_us
    at = [
        replace(reserve(number), time_us=revoked + late)
        for number, late in ((0, 64_000_000), (1, 65_000_000))
    ]
    insert(at)
    found, report = kinds(store)
    assert found == {ProblemKind.REVOKED_KEY}
    assert [(problem.where, problem.detail) for problem in report.problems] == [
        (f"{SPEND} 2", f"key `{name}`")
    ]


# --- what questions are answered from


@pytest.mark.parametrize("view", ["quarantine", "stream_offsets", "refusals", "hours"])
def test_view_that_was_redefined_to_hide_rows_is_named(kept: Any, insert: Any, view: Any) -> None:
    insert([Stored(AUDIT, "licet.audit.dev.sidecar.finance", 90 + n, START_US, b"\xff") for n in range(2)])
    refused = Recorder(SIDECAR, "checkpoint-sidecar", S2, previous=S1)
    refused.write("process.started")
    refused.write("door.refused", reason="NO_PERMIT", tenant="t1", tool="finance")
    insert([replace(one, seq=100 + one.seq) for one in messages(refused)])
    assert list(view_problems(kept.client)) == []
    change(kept, f"CREATE OR REPLACE VIEW {view} AS SELECT * FROM ({definitions()[view]}) LIMIT 0")
    found = list(view_problems(kept.client))
    assert {(problem.kind, problem.where) for problem in found} == {(ProblemKind.VIEW, view)}
    assert "is not there" in found[0].detail


def test_view_that_shows_what_never_happened_is_named(kept: Any) -> None:
    made = definitions()["hours"]
    change(kept, f"CREATE OR REPLACE VIEW hours AS SELECT * REPLACE (events + 1 AS events) FROM ({made})")
    found = [problem.detail for problem in view_problems(kept.client)]
    assert any("no event makes it" in detail for detail in found)
    assert any("is not there" in detail for detail in found)
