"""Generate the example's code and descriptors from `fin/v1/finance.proto`.

`python -m examples.refund.generate` writes `fin/v1/finance_pb2*.py*` and `policy/descriptors.binpb`.
With `--check` it changes nothing and fails, naming what is stale.
"""

import argparse
import sys
import sysconfig
import tempfile
from os import environ, pathsep
from pathlib import Path

from grpc_tools import protoc  # type: ignore[import-untyped] # ships no types

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PROTO = HERE / "fin/v1/finance.proto"
DESCRIPTORS = HERE / "policy/descriptors.binpb"


def generate(out: Path) -> dict[Path, bytes]:
    """Return every generated file, keyed by where it belongs; `out` is scratch space.

    Raises SystemExit with protoc's status when the proto does not compile.
    """
    environ["PATH"] = sysconfig.get_path("scripts") + pathsep + environ.get("PATH", "")
    descriptors = out / "descriptors.binpb"
    outputs = (f"--{plugin}_out={out}" for plugin in ("python", "mypy", "grpc_python", "mypy_grpc"))
    status = protoc.main(
        [
            "protoc",
            f"-I{ROOT}",
            *outputs,
            f"--descriptor_set_out={descriptors}",
            "--include_imports",
            str(PROTO),
        ]
    )
    if status:
        raise SystemExit(status)
    made = {ROOT / path.relative_to(out): path.read_bytes() for path in out.rglob("finance_pb2*.py*")}
    return made | {DESCRIPTORS: descriptors.read_bytes()}


def main() -> int:
    """Write the generated files, or check them; returns 1 when a check finds stale ones."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="change nothing, fail on stale files")
    check = parser.parse_args().check
    with tempfile.TemporaryDirectory() as scratch:
        made = generate(Path(scratch))
    stale = sorted(path for path, data in made.items() if not path.exists() or path.read_bytes() != data)
    for path in stale:
        if not check:
            path.write_bytes(made[path])
        print(f"{'stale' if check else 'wrote'} {path.relative_to(ROOT)}", file=sys.stderr)
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
