"""`licet approvals`: what waits for you, and your answer, signed with your own key.

The answer is signed here, over the hold's exact bytes as shown; the decider only stores it. Over mTLS with
the three `LICET_TLS_*_FILE`, in development with `LICET_IDENTITY`. Data to stdout,
talk to stderr. Exit status: 0 done, 1 not done, 2 wrong usage.
"""

import json
import os
import time
from collections.abc import Collection, Iterator, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn

import grpc
import typer

from decider.channel import ChannelError, open_channel
from decider.identifiers import printable
from licet.catalog.money import spell_amount
from licet.clock import wall_ms
from licet.hold import named_hold
from licet.keyfile import KeyFileError, read_signing_key
from licet.metadata import DEV_IDENTITY
from licet.refusal import DOMAIN, Refusal
from licet.statement import PayloadType, canonical
from licet.v1 import approvals_pb2, approvals_pb2_grpc
from licet.v1.bundle_pb2 import FieldChange
from licet.v1.hold_pb2 import Approval, ApprovalAnswer, Hold

app: Final = typer.Typer(
    no_args_is_help=True, help="See what waits for people, and answer.", pretty_exceptions_show_locals=False
)

_HINTS: Final = {
    grpc.StatusCode.UNAUTHENTICATED: ": set LICET_TLS_*_FILE, or LICET_IDENTITY where there is no TLS",
    grpc.StatusCode.PERMISSION_DENIED: ": is the key yours, in the key set with this role, not revoked, and"
    " this your first answer to the hold?",
}
"""What to look at, by how a call ended."""

TIMEOUT_S: Final = 10.0
KEY_PREFIX: Final = "approver-"
APPROVAL_VERSION: Final = 1

Decider = Annotated[str, typer.Option(envvar="LICET_DECIDER", help="address of the decider, host:port")]
Identity = Annotated[str, typer.Option(envvar="LICET_IDENTITY", help="development identity, a SPIFFE id")]
HoldId = Annotated[str, typer.Argument(help="the hold's id, or its first digits")]
Key = Annotated[Path, typer.Option(help="file of your approver key, approver-<you>.key")]
Approver = Annotated[str, typer.Option("--as", help="your name in the key set; default: from the key file")]
Role = Annotated[str, typer.Option(help="the role you answer in; default: the one that is asked for")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="do not ask whether you mean it")]
AsJson = Annotated[bool, typer.Option("--json", help="print JSON")]


def _fail(message: str) -> NoReturn:
    typer.echo(message, err=True)
    raise typer.Exit(1)


class _Desk:
    """A connection to the decider's ApprovalService."""

    def __init__(self, decider: str, identity: str) -> None:
        try:
            self._stub = approvals_pb2_grpc.ApprovalServiceStub(open_channel(decider, os.environ))
        except ChannelError as error:
            _fail(str(error))
        self._metadata = ((DEV_IDENTITY, identity),) if identity else ()

    def _call(self, method: Any, request: Any) -> Any:
        try:
            return method(request, timeout=TIMEOUT_S, metadata=self._metadata)
        except grpc.RpcError as error:
            _fail(_said(error))

    def holds(self, *, open_only: bool) -> list[approvals_pb2.HoldStatus]:
        request = approvals_pb2.ListHoldsRequest(open_only=open_only)
        return list(self._call(self._stub.ListHolds, request).holds)

    def find(self, start: str) -> approvals_pb2.HoldStatus:
        found = [one for one in self.holds(open_only=False) if _hold(one).hold_id.startswith(start)]
        if len(found) != 1:
            _fail(f"{len(found)} holds begin with `{start}`; see `licet approvals list --all`")
        return found[0]

    def answer(self, signed: Any) -> approvals_pb2.HoldStatus:
        answer = self._call(self._stub.Answer, approvals_pb2.AnswerRequest(approval=signed)).hold
        assert isinstance(answer, approvals_pb2.HoldStatus)
        return answer


def _said(error: grpc.RpcError) -> str:
    code: Any = getattr(error, "code", lambda: None)()
    details: Any = getattr(error, "details", lambda: "")()
    hint = _HINTS.get(code, "")
    return f"{DOMAIN}: {details or 'no answer'} ({code.name if code else 'UNKNOWN'}){hint}"


def _hold(status: approvals_pb2.HoldStatus) -> Hold:
    return Hold.FromString(status.hold)


def _state(status: approvals_pb2.HoldStatus) -> str:
    return approvals_pb2.HoldState.Name(status.state).removeprefix("HOLD_STATE_").lower()


def row_of(status: approvals_pb2.HoldStatus) -> dict[str, Any]:
    """Return a hold as JSON shows it."""
    hold = _hold(status)
    return {
        "hold_id": hold.hold_id,
        "state": _state(status),
        "text": hold.text,
        "tenant": hold.tenant,
        "principal": hold.principal,
        "agent": hold.agent,
        "task_id": hold.task_id,
        "method": hold.method,
        "resource": hold.resource,
        "waits_for": [f"{need.quorum} × {need.role} ({need.rule_id})" for need in status.missing],
        "approvers": list(status.approvers),
        "excluded": list(hold.excluded_approvers),
        "risk_flags": list(hold.risk_flags),
        "amount_minor": hold.amount_minor,
        "currency": hold.currency,
        "costs": {cost.name: cost.amount for cost in hold.costs},
        "changes": [{"path": one.path, "asked": one.asked, "now": one.now} for one in hold.changes],
        "facts": json.loads(hold.facts_json or "{}"),
        "expires_at": datetime.fromtimestamp(hold.expires_at_ms / 1000, UTC).isoformat(timespec="seconds"),
    }


def lines_of(row: dict[str, Any]) -> Iterator[str]:
    """Yield what an approver reads, one line for each: no fact of a tool makes a line of its own."""
    return map(printable, _lines(row))


def _lines(row: dict[str, Any]) -> Iterator[str]:
    yield str(row["text"])
    for name in (
        "hold_id",
        "state",
        "tenant",
        "principal",
        "agent",
        "task_id",
        "method",
        "resource",
        "expires_at",
    ):
        yield f"  {name:<11} {row[name]}"
    for name in ("waits_for", "approvers", "excluded", "risk_flags"):
        if row[name]:
            yield f"  {name:<11} {', '.join(row[name])}"
    if row["currency"]:
        yield f"  cost        {spell_amount(row['amount_minor'], row['currency'])} {row['currency']}"
    for name, amount in row["costs"].items():
        yield f"  cost        {amount} {name}"
    for change in row["changes"]:
        yield f"  narrowed    {change['path']}: {change['asked']} → {change['now']}"
    for name, value in sorted(row["facts"].items()):
        said = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        yield f"  fact        {name} = {said}"


@app.callback()
def _approvals() -> None:
    """See what waits for people, and answer."""


@app.command("list")
def list_holds(
    decider: Decider,
    identity: Identity = "",
    everything: Annotated[bool, typer.Option("--all", help="also those that wait no longer")] = False,
    as_json: AsJson = False,
) -> None:
    """Show what waits, newest first."""
    rows = [row_of(one) for one in _Desk(decider, identity).holds(open_only=not everything)]
    if as_json:
        typer.echo(json.dumps(rows, indent=2, ensure_ascii=False))
        return
    if not rows:
        typer.echo("no call has been held" if everything else "no call waits for an answer", err=True)
    for row in rows:
        text, waits_for = printable(row["text"])[:60], ", ".join(row["waits_for"])
        typer.echo(f"{row['hold_id'][:12]}  {row['state']:<8} {text:<60} {waits_for}")


@app.command()
def show(hold_id: HoldId, decider: Decider, identity: Identity = "", as_json: AsJson = False) -> None:
    """Show one hold with everything an answer is about."""
    row = row_of(_Desk(decider, identity).find(hold_id))
    typer.echo(json.dumps(row, indent=2, ensure_ascii=False) if as_json else "\n".join(lines_of(row)))


@app.command()
def approve(
    hold_id: HoldId,
    *,
    key: Key,
    decider: Decider,
    identity: Identity = "",
    approver: Approver = "",
    role: Role = "",
    yes: Yes = False,
) -> None:
    """Approve exactly this call. Another amount, order or moment is another hold."""
    desk = _Desk(decider, identity)
    _answer(
        hold_id, ApprovalAnswer.APPROVAL_ANSWER_APPROVE, desk, key=key, approver=approver, role=role, yes=yes
    )


@app.command()
def reject(
    hold_id: HoldId,
    *,
    key: Key,
    decider: Decider,
    identity: Identity = "",
    approver: Approver = "",
    role: Role = "",
    yes: Yes = False,
) -> None:
    """Reject it; that ends the hold, whoever else approves."""
    desk = _Desk(decider, identity)
    _answer(
        hold_id, ApprovalAnswer.APPROVAL_ANSWER_REJECT, desk, key=key, approver=approver, role=role, yes=yes
    )


@app.command()
def escalate(
    hold_id: HoldId,
    *,
    key: Key,
    decider: Decider,
    identity: Identity = "",
    approver: Approver = "",
    role: Role = "",
    yes: Yes = False,
) -> None:
    """Leave it to others, on record; your answer is used up and lifts nothing."""
    desk = _Desk(decider, identity)
    _answer(
        hold_id, ApprovalAnswer.APPROVAL_ANSWER_ESCALATE, desk, key=key, approver=approver, role=role, yes=yes
    )


@app.command()
def edit(
    hold_id: HoldId,
    *,
    at_most: Annotated[
        list[str] | None, typer.Option(help="FIELD=NUMBER: lower it to that; may be given several times")
    ] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="FIELD=VALUE: a number, true, false, or text")
    ] = None,
    mask: Annotated[list[str] | None, typer.Option(help="FIELD: mask its text")] = None,
    clear: Annotated[list[str] | None, typer.Option(help="FIELD: take it out")] = None,
    key: Key,
    decider: Decider,
    identity: Identity = "",
    approver: Approver = "",
    role: Role = "",
    yes: Yes = False,
) -> None:
    """Narrow the call instead of approving it: that is another hold, for somebody else to approve.

    Earlier answers are void, and you count as an author of the narrowed call. It may not become another
    resource, tenant or currency, nor a larger amount.

    Example:
        licet approvals edit 4f1c --at-most amount.minor=1000 --key approver-lena.key
    """
    from decider.approval.edits import EditError, read_changes

    try:
        changes = read_changes(at_most or (), set_ or (), mask or (), clear or ())
    except EditError as error:
        raise typer.BadParameter(str(error)) from None
    _answer(
        hold_id,
        ApprovalAnswer.APPROVAL_ANSWER_EDIT,
        _Desk(decider, identity),
        key=key,
        approver=approver,
        role=role,
        yes=yes,
        changes=changes,
    )


def _answer(
    hold_id: str,
    answer: ApprovalAnswer.ValueType,
    desk: _Desk,
    *,
    key: Path,
    approver: str,
    role: str,
    yes: bool,
    changes: Sequence[FieldChange] = (),
) -> None:
    status = desk.find(hold_id)
    hold = named_hold(status.hold)
    if isinstance(hold, Refusal):
        _fail(f"nothing is signed: {hold.detail}")
    try:
        signing = read_signing_key(key)
    except KeyFileError as error:
        _fail(str(error))
    who = approver or signing.key_id.removeprefix(KEY_PREFIX)
    chosen = _role(hold, role)
    fault = why_not(hold, who, chosen, status.approvers)
    if fault:
        _fail(f"nothing is signed: {fault}")
    verb = ApprovalAnswer.Name(answer).removeprefix("APPROVAL_ANSWER_").lower()
    if not yes:
        typer.echo("\n".join(lines_of(row_of(status))), err=True)
        typer.confirm(f"{verb} this as `{who}`, {chosen}?", abort=True, err=True)
    now_ms = wall_ms()
    payload = Approval(
        version=APPROVAL_VERSION,
        environment=hold.environment,
        hold_id=hold.hold_id,
        hold_sha256=sha256(status.hold).digest(),
        spend_id=hold.spend_id,
        call_digest=hold.call_digest,
        generation=hold.generation,
        approver=who,
        role=chosen,
        answer=answer,
        rule_ids=sorted({need.rule_id for need in hold.requirements if need.role == chosen}),
        authenticated_method="key",
        authenticated_at_ms=now_ms,
        not_after_ms=hold.expires_at_ms,
        changes=changes,
    )
    after = desk.answer(signing.sign(PayloadType.APPROVAL, canonical(payload)))
    typer.echo(f"{hold.hold_id[:12]}  {_state(after)}", err=True)


def why_not(hold: Hold, who: str, role: str, approvers: Collection[str]) -> str:
    """Return why an answer of `who` in `role` could not count, as far as the hold says it; empty for nothing.

    The decider judges it again: what it refuses after this is the key, its role, or a second answer.
    """
    if who in hold.excluded_approvers:
        return f"`{who}` has a part in this call: it is for others to answer"
    if who in approvers:
        return f"`{who}` has approved it already"
    asked = sorted({need.role for need in hold.requirements})
    return "" if role in asked else f"nobody asks for `{role}` here: --role {' | '.join(asked)}"


def _role(hold: Hold, role: str) -> str:
    asked = sorted({need.role for need in hold.requirements})
    if role:
        return role
    if len(asked) != 1:
        _fail(f"say in which role you answer: --role {' | '.join(asked)}")
    return asked[0]


@app.command()
def watch(
    decider: Decider,
    identity: Identity = "",
    every_s: Annotated[float, typer.Option("--every", min=0.2, help="seconds between looks")] = 2.0,
) -> None:
    """Print each hold as it appears or changes, one JSON line each, until Ctrl-C."""
    desk, seen = _Desk(decider, identity), dict[str, str]()
    while True:
        for status in reversed(desk.holds(open_only=False)):
            row = row_of(status)
            if seen.get(row["hold_id"]) != row["state"]:
                seen[row["hold_id"]] = row["state"]
                typer.echo(json.dumps(row, ensure_ascii=False))
        time.sleep(every_s)
