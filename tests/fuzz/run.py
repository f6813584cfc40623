# ruff: noqa: T201 - talks to a person
"""Fuzz one parser: `run.py TARGET --seconds N`; without TARGET, print the targets.

A target is a file fuzz_TARGET.py beside this one: its first line is the invariant, `check(data)` asserts it,
`seeds()` gives lawful inputs to begin with, `INSTRUMENT` names the modules whose branches guide the search
(a target without it instruments its own imports). An input that breaks the invariant is written to the folder
of `--artifacts`; `run.py TARGET FILE` runs it again.
"""

import argparse
import ast
import contextlib
import importlib
import sys
import tempfile
from pathlib import Path
from typing import Any

import atheris

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
LONGEST_INPUT = 4096
SLOWEST_INPUT_SECONDS = 10


def targets() -> list[str]:
    return sorted(path.stem.removeprefix("fuzz_") for path in HERE.glob("fuzz_*.py"))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("target", nargs="?", choices=targets())
    parser.add_argument("inputs", nargs="*", type=Path, help="run these files alone, once each")
    parser.add_argument("--seconds", type=int, default=30, help="how long (default 30)")
    parser.add_argument("--artifacts", type=Path, default=Path(), help="where a breaking input is written")
    parser.add_argument("--corpus", type=Path, help="keep what was found for the next run")
    return parser.parse_args()


def main() -> int:
    """Fuzz until the time is over (0) or the invariant breaks (another status, by libFuzzer)."""
    chosen = arguments()
    if chosen.target is None:
        print("\n".join(targets()))
        return 0
    sys.path[:0] = [str(HERE), str(ROOT)]
    modules = instrumented(chosen.target)
    with atheris.instrument_imports(include=modules) if modules else contextlib.nullcontext():
        target = importlib.import_module(f"fuzz_{chosen.target}")
    for path in chosen.inputs:
        target.check(path.read_bytes())
    if not chosen.inputs:
        with tempfile.TemporaryDirectory() as temporary:
            fuzz(target, chosen, chosen.corpus or Path(temporary))
    return 0


def instrumented(target: str) -> list[str]:
    """Read INSTRUMENT without importing the target: what is imported before cannot be instrumented."""
    for node in ast.parse((HERE / f"fuzz_{target}.py").read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "INSTRUMENT":
            return [*ast.literal_eval(node.value)]
    return []


def fuzz(target: Any, chosen: argparse.Namespace, corpus: Path) -> None:
    corpus.mkdir(parents=True, exist_ok=True)
    for index, seed in enumerate(getattr(target, "seeds", list)()):
        (corpus / f"seed-{index:04}").write_bytes(seed)
    options = [f"-max_total_time={chosen.seconds}", f"-max_len={LONGEST_INPUT}", "-print_final_stats=1"]
    options += [f"-timeout={SLOWEST_INPUT_SECONDS}", f"-artifact_prefix={chosen.artifacts.resolve()}/"]
    atheris.Setup([sys.argv[0], *options, str(corpus)], target.check)
    atheris.Fuzz()


if __name__ == "__main__":
    sys.exit(main())
