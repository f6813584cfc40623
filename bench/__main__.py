"""Run every benchmark, or the named ones, one after the other: `python -m bench [NAME ...] [OPTION ...]`.

From the first option on, everything goes to each of them; `python bench/NAME.py --help` says what one takes.
Each prints its own figures, as ratios where two programs are compared. The exit status is 1 when any of them
failed.
"""

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def main(arguments: list[str]) -> int:
    cut = next((at for at, one in enumerate(arguments) if one.startswith("-")), len(arguments))
    names, options = arguments[:cut], arguments[cut:]
    known = sorted(path.stem for path in HERE.glob("[a-z]*.py"))
    unknown = [name for name in names if name not in known]
    if unknown:
        print(f"no benchmark `{unknown[0]}`: there are {', '.join(known)}", file=sys.stderr)
        return 2
    failed = []
    for name in names or known:
        print(f"== {name}", flush=True)
        if subprocess.call([sys.executable, str(HERE / f"{name}.py"), *options], cwd=HERE.parent):
            failed.append(name)
    for name in failed:
        print(f"failed: {name}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
