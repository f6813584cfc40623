"""Write each pack's `policy/descriptors.binpb` from its `tool.proto`: `python -m examples.packs.generate`.

With `--check` it changes nothing and fails, naming what is stale.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from grpc_tools import protoc  # type: ignore[import-untyped] # ships no types

PACKS = Path(__file__).resolve().parent


def descriptors(proto: Path) -> bytes:
    """Return the descriptors of a proto. Raises SystemExit with protoc's status when it does not compile."""
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "descriptors.binpb"
        status = protoc.main(
            ["protoc", f"-I{proto.parent}", f"--descriptor_set_out={out}", "--include_imports", str(proto)]
        )
        if status:
            raise SystemExit(status)
        return out.read_bytes()


def main() -> int:
    """Write the descriptors, or check them; returns 1 when a check finds stale ones."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="change nothing, fail on stale files")
    check, stale = parser.parse_args().check, False
    for proto in sorted(PACKS.glob("*/tool.proto")):
        path, made = proto.parent / "policy/descriptors.binpb", descriptors(proto)
        if not path.exists() or path.read_bytes() != made:
            stale = True
            if not check:
                path.write_bytes(made)
            print(f"{'stale' if check else 'wrote'} {path.relative_to(PACKS)}", file=sys.stderr)
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
