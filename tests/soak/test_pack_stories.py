"""The story of every pack, as `licet demo --pack` plays it: the real house, its evidence in ClickHouse."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKS = sorted(path.parent.name for path in (ROOT / "examples" / "packs").glob("*/story.yaml"))

pytestmark = [pytest.mark.soak, pytest.mark.e2e, pytest.mark.timeout(900)]


@pytest.mark.parametrize("pack", PACKS)
def test_story_of_a_pack_is_as_expected(pack: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "licet", "demo", "--pack", pack, "--json", "--keep", str(tmp_path / "k")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    told = json.loads(done.stdout)
    wrong = [attempt["differences"] for case in told["cases"] for attempt in case["attempts"]]
    assert not any(wrong), wrong
    assert done.returncode == 0, done.stderr
    assert [len(case["attempts"]) for case in told["cases"]] == [3, 3, 1]
    assert told["audit"]["sound"]


def test_every_pack_with_a_tool_has_a_story() -> None:
    assert PACKS == ["coding", "finance", "sales-research", "support"]
