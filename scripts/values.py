"""Write docs/reference/values.md: every value of the charts, from the comments in their values.yaml.

Each comment begins with the value's name; the default is what the file says. `--check` compares only.
"""

import argparse
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "reference" / "values.md"
CHARTS = ("licet", "licet-sidecar", "refund-example")
VERB = (
    "is|are|says|holds|makes|names|replaces|adds|chooses|may|runs|brings|signs|copies|joins|ends|refuses|closes|"
    "lets|starts|run|answers|has|counts"
)
COMMENT = re.compile(rf"(?m)^ *# ([\w.-]+) ((?:{VERB})\b[^\n]*(?:\n *# (?![\w.-]+ (?:is|are|says) )[^\n]*)*)")


def described(text: str) -> dict[str, str]:
    """Return what each comment says of its value, by the value's path."""
    found = {}
    for name, said in COMMENT.findall(text):
        lines = [line.strip().removeprefix("#").strip() for line in said.splitlines()]
        found[name] = " ".join(lines)
    return found


def leaves(values: Any, said: dict[str, str], path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every value that a comment describes, and those below a map that has none."""
    for name, value in values.items():
        here = f"{path}.{name}" if path else name
        deeper = isinstance(value, dict) and any(other.startswith(f"{here}.") for other in said)
        if here in said or not deeper:
            yield here, value
        if deeper:
            yield from leaves(value, said, here)


def page() -> str:
    """Return the whole page."""
    head = (
        "# Values of the charts\n\nGenerated from `helm/*/values.yaml` by `scripts/values.py`; do not edit. "
        "`values.schema.json` refuses what is not here.\n"
    )
    parts = [head]
    for chart in CHARTS:
        text = (ROOT / "helm" / chart / "values.yaml").read_text("utf-8")
        said = described(text)
        parts.append(f"\n## {chart}\n\n| value | default | |\n|---|---|---|\n")
        for name, value in leaves(yaml.safe_load(text), said):
            nested = isinstance(value, dict) and any(other.startswith(f"{name}.") for other in said)
            default = "" if nested else f"`{json.dumps(value)}`"
            words = said.get(name, "").replace("|", "\\|")
            parts.append(f"| `{name}` | {default} | {words} |\n")
    return "".join(parts)


def main() -> int:
    """Write or check; returns 1 when the page is stale."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only say whether it is fresh")
    fresh = page()
    if parser.parse_args().check:
        stale = not PAGE.exists() or PAGE.read_text("utf-8") != fresh
        if stale:
            print("docs/reference/values.md is stale: run scripts/values.py", file=sys.stderr)
        return int(stale)
    PAGE.write_text(fresh, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
