"""The reconciler over a real store and a real ledger: findings, bypasses at once, orphans, fences."""

import asyncio
import contextlib
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from audit.asking.show import evidence_text
from audit.asking.timeline import page
from audit.judging import story
from audit.judging.evidence import read, task_rows
from audit.judging.fence import FenceError
from audit.judging.findings import FENCE_GRACE_MS, FindingClass
from audit.judging.ledger_reader import LedgerCursors, LedgerReader, LedgerReaderError, read_file, read_labels
from audit.judging.reconcile import FENCE_FAILURES, Reconciler
from audit.store.row import COLUMNS, insert_settings
from audit.store.sheet import encode
from audit.store.stored import House, Stored
from audit.writing.writer import streams
from licet import metrics
from licet.dsse import PayloadType, SigningKey
from licet.identity import reconciler_id
from licet.keys import KeyRole, KeySet, PublicKey
from licet.spend import outcome_payload, reserve_payload, spend_id
from licet.strict import canonical
from licet.v1.decision_pb2 import Decision, DecisionType
from licet.v1.event_pb2 import Event
from licet.v1.guard_pb2 import FENCE_STATE_VOIDED, FenceResponse, LedgerChange
from licet.v1.spend_pb2 import Outcome
from tests.worlds.log_lines import log_lines
from tests.worlds.scrape import samples, total

AT = 1_790_000_000_000_000
TRACE = "a" * 32
LATER = AT + 30_000_000
END_MS = AT // 1000 + 60_000
AUDIENCE = "spiffe://licet.local/dev/tool/finance"
SIDECAR = "spiffe://licet.local/dev/sidecar/finance"
PERMITS, SPENDS = SigningKey.from_seed("decider", bytes(32)), SigningKey.from_seed("spend", b"1" * 32)
CRM_SPENDS = SigningKey.from_seed("spend-crm", b"2" * 32)
CRM = "spiffe://licet.local/dev/sidecar/crm"
CRM_AUDIENCE = "spiffe://licet.local/dev/tool/crm"


def public(key: SigningKey, role: KeyRole, owner: str, audience: str = "") -> PublicKey:
    return PublicKey(key.key_id, role, "dev", key.public_key, 0, 1 << 60, owner=owner, audience=audience)


OWNER = House(
    "dev",
    "licet.local",
    KeySet(
        "dev",
        1,
        {
            "decider": public(PERMITS, KeyRole.DECIDER, "spiffe://licet.local/dev/decider"),
            "spend": public(SPENDS, KeyRole.SPEND, SIDECAR, AUDIENCE),
            "spend-crm": public(CRM_SPENDS, KeyRole.SPEND, CRM, CRM_AUDIENCE),
        },
    ),
)
AUDIT, SPEND, LEDGER = "LICET_AUDIT_dev", "LICET_SPEND_LOG_dev", "LICET_LEDGER_dev"
COLUMNS_OF_LEDGER = (
    "SELECT rowid AS cursor, spend_id, entry, change_id, 't1' AS tenant, 'order:' || order_id AS resource,"
    " account, amount_minor, currency FROM ledger"
)


class Findings:
    """A recorder that keeps what it is told."""

    def __init__(self) -> None:
        self.raised: list[tuple[str, str, dict[str, Any]]] = []

    async def append(self, kind: Any, **fields: Any) -> str:
        self.raised.append((str(kind), str(fields["finding"]), fields))
        return "id"

    @property
    def names(self) -> list[str]:
        return [f"{kind.partition('.')[2]} {finding}" for kind, finding, _ in self.raised]


class Guard:
    """A fencer that answers, or fails so often before."""

    def __init__(self, failures: int = 0) -> None:
        self.asked: list[tuple[str, bytes]] = []
        self.failures = failures

    async def fence(self, tool: str, reserve: bytes) -> FenceResponse:
        self.asked.append((tool, reserve))
        if len(self.asked) <= self.failures:
            raise FenceError("UNAVAILABLE: away")
        return FenceResponse(state=FENCE_STATE_VOIDED)


class World:
    """What the streams and the ledger of one tool say, written into a store."""

    def __init__(self, store: Any, event: Any, directory: Path) -> None:
        self.store, self.event = store, event
        self.seqs = {AUDIT: 0, SPEND: 0, LEDGER: 0}
        self.ledger = directory / "ledger.db"
        with sqlite3.connect(self.ledger) as connection:
            connection.execute(
                "CREATE TABLE ledger (change_id, spend_id, entry, order_id, account, amount_minor, currency)"
            )
        connection.close()
        self.findings, self.guard = Findings(), Guard()
        self.reconciler = self.make()

    def make(self, readers: dict[str, LedgerReader] | None = None, **given: Any) -> Reconciler:
        """A reconciler that began before anything happened; the days of these tests are long over."""
        made = self.new(readers, **given)
        made._cursors = {}
        return made

    def new(self, readers: dict[str, LedgerReader] | None = None, **given: Any) -> Reconciler:
        client = self.store.client
        return Reconciler(client, self.findings, self.guard, readers or {}, streams=streams("dev"), **given)

    def reader(self) -> dict[str, LedgerReader]:
        return {"finance": LedgerReader("finance", f"file:{self.ledger}", COLUMNS_OF_LEDGER)}

    def put(self, stream: str, subject: str, body: bytes) -> None:
        self.seqs[stream] += 1
        seq = self.seqs[stream]
        message = Stored(stream, subject, seq, AT + seq, body, origin_seq=seq)
        settings = dict(insert_settings(f"{stream}:{seq}"))
        self.store.client.raw_insert(
            "events", COLUMNS, encode([message], OWNER), fmt="Protobuf", settings=settings
        )

    def decide(self, decision: str, number: int = 1, order: str = "O1", at: int = AT) -> str:
        step = spend_id("dev", "t1", AUDIENCE, "bot", "task", f"call{number}")
        kind = {"allow": "decision.allowed", "deny": "decision.denied"}[decision]
        self.put(
            AUDIT,
            "licet.audit.dev.decider.main",
            self.event(
                self.seqs[AUDIT] + 1, kind=kind, decision=decision, decision_id=f"{number:032x}",
                spend_id=step, resource=f"order:{order}", tenant="t1", tool="finance", tier=4,
                amount_minor=5000, currency="USD", call_digest="ab" * 32, time_us=at, not_after_ms=END_MS,
                task_id="task", call_id=f"call{number}", trace_id=TRACE, span_id="b" * 16,
                reason="" if decision == "allow" else "POLICY_DENIED",
            ),
        )  # fmt: skip
        return step

    def reserve(self, step: str, number: int = 1, order: str = "O1") -> None:
        decided = Decision(
            version=1, decision_id=f"{number:032x}", decision=DecisionType.DECISION_TYPE_ALLOW,
            environment="dev", tenant="t1", spend_id=step, resource=f"order:{order}",
            not_after_ms=END_MS, audience=AUDIENCE,
        )  # fmt: skip
        payload = reserve_payload(
            environment="dev", permit=PERMITS.sign(PayloadType.PERMIT, canonical(decided)), attempt="a" * 32,
            sidecar=SIDECAR, reserved_at_ms=AT // 1000, call_digest=b"",
        )  # fmt: skip
        body = canonical(SPENDS.sign(PayloadType.SPEND, payload))
        self.put(SPEND, f"licet.spend.dev.finance.{step}.0.reserve", body)

    def outcome(self, step: str, outcome: Any = Outcome.OUTCOME_EXECUTED, number: int = 1) -> None:
        payload = outcome_payload(
            environment="dev", spend_id=step, round=0, attempt="a" * 32, outcome=outcome, sidecar=SIDECAR,
            recorded_at_ms=AT // 1000, status_code=0, decision_id=f"{number:032x}",
        )  # fmt: skip
        body = canonical(SPENDS.sign(PayloadType.SPEND, payload))
        self.put(SPEND, f"licet.spend.dev.finance.{step}.0.outcome", body)

    def change(
        self, step: str, order: str = "O1", amount: int = 5000, number: int = 1, at: int = AT + 1000
    ) -> None:
        """Two rows in the ledger, told by the outbox."""
        for entry, account, signed in ((1, "merchant:t1", -amount), (2, f"customer:{order}", amount)):
            self.write_ledger(step, entry, order, account, signed)
            row = LedgerChange(
                outbox_seq=self.seqs[LEDGER] + 1, audience=AUDIENCE, spend_id=step, entry=entry,
                change_id=f"{step}/{entry}", resource=f"order:{order}", tenant="t1", account=account,
                amount_minor=signed, currency="USD", call_digest=bytes.fromhex("ab" * 32),
                decision_id=f"{number:032x}" if step else "", committed_at_us=at,
                issuer="permit",
            )  # fmt: skip
            self.put(LEDGER, f"licet.ledger.dev.finance.{self.seqs[LEDGER] + 1}", canonical(row))

    def write_ledger(self, step: str, entry: int, order: str, account: str, signed: int) -> None:
        connection = sqlite3.connect(self.ledger)
        with connection:
            connection.execute(
                "INSERT INTO ledger VALUES (?, ?, ?, ?, ?, ?, ?)",
                (f"{step or 'raw'}/{entry}", step or None, entry, order, account, signed, "USD"),
            )
        connection.close()

    def executed(self, number: int = 1, order: str = "O1") -> str:
        step = self.decide("allow", number, order)
        self.reserve(step, number, order)
        self.outcome(step, number=number)
        self.change(step, order, number=number)
        return step


@pytest.fixture
def world(store: Any, event: Any, tmp_path: Path) -> World:
    return World(store, event, tmp_path)


@pytest.mark.asyncio
async def test_executed_as_announced_and_only_once_raised(world: Any) -> None:
    step = world.executed()
    assert await world.reconciler.poll(LATER) == 1
    assert await world.reconciler.poll(LATER + 1) == 0
    assert world.findings.names == ["raised ALLOWED_EXECUTED"]
    fields = world.findings.raised[0][2]
    assert (fields["spend_id"], fields["amount_minor"], fields["currency"]) == (step, 5000, "USD")
    found = read(world.store.client, now_us=LATER, task_id="task", call_id="call1")
    assert [len(part) for part in (found.policy, found.authorization, found.ledger)] == [1, 2, 2]
    assert str(found.finding.finding) == "ALLOWED_EXECUTED"


@pytest.mark.asyncio
async def test_finding_waits_until_the_evidence_is_settled(world: Any) -> None:
    world.decide("deny")
    assert await world.reconciler.poll(AT + 1) == 0
    assert await world.reconciler.poll(LATER) == 1
    assert world.findings.names == ["raised DENIED_STOPPED"]


@pytest.mark.asyncio
@pytest.mark.negative(39)
async def test_denial_that_is_bypassed_later_is_cleared_and_raised_anew_at_once(world: Any) -> None:
    world.decide("deny")
    await world.reconciler.poll(LATER)
    world.change("", order="O1", at=AT + 40_000_000)  # the tool's outbox tells of a row without a step
    await world.reconciler.poll(AT + 41_000_000)
    assert world.findings.names[:1] == ["raised DENIED_STOPPED"]
    assert "cleared DENIED_STOPPED" in world.findings.names
    assert world.findings.names.count("raised DENIED_BUT_BYPASSED") == 3  # each row, and the step


@pytest.mark.asyncio
@pytest.mark.negative(39)
async def test_row_that_nobody_decided_is_an_orphan_at_once(world: Any) -> None:
    world.change("", order="O7")
    await world.reconciler.poll(AT + 2000)
    assert world.findings.names == ["raised NO_RULE_LOOKUP"] * 2


@pytest.mark.asyncio
@pytest.mark.negative(39)
async def test_row_written_past_tool_and_outbox_is_found_by_the_ledger_reader(world: Any) -> None:
    step = world.executed()
    reconciler = world.make(world.reader())
    await reconciler.poll(LATER)
    assert world.findings.names == ["raised ALLOWED_EXECUTED"]
    world.write_ledger("", 1, "O9", "merchant:t1", -9900)  # as the database's superuser
    world.write_ledger("ff" * 16, 1, "O8", "merchant:t1", -9900)  # under a step that never was
    await reconciler.poll(LATER + 1)
    assert world.findings.names[1:] == ["raised NO_RULE_LOOKUP"]
    await reconciler.poll(LATER + 20_000_000)
    assert world.findings.names[1:] == ["raised NO_RULE_LOOKUP"] * 2
    assert {fields["resource"] for _, _, fields in world.findings.raised[1:]} == {"order:O9", "order:O8"}
    assert step


@pytest.mark.asyncio
@pytest.mark.negative(39)
async def test_outbox_and_ledger_that_differ_disagree(world: Any) -> None:
    step = world.executed()
    world.write_ledger(step, 3, "O1", "merchant:t1", -100)
    await world.make(world.reader()).poll(LATER)
    assert world.findings.names == ["raised LEDGER_DISAGREES"]


@pytest.mark.asyncio
async def test_open_round_is_fenced_after_the_grace_and_not_before(world: Any) -> None:
    step = world.decide("allow")
    world.reserve(step)
    due = (END_MS + FENCE_GRACE_MS) * 1000
    await world.reconciler.poll(due - 1)
    assert world.guard.asked == []
    await world.reconciler.poll(due)
    assert [tool for tool, _ in world.guard.asked] == ["finance"]
    record = world.store.client.query(
        "SELECT event FROM events WHERE kind = 'spend.reserved'", column_formats={"event": "bytes"}
    ).result_rows[0][0]
    assert world.guard.asked[0][1] == record
    world.outcome(step, Outcome.OUTCOME_VOIDED)  # the sidecar wrote what the guard said
    await world.reconciler.poll(due + 5_000_000)
    assert world.findings.names == ["raised ALLOWED_NOT_EXECUTED"]
    assert len(world.guard.asked) == 1


@pytest.mark.asyncio
async def test_round_that_cannot_be_fenced_becomes_a_persons_matter(world: Any) -> None:
    world.guard.failures = 1000
    world.reserve(world.decide("allow"))
    due = (END_MS + FENCE_GRACE_MS) * 1000
    for number in range(60):
        await world.reconciler.poll(due + number * 1_000_000)
    assert FENCE_FAILURES <= len(world.guard.asked) < 15  # further and further apart
    assert world.findings.names == ["raised UNKNOWN_OUTCOME"]


@pytest.mark.asyncio
async def test_label_that_names_other_rules(world: Any) -> None:
    world.executed()
    await world.make(labels={("task", "call1"): ("other",)}).poll(LATER)
    assert world.findings.names == ["raised WRONG_RULE"]


@pytest.mark.asyncio
async def test_new_reconciler_begins_with_what_has_no_finding_yet(world: Any) -> None:
    now_us = world.store.value("SELECT toUnixTimestamp64Micro(now64(6))")
    body = world.event(1, time_us=now_us)
    message = Stored(AUDIT, "licet.audit.dev.decider.main", 1, now_us, body)
    world.store.client.raw_insert(
        "events", COLUMNS, encode([message], OWNER), fmt="Protobuf", settings=dict(insert_settings("now"))
    )
    first = world.new()
    assert (await first.poll(now_us), first.open_steps) == (0, 1)


def test_reader_opens_sqlite_read_only_whatever_the_dsn_says(world: Any) -> None:
    reader = LedgerReader("finance", f"file:{world.ledger}?mode=rwc", "SELECT 1")
    with pytest.raises(LedgerReaderError, match="readonly"):
        reader._run("INSERT INTO ledger VALUES (1, 1, 1, 1, 1, 1, 1)", {})
    with pytest.raises(LedgerReaderError, match="must select `cursor`"):
        LedgerReader("finance", f"file:{world.ledger}", "SELECT '1' AS spend_id").of_step("1")


def test_ledger_seen_for_the_first_time_starts_at_its_end(world: Any, tmp_path: Path) -> None:
    world.write_ledger("", 1, "O1", "merchant:t1", -1)
    cursors = LedgerCursors(tmp_path / "cursors.json")
    assert cursors.load(world.reader()) == {"finance": 1}
    world.write_ledger("", 2, "O1", "merchant:t1", -1)
    assert LedgerCursors(tmp_path / "cursors.json").load(world.reader()) == {"finance": 1}


class Killed(BaseException):
    """What a kill is to code: nothing after it runs."""


class Told(Findings):
    """A recorder whose findings are in the store, and that is killed before or after one of them is kept."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world, self.before, self.after = world, 0, 0

    async def append(self, kind: Any, **fields: Any) -> str:
        self.before -= 1
        if self.before == 0:
            raise Killed
        number = len(self.raised) + 1
        source = reconciler_id("licet.local", "dev")
        body = self.world.event(
            1000 + number, kind=str(kind), source=source, stream="cd" * 16, seq=number, decision="",
            decision_id="", spend_id="", reason="", rule_ids=[], time_us=AT + number,
        )  # fmt: skip
        event = Event.FromString(body)
        for name, value in fields.items():
            setattr(event, name, value)
        self.world.put(AUDIT, "licet.audit.dev.audit.reconciler", canonical(event))
        await super().append(kind, **fields)
        self.after -= 1
        if self.after == 0:
            raise Killed
        return "id"


@pytest.mark.asyncio
@pytest.mark.negative(39)
async def test_reconciler_killed_between_any_two_of_its_steps_passes_over_no_row_and_says_nothing_twice(
    world: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    world.findings = told = Told(world)
    kept = tmp_path / "cursors.json"
    LedgerCursors(kept).load(world.reader())

    async def run(at: int, *, save: bool = True) -> None:
        cursors = LedgerCursors(kept)
        given = cursors.load(world.reader())
        reconciler = world.make(world.reader(), ledger_cursors=given)
        await reconciler.poll(at)
        if save:
            cursors.save(reconciler.ledger_cursors)

    kills = ("before the finding", "after it", "before the cursors are saved", "while they are", "not at all")
    for number, kill in enumerate(kills, 1):
        world.write_ledger("", number, f"O{number}", "merchant:t1", -9900)  # nobody's: raised at once
        world.write_ledger(f"{number:02x}" * 16, 1, f"P{number}", "merchant:t1", -1)  # raised after 10 s
        told.before, told.after = int(kill == kills[0]), int(kill == kills[1])
        with monkeypatch.context() as patched, contextlib.suppress(Killed):
            if kill == kills[3]:
                patched.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(Killed))
            await run(LATER, save=kill != kills[2])
        told.before = told.after = 0
        await run(LATER + 1)
        cursors = LedgerCursors(kept)
        last = world.make(world.reader(), ledger_cursors=cursors.load(world.reader()))
        for at in (LATER + 2, LATER + 20_000_000):
            await last.poll(at)
        cursors.save(last.ledger_cursors)
        raised = sorted(fields["change_id"] for _, _, fields in told.raised)
        wanted = [f"raw/{one}" for one in range(1, number + 1)]
        wanted += [f"{one:02x}" * 16 + "/1" for one in range(1, number + 1)]
        assert raised == sorted(wanted), kill
        assert last.ledger_cursors == {"finance": 2 * number}
    kept.unlink()  # lost: read again from the first row, and nothing is said again
    lost = world.make(world.reader(), ledger_cursors={"finance": 0})
    for at in (LATER, LATER + 20_000_000):
        await lost.poll(at)
    assert len(told.raised) == 2 * len(kills)


@pytest.mark.asyncio
@pytest.mark.negative(39)
async def test_outbox_row_without_a_step_that_came_while_no_reconciler_ran_is_found_by_the_next(
    world: Any,
) -> None:
    row = ledger_row("", change_id="raw/1")
    put_ledger(world, row)
    assert await world.new().poll(AT + 3_600_000_000) == 1
    assert world.findings.names == ["raised NO_RULE_LOOKUP"]


@pytest.mark.asyncio
async def test_new_reconciler_judges_a_step_again_that_changed_after_its_finding_and_repeats_no_other(
    world: Any,
) -> None:
    world.findings = Told(world)
    first, second = world.executed(1), world.executed(2, "O2")
    await world.make().poll(LATER)
    assert len(world.findings.raised) == 2
    world.change(first, number=1)  # twice, now
    assert await world.new().poll(LATER) == 1
    assert [fields["spend_id"] for kind, _, fields in world.findings.raised[2:] if "raised" in kind] == [
        first
    ]
    assert second


def test_files_of_readers_and_labels_say_what_is_wrong(tmp_path: Path) -> None:
    path = tmp_path / "readers.toml"
    path.write_text('[finance]\ndsn = "mysql://x"\nsql = "SELECT 1"\n')
    with pytest.raises(LedgerReaderError, match="a dsn begins with"):
        read_file(path)
    path.write_text('[finance]\ndsn = "file:x"\n')
    with pytest.raises(LedgerReaderError, match="exactly `dsn` and `sql`"):
        read_file(path)
    path.write_text('[[label]]\ntask_id = "t"\ncall_id = "c"\nrule_ids = ["r"]\n')
    assert read_labels(path) == {("t", "c"): ("r",)}
    path.write_text("label = 1\n")
    with pytest.raises(LedgerReaderError, match="no label file"):
        read_labels(path)


# --- one step that cannot be judged must not blind the others (attacks on the reconciler itself)


def ledger_row(step: str, tool: str = "finance", **changed: Any) -> LedgerChange:
    fields: dict[str, Any] = {
        "outbox_seq": 900_000, "audience": AUDIENCE, "spend_id": step, "entry": 1, "change_id": "c/1",
        "resource": "order:X", "tenant": "t1", "account": "a", "amount_minor": 1, "currency": "USD",
        "committed_at_us": AT, "issuer": "permit",
    }  # fmt: skip
    return LedgerChange(**{**fields, **changed})


def put_ledger(world: Any, row: LedgerChange, tool: str = "finance") -> None:
    row.outbox_seq = world.seqs[LEDGER] + 1
    world.put(LEDGER, f"licet.ledger.dev.{tool}.{row.outbox_seq}", canonical(row))


@pytest.mark.asyncio
@pytest.mark.parametrize("amounts", [(2**63 - 1, 2**63 - 1), (-(2**63),), (-(2**63), -(2**63))])
async def test_ledger_amounts_past_64_bits_do_not_stop_the_reconciler(world: Any, amounts: Any) -> None:
    for entry, amount in enumerate(amounts, 1):
        put_ledger(world, ledger_row("ee" * 16, amount_minor=amount, entry=entry, change_id=f"c/{entry}"))
    lawful = world.executed()
    await world.reconciler.poll(LATER)
    assert sorted(world.findings.names) == ["raised ALLOWED_EXECUTED", "raised NO_RULE_LOOKUP"]
    for kind, _, fields in world.findings.raised:
        Event(kind=kind, **fields)  # the journal can write it
    page = next(fields for _, name, fields in world.findings.raised if name == "NO_RULE_LOOKUP")
    true = max(sum(a for a in amounts if a > 0), -sum(a for a in amounts if a < 0))
    assert page["amount_minor"] == 2**63 - 1
    assert (str(true) in page["detail"]) == (true > 2**63 - 1)
    assert lawful


@pytest.mark.asyncio
async def test_step_whose_judging_raises_pages_and_the_others_are_judged(
    world: Any, monkeypatch: Any
) -> None:
    bad, good = world.executed(1, "O1"), world.executed(2, "O2")
    from audit.judging.findings import classify as true

    def classify(story: Any, **given: Any) -> Any:
        if any(decided.spend_id == bad for decided in story.decisions):
            raise ValueError("Value out of range: 1")
        return true(story, **given)

    monkeypatch.setattr("audit.judging.reconcile.classify", classify)
    with log_lines() as lines:
        for number in range(8):
            await world.reconciler.poll(LATER + number * 40_000_000)
    names = [(finding, fields["spend_id"]) for _, finding, fields in world.findings.raised]
    assert sorted(names) == [("ALLOWED_EXECUTED", good), ("NOT_JUDGED", bad)]
    assert world.reconciler.open_steps == 0
    pages = [one for one in lines if one["event"] == "finding.pages"]
    assert pages
    assert {one["trace_id"] for one in pages} == {TRACE}, "each line leads to the step's trace"


@pytest.mark.asyncio
async def test_ledger_row_that_is_none_pages_and_hides_no_other(world: Any) -> None:
    reconciler = world.make(world.reader())
    world.write_ledger("", 1, "O9", "merchant:t1", "much")
    world.write_ledger("", 2, "O8", "merchant:t1", -9900)
    await reconciler.poll(LATER)
    assert sorted(world.findings.names) == ["raised NOT_JUDGED", "raised NO_RULE_LOOKUP"]
    assert reconciler.ledger_cursors == {"finance": 2}


@pytest.mark.asyncio
async def test_process_goes_on_after_an_exception_nobody_foresaw(monkeypatch: Any) -> None:
    from audit import run

    polls = []

    class Hurt:
        def __init__(self) -> None:
            self.ledger_cursors: dict[str, int] = {}

        async def poll(self, now_us: int) -> int:
            polls.append(now_us)
            if len(polls) == 1:
                raise ValueError("Value out of range")
            if len(polls) == 3:
                raise asyncio.CancelledError
            return 0

    class Kept:
        def save(self, cursors: Any) -> None:
            assert cursors == {}

    monkeypatch.setattr(run, "STORE_WAIT_S", 0.0)
    counts = metrics.configure("test", None, "127.0.0.1:0")
    with pytest.raises(asyncio.CancelledError):
        await run._poll(Hurt(), Kept(), 0.0, counts)  # type: ignore[arg-type]
    assert len(polls) == 3
    found = await asyncio.to_thread(samples, counts.port)
    counts.shutdown()
    assert [one.value for one in found if one.name == "licet_audit_reconciler_failures_total"] == [1]


@pytest.mark.asyncio
async def test_what_alerts_ask_for_is_shown_before_it_happens_so_that_the_first_time_is_seen(
    world: Any,
) -> None:
    counts = metrics.configure("test", None, "127.0.0.1:0")
    reconciler = world.make(world.reader(), metrics=counts)
    first = await asyncio.to_thread(samples, counts.port)
    findings = {one.labels["licet_finding"] for one in first if one.name == "licet_findings_total"}
    assert findings == {str(finding) for finding in FindingClass}
    evidences = {one.labels["licet_evidence"] for one in first if one.name == "licet_audit_not_counted_total"}
    assert evidences == {"decision", "door", "spend", "ledger"}
    assert {one.value for one in first if one.name.endswith("_total")} == {0}
    await reconciler.poll(LATER)
    world.ledger.write_bytes(b"no database any more")
    await reconciler.poll(LATER)
    found = await asyncio.to_thread(samples, counts.port)
    counts.shutdown()
    assert [one.value for one in found if one.name == "licet_audit_ledger_not_read_total"] == [1]


# --- a second tool's sidecar writes into a step of the first


@pytest.mark.asyncio
async def test_other_tools_sidecar_cannot_end_a_round_or_write_a_ledger_row_of_a_step(world: Any) -> None:
    step = world.decide("allow")
    world.reserve(step)
    payload = outcome_payload(
        environment="dev", spend_id=step, round=0, attempt="a" * 32, outcome=Outcome.OUTCOME_EXECUTED,
        sidecar=CRM, recorded_at_ms=AT // 1000, status_code=0, decision_id=f"{1:032x}",
    )  # fmt: skip
    signed = canonical(CRM_SPENDS.sign(PayloadType.SPEND, payload))
    world.put(SPEND, f"licet.spend.dev.crm.{step}.0.outcome", signed)
    counts = metrics.configure("test", None, "127.0.0.1:0")
    await world.make(metrics=counts).poll((END_MS + FENCE_GRACE_MS) * 1000)
    counted = await asyncio.to_thread(samples, counts.port)
    counts.shutdown()
    assert total(counted, "licet_audit_not_counted_total") == 1
    assert total(counted, "licet_audit_not_counted_total", evidence="spend") == 1
    assert [tool for tool, _ in world.guard.asked] == ["finance"]  # the round is open all the same
    found = read(world.store.client, now_us=LATER, spend_id=step)
    assert str(found.finding.finding) == "UNKNOWN_OUTCOME"
    assert found.story.strangers == ("spend.outcome of `crm`",)
    assert len(found.authorization) == 2  # kept


@pytest.mark.asyncio
async def test_other_tools_ledger_row_under_a_denied_step_is_its_own_orphan_and_no_bypass(world: Any) -> None:
    step = world.decide("deny")
    put_ledger(world, ledger_row(step, audience=CRM_AUDIENCE, resource="order:O1"), "crm")
    await world.reconciler.poll(LATER)
    raised = {(finding, fields["tool"]) for _, finding, fields in world.findings.raised}
    assert raised == {("DENIED_STOPPED", "finance"), ("NO_RULE_LOOKUP", "crm")}


@pytest.mark.asyncio
async def test_spend_record_signed_by_another_tools_key_is_no_evidence(world: Any) -> None:
    step = world.decide("allow")
    world.reserve(step)
    payload = outcome_payload(
        environment="dev", spend_id=step, round=0, attempt="a" * 32, outcome=Outcome.OUTCOME_FAILED_NO_EFFECT,
        sidecar=CRM, recorded_at_ms=AT // 1000, status_code=0, decision_id=f"{1:032x}",
    )  # fmt: skip
    signed = canonical(CRM_SPENDS.sign(PayloadType.SPEND, payload))
    world.put(SPEND, f"licet.spend.dev.finance.{step}.0.outcome", signed)
    found = read(world.store.client, now_us=LATER, spend_id=step)
    assert str(found.finding.finding) == "UNKNOWN_OUTCOME"
    assert found.story.strangers == ("spend.outcome of `finance` with signature SIDECAR_MISMATCH",)


@pytest.mark.asyncio
async def test_row_that_names_two_steps_does_not_make_one_story_of_them(world: Any) -> None:
    one, two = world.executed(1, "O1"), world.decide("deny", 2, "O2")
    body = world.event(
        world.seqs[AUDIT] + 1, kind="door.refused", source=CRM, decision="", reason="ROUND_SPENT",
        spend_id=one, decision_id=f"{2:032x}", task_id="task", call_id="call2", tool="finance", time_us=AT,
    )  # fmt: skip
    world.put(AUDIT, "licet.audit.dev.sidecar.crm", body)
    found = read(world.store.client, now_us=LATER, task_id="task", call_id="call2")
    assert (found.spend_id, str(found.finding.finding), found.ledger) == (two, "DENIED_STOPPED", ())
    found = read(world.store.client, now_us=LATER, decision_id=f"{2:032x}")
    assert (found.spend_id, str(found.finding.finding)) == (two, "DENIED_STOPPED")
    found = read(world.store.client, now_us=LATER, spend_id=one)
    assert (found.spend_id, str(found.finding.finding)) == (one, "ALLOWED_EXECUTED")
    await world.reconciler.poll(LATER)
    assert sorted(world.findings.names) == ["raised ALLOWED_EXECUTED", "raised DENIED_STOPPED"]


# --- an effect past the sidecar, and times that are none


@pytest.mark.asyncio
async def test_effect_past_the_sidecar_with_a_valid_permit_pages(world: Any) -> None:
    step = world.decide("allow")
    world.change(step)
    await world.reconciler.poll(LATER)
    assert world.findings.names == ["raised EXECUTED_WITHOUT_SPEND"]
    assert world.findings.raised[0][2]["amount_minor"] == 5000


@pytest.mark.asyncio
@pytest.mark.parametrize("time_us", [-(2**63), 2**63 - 1])
async def test_time_past_all_bounds_in_one_row_blanks_no_bypass(world: Any, time_us: Any) -> None:
    world.decide("deny", 1, "O1")
    world.decide("deny", 2, "O1", at=time_us)
    world.change("", order="O1")
    put_ledger(world, ledger_row("", resource="order:O1", committed_at_us=time_us, change_id="far"))
    await world.reconciler.poll(LATER)
    assert world.findings.names == ["raised DENIED_BUT_BYPASSED"] * 5  # three rows, two steps


# --- evidence hidden under rows that an agent can make any number of


@pytest.mark.asyncio
async def test_refused_tries_before_and_after_do_not_hide_an_executed_refund(world: Any) -> None:
    step = world.decide("allow")
    first = world.seqs[AUDIT] + 1
    bodies = [
        world.event(
            number, kind="door.refused", source=SIDECAR, decision="", reason="DIGEST_MISMATCH", spend_id=step,
            decision_id=f"{1:032x}", resource="order:O1", time_us=AT + number,
            task_id="task", call_id="call1",
        )
        for number in range(first, first + 10_100)
    ]  # fmt: skip
    messages = [
        Stored(AUDIT, "licet.audit.dev.sidecar.finance", number, AT + number, body)
        for number, body in enumerate(bodies, first)
    ]
    world.store.client.raw_insert(
        "events", COLUMNS, encode(messages, OWNER), fmt="Protobuf", settings=dict(insert_settings("flood"))
    )
    world.seqs[AUDIT] += len(bodies)
    world.reserve(step)
    world.outcome(step)
    world.change(step, at=AT + 1_000_000)
    found = read(world.store.client, now_us=LATER, task_id="task", call_id="call1")
    assert (str(found.finding.finding), len(found.ledger), found.cut) == ("ALLOWED_EXECUTED", 2, ())
    assert [(row["reason"], row["times"]) for row in found.doors] == [("DIGEST_MISMATCH", 10_100)]
    assert "10100 times" in evidence_text(found)
    await world.reconciler.poll(LATER)
    assert world.findings.names == ["raised ALLOWED_EXECUTED"]
    rows = task_rows(world.store.client, "task")
    assert {str(row["kind"]) for row in rows} >= {"spend.reserved", "spend.outcome", "ledger.changed"}
    assert len(page("task", rows)) < 100_000


def test_evidence_that_was_cut_says_so_and_is_judged_by_nobody(world: Any, monkeypatch: Any) -> None:
    import audit.judging.evidence as under_test

    step = world.executed()
    monkeypatch.setattr(under_test, "MAX_ROWS", 1)
    monkeypatch.setattr(story, "MAX_ROWS", 1)
    monkeypatch.setattr(story.cut_of, "__defaults__", (1,))
    found = read(world.store.client, now_us=LATER, spend_id=step)
    assert found.cut == ("ledger.changed", "beside: ledger.changed")
    assert found.to_dict()["complete"] is False
    assert found.finding.pages
    assert "CUT" in evidence_text(found)
