"""One node of a small cluster: runs rendered pods as local processes, the way a kubelet and a Service would.

A pod has a loopback address of its own (127.x.y.z), its volumes are directories, and a mount is a path
put in the place of another in commands and variables. Given the images, each process runs in its image
instead, as its own user (`tests.worlds.boxes`). What is not here: other namespaces of the kernel, network
policies.
"""

import asyncio
import base64
import json
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import MappingProxyType
from typing import Any

from licet.embedded.process import on_a_leash
from tests.worlds.boxes import Box, Mount, give_to, image_name
from tests.worlds.charts import ROOT, Object

BIN = Path(sys.executable).parent
START_S = 60.0
POLL_S = 0.05
PROPAGATION_S = 0.5
"""How long a Service goes on to name a pod that is ending."""


class Store:
    """Secrets and ConfigMaps by name: file name to content."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], dict[str, bytes]] = {}
        self.writes = 0

    def put(self, kind: str, name: str, files: Mapping[str, bytes]) -> None:
        self.objects[kind, name] = dict(files)

    def get(self, kind: str, name: str) -> dict[str, bytes]:
        found = self.objects.get((kind, name))
        assert found is not None, f"the chart mounts {kind} `{name}`, which nobody made"
        return found


class Api:
    """The part of the Kubernetes API that the keys job uses, over TLS, on a `Store`."""

    def __init__(self, store: Store, context: Any, token: str) -> None:
        handler = type("Handler", (_ApiHandler,), {"store": store, "token": token})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _ApiHandler(BaseHTTPRequestHandler):
    store: Store
    token: str

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def _answer(self, code: int, body: Any) -> None:
        text = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def _body(self) -> Any:
        return json.loads(self.rfile.read(int(self.headers["Content-Length"])))

    def _key(self) -> tuple[str, str]:
        kind, _, name = self.path.partition("/namespaces/tools/")[2].partition("/")
        return kind, name

    def _allowed(self) -> bool:
        if self.headers["Authorization"] == f"Bearer {self.token}":
            return True
        self._answer(401, {"reason": "Unauthorized"})
        return False

    def do_GET(self) -> None:
        if not self._allowed():
            return
        found = self.store.objects.get(self._key())
        if found is None:
            self._answer(404, {"reason": "NotFound"})
            return
        field = "data" if self._key()[0] == "secrets" else "binaryData"
        held = {name: base64.b64encode(content).decode() for name, content in found.items()}
        self._answer(200, {field: held})

    def do_POST(self) -> None:
        if not self._allowed():
            return
        body = self._body()
        key = (self._key()[0], body["metadata"]["name"])
        if key in self.store.objects:
            self._answer(409, {"reason": "AlreadyExists"})
            return
        self._merge(key, body)
        self._answer(201, body)

    def do_PATCH(self) -> None:
        if self._allowed():
            body = self._body()
            self._merge(self._key(), body)
            self._answer(200, body)

    def _merge(self, key: tuple[str, str], body: Any) -> None:
        self.store.writes += 1
        files = {**body.get("data", {}), **body.get("binaryData", {})}
        held = {name: base64.b64decode(text) for name, text in files.items()}
        self.store.objects[key] = {**self.store.objects.get(key, {}), **held}


class Service:
    """A cluster address that hands each connection to the next ready pod."""

    def __init__(self, name: str, ip: str, port: int) -> None:
        self.name, self.ip, self.port = name, ip, port
        self.endpoints: list[tuple[str, int]] = []
        self._turn = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._ready = threading.Event()
        self._thread.start()
        assert self._ready.wait(10)

    def _serve(self) -> None:
        async def start() -> None:
            self._server = await asyncio.start_server(self._connected, self.ip, self.port)
            self._ready.set()

        self._loop.run_until_complete(start())
        self._loop.run_forever()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(len(self.endpoints)):
            self._turn += 1
            host, port = self.endpoints[self._turn % len(self.endpoints)]
            try:
                inside, outside = await asyncio.open_connection(host, port)
            except OSError:
                continue
            await asyncio.gather(_pump(reader, outside), _pump(inside, writer))
            return
        writer.close()

    def close(self) -> None:
        async def stop() -> None:
            self._server.close()
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()
            await asyncio.sleep(0)

        asyncio.run_coroutine_threadsafe(stop(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    try:
        while data := await source.read(65_536):
            sink.write(data)
            await sink.drain()
    except (ConnectionError, OSError):
        pass
    finally:
        sink.close()


class Container:
    """One container of a pod: its process, its log, its paths."""

    def __init__(self, pod: "Pod", spec: Object) -> None:
        self.pod, self.spec, self.name = pod, spec, spec["name"]
        self.log = pod.directory / f"{self.name}.log"
        self.process: subprocess.Popen[bytes] | None = None
        self.box = pod.node.boxes.get(image_name(spec["image"]))
        self.mounts = [
            Mount(pod.volume(one["name"]), one["mountPath"], bool(one.get("readOnly")))
            for one in spec.get("volumeMounts", ())
        ]
        self._paths = {one.path: str(one.directory) for one in self.mounts if self.box is None}
        self._paths |= {path: str(directory) for path, directory in pod.node.image.items()}

    @property
    def is_sidecar(self) -> bool:
        return bool(self.spec.get("restartPolicy") == "Always")

    def environment(self) -> dict[str, str]:
        """What the rendered container is told, and nothing of this process but where programs are."""
        told: dict[str, str] = {}
        for entry in self.spec.get("env", ()):
            value = entry["value"] if "value" in entry else self.pod.field(entry["valueFrom"]["fieldRef"])
            value = re.sub(r"\$\((\w+)\)", lambda match: told.get(match[1], match[0]), value)
            told[entry["name"]] = value
        told = {name: self.local(value) for name, value in told.items()}
        own = {"PATH": f"{BIN}:/usr/bin:/bin", "PYTHONPATH": str(ROOT)}
        if self.box is not None:
            own = dict(self.box.environment)
        return {**own, **self.pod.node.injected, **told}

    def local(self, text: str) -> str:
        """Put local paths and addresses in the place of the cluster's."""
        if self._paths:  # in one pass: what was put in place may lie below another mount's path
            longest_first = "|".join(re.escape(path) for path in sorted(self._paths, key=len, reverse=True))
            mounted = rf"(?<![\w/.])({longest_first})(?=[/,'\"]|$)"
            text = re.sub(mounted, lambda match: self._paths[match[1]], text)
        for name, service in self.pod.node.services.items():
            host = rf"(?<![\w.-]){re.escape(name)}(\.tools(\.svc(\.cluster\.local)?)?)?(?=:\d)"
            text = re.sub(host, service.ip, text)
        return text

    def words(self, command: Sequence[str]) -> list[str]:
        """What to run for a command of this container."""
        local = [self.local(word) for word in command]
        if self.box is None:
            return local
        of_pod = self.pod.template["spec"]["securityContext"]
        user = self.spec["securityContext"].get("runAsUser", of_pod.get("runAsUser"))
        return self.box.command(
            self.mounts, user=user, group=of_pod["runAsGroup"], shared=of_pod["fsGroup"], words=local
        )

    def start(self) -> None:
        command = on_a_leash(self.words(self.spec["command"]))
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command, env=self.environment(), cwd=self.pod.directory, stdin=subprocess.DEVNULL, stdout=log,
                stderr=log, start_new_session=True,
            )  # fmt: skip

    def run(self) -> None:
        """Run to the end."""
        self.start()
        assert self.process is not None
        status = self.process.wait(START_S)
        assert status == 0, f"{self.name} ended with status {status}: {self.last_words()}"

    def execute(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command in the running container, as `kubectl exec` does."""
        return subprocess.run(
            self.words(command),
            env=self.environment(),
            capture_output=True,
            text=True,
            check=False,
        )

    def passes(self, probe: str) -> bool:
        given = self.spec.get(probe)
        if given is None:
            return True
        if "exec" in given:
            return self.execute(*given["exec"]["command"]).returncode == 0
        kind = "httpGet" if "httpGet" in given else "tcpSocket"
        ports = {port["name"]: port["containerPort"] for port in self.spec["ports"]}
        port = ports[given[kind]["port"]]
        try:
            if kind == "tcpSocket":
                socket.create_connection((self.pod.ip, port), 1).close()
                return True
            url = f"http://{self.pod.ip}:{port}{given[kind]['path']}"
            with urllib.request.urlopen(url, timeout=30) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def wait(self, probe: str) -> None:
        end = time.monotonic() + START_S
        while not self.passes(probe):
            assert self.process is not None
            assert self.process.poll() is None, f"{self.name} ended: {self.last_words()}"
            assert time.monotonic() < end, f"{self.name} does not pass its {probe}: {self.last_words()}"
            time.sleep(POLL_S)

    def pre_stop(self) -> None:
        hook = self.spec.get("lifecycle", {}).get("preStop", {})
        if "sleep" in hook:
            time.sleep(hook["sleep"]["seconds"])
        elif "exec" in hook:
            assert self.process is not None
            # In its own process namespace the container's process is number 1.
            command = [
                word.replace("kill(1,", f"kill({self.process.pid},") for word in hook["exec"]["command"]
            ]
            subprocess.run(self.words(command), env=self.environment(), check=False)

    def stop(self, end: float) -> int:
        """SIGTERM, and SIGKILL at `end`; returns the exit status."""
        assert self.process is not None
        self.process.terminate()
        try:
            return self.process.wait(max(0.0, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()

    def kill(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()

    def last_words(self) -> str:
        return self.log.read_text(errors="replace")[-2_000:] if self.log.exists() else "(no log)"


class Pod:
    """A pod made from a template."""

    def __init__(self, node: "Node", name: str, template: Object, claims: Mapping[str, Path]) -> None:
        self.node, self.name, self.template, self._claims = node, name, template, claims
        self.ip = node.next_ip()
        self.directory = node.directory / f"p{node.next_number()}"
        self.directory.mkdir()
        spec = template["spec"]
        self._volumes = {one["name"]: one for one in spec.get("volumes", ())}
        self._made: dict[str, Path] = {}
        self.inits = [Container(self, one) for one in spec.get("initContainers", ())]
        self.containers = [Container(self, one) for one in spec["containers"]]
        self.exits: dict[str, int] = {}

    def field(self, reference: Object) -> str:
        return {"status.podIP": self.ip, "metadata.name": self.name}[reference["fieldPath"]]

    def volume(self, name: str) -> Path:
        if name not in self._made:
            self._made[name] = self._make(name)
            if self.node.boxes:  # users are real there
                give_to(self._made[name], self.template["spec"]["securityContext"]["fsGroup"])
        return self._made[name]

    def _make(self, name: str) -> Path:
        if name in self._claims:
            return self._claims[name]
        given = self._volumes[name]
        if claim := given.get("persistentVolumeClaim"):
            return self.node.claim(claim["claimName"])
        directory = self.directory / name
        directory.mkdir(mode=0o700)
        sources = given["projected"]["sources"] if "projected" in given else [given]
        mode = (given.get("secret") or given.get("projected") or {}).get("defaultMode", 0o644)
        for source in sources:
            for file, content in self._files(source).items():
                (directory / file).write_bytes(content)
                (directory / file).chmod(mode)
        return directory

    def _files(self, source: Object) -> dict[str, bytes]:
        if "serviceAccountToken" in source:
            return {source["serviceAccountToken"]["path"]: self.node.token.encode()}
        if "downwardAPI" in source:
            return {item["path"]: b"tools" for item in source["downwardAPI"]["items"]}
        if "secret" in source:
            given = source["secret"]
            held = self.node.store.get("secrets", given.get("secretName") or given["name"])
        elif "configMap" in source:
            given = source["configMap"]
            held = self.node.store.get("configmaps", given["name"])
        else:
            return {}
        if "items" in given:
            return {item["path"]: held[item["key"]] for item in given["items"]}
        return held

    def start(self) -> None:
        """Init containers in order, native sidecars until they pass their startup probe, then the rest."""
        for one in self.inits:
            if one.is_sidecar:
                one.start()
                one.wait("startupProbe")
            else:
                one.run()
        for one in self.containers:
            one.start()

    @property
    def running(self) -> list[Container]:
        return [*self.containers, *(one for one in self.inits if one.is_sidecar)]

    def wait_ready(self) -> None:
        for one in self.running:
            one.wait("readinessProbe")

    def run(self) -> None:
        """Run a job's pod to its end."""
        for one in (*self.inits, *self.containers):
            one.run()

    def stop(self) -> None:
        """End as a kubelet ends a pod: hooks of all at once, containers, then sidecars in reverse."""
        end = time.monotonic() + self.template["spec"].get("terminationGracePeriodSeconds", 30)
        hooks = [threading.Thread(target=one.pre_stop) for one in self.running]
        for hook in hooks:
            hook.start()
        for one, hook in zip(self.running, hooks, strict=True):
            if one in self.containers:
                hook.join(max(0.0, end - time.monotonic()))
                self.exits[one.name] = one.stop(end)
        for one in reversed([one for one in self.inits if one.is_sidecar]):
            self.exits[one.name] = one.stop(end)
        for hook in hooks:
            hook.join()

    def kill(self) -> None:
        for one in (*self.inits, *self.containers):
            one.kill()


class Node:
    """Everything that runs, and the Secrets and ConfigMaps it is given."""

    def __init__(
        self,
        image: Mapping[str, Path] = MappingProxyType({}),
        boxes: Mapping[str, Box] = MappingProxyType({}),
    ) -> None:
        self.image = image
        """Directories of this machine that stand for what lies in the images, by path."""
        self.boxes = boxes
        """The images themselves by name, where they were built."""
        self.directory = Path(tempfile.mkdtemp(prefix="node"))  # short: Unix sockets lie below it
        self.store = Store()
        self.services: dict[str, Service] = {}
        self.pods: dict[str, Pod] = {}
        self.injected: dict[str, str] = {}
        self.token = "a-token"
        self._net = f"127.{random.randint(16, 250)}.{random.randint(1, 250)}"
        self._ips = self._numbers = 0

    def next_ip(self) -> str:
        self._ips += 1
        return f"{self._net}.{self._ips}"

    def next_number(self) -> int:
        self._numbers += 1
        return self._numbers

    def claim(self, name: str) -> Path:
        directory = self.directory / "claims" / name
        directory.mkdir(parents=True, exist_ok=True)
        return directory

    def serve(self, objects: tuple[Object, ...]) -> None:
        """Give every Service with an address its address; pods come later."""
        for one in objects:
            if one["kind"] == "Service" and one["spec"].get("clusterIP") != "None":
                (port,) = one["spec"]["ports"]
                name = one["metadata"]["name"]
                self.services[name] = Service(name, self.next_ip(), port["port"])

    def run_job(self, job: Object) -> str:
        """Run a job; returns its log."""
        pod = Pod(self, f"{job['metadata']['name']}-0", job["spec"]["template"], {})
        pod.run()
        return "".join(one.log.read_text() for one in pod.containers)

    def add(self, workload: Object, number: int | str) -> Pod:
        """Start one pod of a Deployment or StatefulSet, without waiting until it is ready."""
        name = f"{workload['metadata']['name']}-{number}"
        claims = {
            one["metadata"]["name"]: self.claim(f"{one['metadata']['name']}-{name}")
            for one in workload["spec"].get("volumeClaimTemplates", ())
        }
        pod = Pod(self, name, workload["spec"]["template"], claims)
        self.pods[name] = pod
        pod.start()
        return pod

    def ready(self, service: str, pod: Pod) -> None:
        """Wait until a pod is ready and let the Service name it."""
        pod.wait_ready()
        self.services[service].endpoints.append((pod.ip, self.services[service].port))

    def remove(self, service: str, pod: Pod) -> None:
        """Take a pod away: the Service forgets it a little later than it begins to end."""

        def forget() -> None:
            time.sleep(PROPAGATION_S)
            self.services[service].endpoints.remove((pod.ip, self.services[service].port))

        forgetting = threading.Thread(target=forget)
        forgetting.start()
        pod.stop()
        forgetting.join()
        del self.pods[pod.name]

    def close(self) -> None:
        for pod in self.pods.values():
            pod.kill()
        for service in self.services.values():
            service.close()
        shutil.rmtree(self.directory, ignore_errors=True)


def injected(api: Api) -> dict[str, str]:
    """What Kubernetes tells every container of its API."""
    return {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(api.port)}


__all__ = ["Api", "Node", "Pod", "Store", "injected"]
