"""Make every key of an environment once and keep them as Secrets of this namespace.

Run in the cluster by the keys job: `python keys.py --layout layout.json --service-account DIR`. What is there
already stays as it is; a second run changes nothing. Once a person has taken the root key's Secret away,
nothing more is signed here: the run checks that every object is complete, and says what is missing.
"""

import argparse
import base64
import json
import os
import ssl
import sys
import tempfile
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from licet.embedded.dev_keys import make_dev_keys
from licet.keyfile import KeyFileError

MERGE = "application/merge-patch+json"


class Cluster:
    """The Kubernetes API, as the pod's service account."""

    def __init__(self, account: Path, address: str) -> None:
        self._token = (account / "token").read_text("ascii").strip()
        self._namespace = (account / "namespace").read_text("ascii").strip()
        self._address = address
        self._context = ssl.create_default_context(cafile=str(account / "ca.crt"))

    def read(self, kind: str, name: str) -> dict[str, Any] | None:
        """Return an object, None where there is none."""
        try:
            return self._send("GET", f"{kind}/{name}")
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return None
            raise

    def create(self, kind: str, body: dict[str, Any]) -> None:
        """Create an object."""
        self._send("POST", kind, body)

    def patch(self, kind: str, name: str, body: dict[str, Any]) -> None:
        """Merge `body` into an object."""
        self._send("PATCH", f"{kind}/{name}", body, MERGE)

    def _send(
        self, verb: str, path: str, body: dict[str, Any] | None = None, content_type: str = "application/json"
    ) -> dict[str, Any]:
        request = urllib.request.Request(
            f"{self._address}/api/v1/namespaces/{self._namespace}/{path}",
            None if body is None else json.dumps(body).encode(),
            {"Authorization": f"Bearer {self._token}", "Content-Type": content_type},
            method=verb,
        )
        with urllib.request.urlopen(request, timeout=30, context=self._context) as answer:
            found: dict[str, Any] = json.load(answer)
            return found


def fetch(cluster: Cluster, objects: list[dict[str, Any]], directory: Path) -> list[tuple[str, str]]:
    """Write what the cluster has into `directory`; return object and file of all that it lacks."""
    missing = []
    for one in objects:
        found = cluster.read(one["kind"], one["name"]) or {}
        held = {**found.get("data", {}), **found.get("binaryData", {})}
        if one.get("rest"):
            one["files"] = sorted({*one["files"], *held})
        for file in one["files"]:
            if file not in held:
                missing.append((one["name"], file))
                continue
            text = held[file]
            secret = one["kind"] == "secrets"
            plain = base64.b64decode(text) if secret or file in found.get("binaryData", {}) else text.encode()
            target = directory / file
            target.touch(mode=0o600)
            target.write_bytes(plain)
    return missing


def store(cluster: Cluster, objects: list[dict[str, Any]], directory: Path) -> list[str]:
    """Bring the cluster's objects to what lies in `directory`; return the names of those that changed."""
    changed = []
    for one in objects:
        found = cluster.read(one["kind"], one["name"])
        secret = one["kind"] == "secrets"
        field = "data" if secret else "binaryData"
        wanted = {file: base64.b64encode((directory / file).read_bytes()).decode() for file in one["files"]}
        held = (found or {}).get(field, {})
        new = {file: text for file, text in wanted.items() if held.get(file) != text}
        if secret and any(file in held for file in new):
            raise SystemExit(f"`{one['name']}` holds another key than the key set: nothing was changed in it")
        if not new:
            continue
        body = {"metadata": {"name": one["name"], "labels": one["labels"]}, field: new}
        if found is None:
            cluster.create(one["kind"], body | ({"type": "Opaque"} if secret else {}))
        else:
            cluster.patch(one["kind"], one["name"], body)
        changed.append(one["name"])
    return changed


def assign_rest(objects: list[dict[str, Any]], directory: Path) -> None:
    """Give every key without an object of its own to the one that keeps the rest: none may be made twice."""
    kept = {file for one in objects for file in one["files"]}
    (rest,) = [one for one in objects if one.get("rest")]
    rest["files"] += sorted(path.name for path in directory.glob("*.key") if path.name not in kept)


def main() -> int:
    """Return the exit status: 0 when every object is complete."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--layout", type=Path, required=True)
    parser.add_argument("--service-account", type=Path, required=True)
    given = parser.parse_args()
    layout = json.loads(given.layout.read_text("utf-8"))
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
    cluster = Cluster(given.service_account, f"https://{f'[{host}]' if ':' in host else host}:{port}")
    objects = layout["objects"]
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        missing = fetch(cluster, objects, directory)
        if (directory / "root.pub").exists() and not (directory / "root.key").exists():
            offline = next(one["files"] for one in objects if "root.key" in one["files"])
            needed = [f"{where}: {file}" for where, file in missing if file not in offline]
            if needed:
                print(
                    "the root key is not here; make what is missing where it is:",
                    *needed,
                    sep="\n  ",
                    file=sys.stderr,
                )
            return 1 if needed else 0
        try:
            keys = make_dev_keys(
                directory, layout["environment"], layout["tools"], layout["agents"], layout["trustDomain"]
            )
        except (KeyFileError, ValueError) as error:
            print(error, file=sys.stderr)
            return 1
        assign_rest(objects, directory)
        changed = store(cluster, objects, directory)
    print(f"key set {keys.version}: {', '.join(changed) or 'nothing'} changed", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
