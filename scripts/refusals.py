#!/usr/bin/env python3
"""Write the table of refusals in docs/protocol-permit.md from licet/refusal.py and the comments of its proto.

`scripts/refusals.py` writes it anew. `scripts/refusals.py --check` changes nothing and fails if it is stale.
"""

import argparse
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from licet.refusal import MESSAGE, STATUS, STEP, Reason  # noqa: E402 - the repository comes first

PAGE = ROOT / "docs" / "protocol-permit.md"
PROTO = ROOT / "proto" / "licet" / "v1" / "refusal.proto"
BEGIN, END = "<!-- refusals: written by scripts/refusals.py -->", "<!-- /refusals -->"
_COMMENT = re.compile(r"// ([^\n]*)\n  REFUSAL_REASON_(\w+) =")


def table() -> str:
    """Return the table: by check, then in the order of the enum."""
    meanings = {name: comment for comment, name in _COMMENT.findall(PROTO.read_text())}
    rows = ["| check | reason | gRPC status | when | what the caller reads |", "|---|---|---|---|---|"]
    for reason in sorted(Reason, key=lambda one: (STEP[one] == 0, STEP[one])):
        when = re.sub(r"^Check \d+: |\.$", "", meanings[reason.value])
        check = STEP[reason] or "–"
        rows.append(f"| {check} | {reason} | {STATUS[reason]} | {when} | {MESSAGE[reason]} |")
    return "\n".join(rows)


def main() -> int:
    """Write, or check; returns 1 if the check finds the page stale."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="change nothing, fail on a stale page")
    check = parser.parse_args().check
    page = PAGE.read_text()
    before, _, rest = page.partition(BEGIN)
    after = rest.partition(END)[2]
    fresh = f"{before}{BEGIN}\n\n{table()}\n\n{END}{after}"
    if fresh == page:
        return 0
    if check:
        print("docs/protocol-permit.md is stale: run scripts/refusals.py", file=sys.stderr)
        return 1
    PAGE.write_text(fresh)
    return 0


if __name__ == "__main__":
    sys.exit(main())
