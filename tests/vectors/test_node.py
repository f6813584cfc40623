"""The vectors pass in a second implementation, which shares no code with ours and uses no library."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
VECTORS = ROOT / "tests" / "vectors"
NODE = shutil.which("node")
pytestmark = pytest.mark.skipif(NODE is None, reason="NOT CHECKED IN A SECOND LANGUAGE: no `node` on PATH")


def verify(folder: Path, *names: str) -> subprocess.CompletedProcess[str]:
    command = [str(NODE), str(ROOT / "examples" / "vectors-node" / "verify.mjs"), str(folder), *names]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)


def test_vectors_pass_in_node() -> None:
    done = verify(VECTORS)
    assert (done.returncode, done.stderr) == (0, "")
    for folder in ("digest", "json", "ceilings", "ids", "sealed", "statement", "keyset", "beacon", "permit"):
        assert f"{folder}: {len(list((VECTORS / folder).glob('*.json')))} vectors" in done.stdout


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("digest/002_refund_of_50_usd.json", "method", "/vectors.v1.Refunds/refund"),
        ("digest/002_refund_of_50_usd.json", "generation", 2),
        ("digest/048_unknown_field.json", "expected", {"reason": "ARGUMENTS_MALFORMED"}),
        ("json/015_duplicate_name.json", "request", [{"hex": "7b7d", "times": 1}]),
        ("sealed/001_opens.json", "event_id", "02" * 16),
        ("sealed/013_tag_cut.json", "expected", {"fault": "MALFORMED"}),
        ("statement/001_permit_by_its_role.json", "slot", "application/vnd.licet.decision.v1+protobuf"),
        ("keyset/019_two_keys.json", "environment", "staging"),
        ("permit/002_lawful_beside_path_without_slash.json", "now_ms", 1_800_000_100_000),
        ("permit/134_amount_51.json", "expected", {"reason": "DIGEST_MISMATCH", "step": 9}),
    ],
)
def test_vector_that_was_changed_fails_in_node(tmp_path: Path, name: str, key: str, value: object) -> None:
    """Else the test above could not fail."""
    assert verify(VECTORS, name).returncode == 0
    folder = tmp_path / "vectors"
    shutil.copytree(VECTORS, folder)
    (folder / name).write_text(json.dumps(json.loads((VECTORS / name).read_text()) | {key: value}))
    done = verify(folder, name)
    assert done.returncode == 1
    assert name in done.stderr
