import re
import subprocess
import sys
from pathlib import Path

import pytest

from licet import metadata
from licet.refusal import DOMAIN, MESSAGE, STATUS, STEP, Reason, Refusal, Status
from licet.v1.refusal_pb2 import RefusalReason

ROOT = Path(__file__).parents[3]
PROTO = ROOT / "proto/licet/v1/refusal.proto"


def test_reasons_are_those_of_the_wire() -> None:
    wire = {name.removeprefix("REFUSAL_REASON_") for name in RefusalReason.keys()}  # noqa: SIM118 - no mapping
    assert {reason.value for reason in Reason} == wire - {"UNSPECIFIED"}


@pytest.mark.parametrize("table", [STATUS, STEP, MESSAGE])
def test_tables_are_total(table: dict[Reason, object]) -> None:
    assert set(table) == set(Reason)


def test_every_status_but_ok_is_one_of_grpc() -> None:
    grpc = pytest.importorskip("grpc")
    assert {status.value for status in Status} <= {code.name for code in grpc.StatusCode} - {"OK"}


def test_refusal_has_no_truth_value() -> None:
    """`if permit:` and `refusal or fallback` must not let a refusal through."""
    with pytest.raises(TypeError, match="no truth value"):
        bool(Refusal(Reason.SPENT))
    with pytest.raises(TypeError):
        _ = Refusal(Reason.SPENT) or "something else"


def test_refusal_knows_status_step_and_message() -> None:
    refusal = Refusal(Reason.DIGEST_MISMATCH, "amount 5100, decided 5000")
    assert refusal.status is Status.PERMISSION_DENIED
    assert refusal.step == 10
    assert refusal.message == "these are not the arguments that were decided"
    assert "5100" not in refusal.message
    assert Refusal(Reason.TOO_LARGE, step=11).step == 11


def test_steps_are_those_the_proto_names() -> None:
    """`Check NN:` in the comment of a reason is the step of that reason."""
    comments = re.findall(r"// Check (\d+): .*\n  REFUSAL_REASON_(\w+) =", PROTO.read_text())
    assert len(comments) > 50
    assert {Reason(name): int(number) for number, name in comments} == {
        reason: step
        for reason, step in STEP.items()
        if Reason(reason) in {Reason(name) for _, name in comments}
    }


@pytest.mark.parametrize("reason", list(Reason))
def test_messages_are_for_people(reason: Reason) -> None:
    """Lower case, no full stop, no value, one line: the house's form of an error."""
    message = MESSAGE[reason]
    assert re.fullmatch(r"[a-z][A-Za-z0-9 ,;:'-]*[a-z0-9]", message), message


def test_reason_names_fit_error_info() -> None:
    assert all(re.fullmatch(r"[A-Z][A-Z0-9_]{1,62}", reason) for reason in Reason)
    assert DOMAIN == "licet"


def test_metadata_names_are_lawful_and_distinct() -> None:
    names = [value for name, value in vars(metadata).items() if name.isupper()]
    assert len(set(names)) == len(names) == 7
    assert all(re.fullmatch(r"licet-[a-z-]+", name) for name in names)
    assert {name for name in names if name.endswith("-bin")} == {metadata.PERMIT, metadata.APPROVAL}


def test_page_of_refusals_is_fresh() -> None:
    command = [sys.executable, str(ROOT / "scripts" / "refusals.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
