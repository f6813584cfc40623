"""Judge the charts, as every `ci/*-values.yaml` renders them, and the Dockerfiles by checkov.

What is not followed, and why, stands in .checkov.yaml; any other finding fails. That an open pod is found is
tried as well, so a checkov that looks at nothing fails too. checkov lies in an environment of its own below
.venv, by the hashes of requirements/checkov.lock.
"""

import hashlib
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
LOCK: Final = ROOT / "requirements" / "checkov.lock"
HOME: Final = ROOT / ".venv" / "checkov"
CHARTS: Final = ("licet", "refund-example")
OPEN_POD: Final = """
apiVersion: v1
kind: Pod
metadata: {name: open}
spec:
  hostPID: true
  containers:
    - {name: a, image: "b:1", securityContext: {privileged: true, runAsUser: 0}}
"""


def install() -> None:
    """Make the environment; once for each lock."""
    stamp = HOME / f".{hashlib.sha256(LOCK.read_bytes()).hexdigest()[:16]}"
    if stamp.exists():
        return
    shutil.rmtree(HOME, ignore_errors=True)
    print(f"installing {LOCK.name}", file=sys.stderr)
    venv.create(HOME, with_pip=True)
    pip = (str(HOME / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "--no-input", "-q")
    subprocess.run(
        [*pip, "install", "--no-deps", "--no-compile", "--require-hashes", "-r", str(LOCK)], check=True
    )
    stamp.touch()


def rendered(directory: Path) -> Iterator[Path]:
    """Write what every values file for CI renders into `directory`."""
    helm = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "helm"), "--where"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    charts = directory / "charts"
    shutil.copytree(ROOT / "helm", charts)
    build = [helm, "dependency", "build", str(charts / "refund-example")]
    subprocess.run(build, check=True, stdout=subprocess.DEVNULL)
    for chart in CHARTS:
        for values in sorted((ROOT / "helm" / chart / "ci").glob("*-values.yaml")):
            command = [
                helm,
                "template",
                chart,
                str(charts / chart),
                "--namespace",
                "tools",
                "-f",
                str(values),
            ]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            file = directory / "rendered" / f"{chart}-{values.name}"
            file.parent.mkdir(exist_ok=True)
            file.write_text(done.stdout, "utf-8")
            yield file


def judge(directory: Path, framework: str) -> tuple[int, str]:
    """Run checkov; return its exit status and what it said."""
    done = subprocess.run(
        [str(HOME / "bin" / "checkov"), "--config-file", str(ROOT / ".checkov.yaml"), "--skip-download",
         "--framework", framework, "-d", str(directory)],
        check=False, capture_output=True, text=True,
    )  # fmt: skip
    return done.returncode, done.stdout + (done.stderr if done.returncode else "")


def main() -> int:
    """Return the exit status: 1 for a finding that .checkov.yaml does not explain."""
    install()
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        files = list(rendered(directory))
        (directory / "open").mkdir()
        (directory / "open" / "pod.yaml").write_text(OPEN_POD)
        found, _ = judge(directory / "open", "kubernetes")
        statuses = []
        for where, framework in ((directory / "rendered", "kubernetes"), (ROOT / "images", "dockerfile")):
            status, said = judge(where, framework)
            print(said.strip())
            statuses.append(status)
    if not found:
        print("checkov finds nothing wrong with an open pod: it judges nothing", file=sys.stderr)
        return 1
    print(f"judged {len(files)} renders and the Dockerfiles", file=sys.stderr)
    return int(any(statuses))


if __name__ == "__main__":
    sys.exit(main())
