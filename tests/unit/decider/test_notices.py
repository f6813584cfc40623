"""Notices: signed, tried again, told to nobody but who the file names, and waited for by nobody."""

import asyncio
import base64
import contextlib
import hashlib
import hmac
import http.server
import json
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from nacl.signing import SigningKey, VerifyKey

from decider.https import Endpoint, HttpsError, Question, ask, is_inside
from decider.notices.announcer import Announcer
from decider.notices.notice import Notice, NoticeKind, notice_of
from decider.notices.webhook import MAX_WAITING, Hook, Webhook, read_hooks, signature
from decider.source import SourceError
from licet.keyfile import write_secret
from licet.v1.hold_pb2 import Hold, HoldRequirement
from tests.worlds.certificates import Authority

SECRET = bytes(range(32))
HOLD = Hold(
    environment="dev",
    hold_id="a" * 32,
    tenant="t1",
    agent="refund-bot",
    task_id="task_1",
    method="/fin.v1.Finance/IssueRefund",
    resource="order:O1",
    text="Refund 820.00 USD for order O1",
    facts_json='{"card":"4111"}',
    requirements=[HoldRequirement(rule_id="large", role="finance-lead", quorum=1)],
    expires_at_ms=1_900_000_000_000,
)
NOTICE = notice_of(NoticeKind.REQUESTED, HOLD)


class Receiver:
    """An HTTPS server that takes webhooks, answering what a test wants."""

    def __init__(self, directory: Path) -> None:
        authority = Authority(directory)
        self.ca_file = authority.file
        self.answers: list[int] = []
        self.taken: list[tuple[dict[str, str], bytes]] = []
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                receiver.taken.append(({k.lower(): v for k, v in self.headers.items()}, body))
                self.send_response(receiver.answers.pop(0) if receiver.answers else 204)
                self.send_header("location", "http://127.0.0.1:1/")
                self.end_headers()

            def log_message(self, *_: Any) -> None: ...

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*authority.issue("receiver", ips=("127.0.0.1",), dns=("localhost",)))
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def endpoint(self, host: str = "127.0.0.1", *, private: bool = False) -> Endpoint:
        url = f"https://{host}:{self._server.server_port}/licet"
        return Endpoint(url, self.ca_file, timeout_s=60.0, private=private)

    def hook(self, **changes: Any) -> Hook:
        endpoint = self.endpoint()
        return Hook(**({"name": "desk", "endpoint": endpoint, "scheme": "hmac", "secret": SECRET} | changes))

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def receiver(tmp_path: Path) -> Iterator[Receiver]:
    made = Receiver(tmp_path)
    yield made
    made.close()


async def deliver(webhook: Webhook, receiver: Receiver, wanted: int, *notices: Notice) -> None:
    for notice in notices:
        webhook.tell(notice)
    running = asyncio.create_task(webhook.run())
    async with asyncio.timeout(60):
        while len(receiver.taken) < wanted:  # noqa: ASYNC110 - filled by the server's thread
            await asyncio.sleep(0.01)
    running.cancel()
    await asyncio.wait({running})


def test_notice_says_who_must_look_and_nothing_of_the_call() -> None:
    """It may lie in mailboxes: no amount, no resource, no facts, no text."""
    body = NOTICE.body().decode()
    assert json.loads(body)["roles"] == ["finance-lead"]
    for secret in ("820", "O1", "4111", "Refund 820"):
        assert secret not in body.replace("IssueRefund", "")


def test_webhook_is_signed_as_standard_webhooks_says(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1/")
    asyncio.run(deliver(Webhook(receiver.hook()), receiver, 1, NOTICE))
    headers, body = receiver.taken[0]
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    expected = base64.b64encode(hmac.new(SECRET, signed, hashlib.sha256).digest()).decode()
    assert headers["webhook-signature"] == f"v1,{expected}"
    assert body == NOTICE.body()


def test_webhook_by_ed25519_verifies_with_the_public_key() -> None:
    hook = Hook("desk", Endpoint("https://x/"), "ed25519", SECRET)
    version, _, text = signature(hook, "msg_1", 7, b"{}").partition(",")
    public = VerifyKey(SigningKey(SECRET).verify_key.encode())
    assert version == "v1a"
    assert public.verify(b"msg_1.7.{}", base64.b64decode(text)) == b"msg_1.7.{}"


def test_delivery_is_tried_again_under_one_id_and_given_up_at_last(receiver: Receiver) -> None:
    """A redirect is no delivery either, and is not followed."""
    waited: list[float] = []

    async def pause(seconds: float) -> None:
        waited.append(seconds)

    receiver.answers = [500, 302, 204, 503, 503, 503]
    second = notice_of(NoticeKind.VOTED, HOLD)
    webhook = Webhook(receiver.hook(), pause=pause, retry_s=(1.0, 5.0))
    asyncio.run(deliver(webhook, receiver, 7, NOTICE, second, second))
    ids = [headers["webhook-id"] for headers, _ in receiver.taken]
    assert [ids.count(one) for one in dict.fromkeys(ids)] == [3, 3, 1]
    assert waited == [1.0, 5.0, 1.0, 5.0]


def test_telling_never_waits_and_never_raises_whatever_is_away() -> None:
    """Ten times the queue, with nobody there: the decision goes on at once."""

    async def story() -> None:
        webhook = Webhook(Hook("desk", Endpoint("https://127.0.0.1:1/"), "hmac", SECRET))
        announcer = Announcer(webhooks=[webhook])
        for _ in range(10 * MAX_WAITING):
            announcer.tell(NOTICE)

    asyncio.run(story())


def test_only_the_kinds_that_were_asked_for_are_delivered(receiver: Receiver) -> None:
    webhook = Webhook(receiver.hook(kinds=frozenset({NoticeKind.EXPIRED})))
    expired = notice_of(NoticeKind.EXPIRED, HOLD)
    asyncio.run(deliver(webhook, receiver, 1, NOTICE, expired))
    assert [json.loads(body)["type"] for _, body in receiver.taken] == ["hold.expired"]


def test_webhooks_file_says_what_is_wrong_with_file_line_and_field(tmp_path: Path) -> None:
    write_secret(tmp_path / "desk.key", SECRET)
    file = tmp_path / "webhooks.yaml"
    file.write_text("webhooks:\n  desk: {url: 'https://hooks.example.com/x', key_file: desk.key}\n")
    (hook,) = read_hooks(file)
    assert (hook.secret, hook.scheme, hook.kinds) == (SECRET, "hmac", frozenset(NoticeKind))
    assert read_hooks(None) == ()
    for text, why in (
        ("webhooks:\n  a: {url: 'http://169.254.169.254/', key_file: desk.key}\n", "must be an https URL"),
        ("webhooks:\n  a: {url: 'https://u:p@x/', key_file: desk.key}\n", "neither user"),
        ("webhooks:\n  a: {url: 'https://x/', key_file: none}\n", "cannot read"),
        ("webhooks:\n  a: {url: 'https://x/', key_file: desk.key, signature: md5}\n", "must be one of"),
        ("webhooks:\n  a: {url: 'https://x/', key_file: desk.key, events: [all]}\n", "must be one of"),
        ("webhooks:\n  a: {url: 'https://x/', key_file: desk.key, insecure: true}\n", "unknown field"),
    ):
        file.write_text(text)
        with pytest.raises(SourceError, match=why):
            read_hooks(file)


def test_name_that_leads_inside_is_asked_where_the_configuration_says_so_alone(receiver: Receiver) -> None:
    with pytest.raises(HttpsError, match="which is inside"):
        ask(receiver.endpoint("localhost"), Question(b"{}"))
    assert receiver.taken == []
    assert ask(receiver.endpoint("localhost", private=True), Question(b"{}"))[0] == 204
    assert ask(receiver.endpoint(), Question(b"{}"))[0] == 204


@pytest.mark.parametrize(
    ("address", "inside"),
    [
        ("10.0.0.1", True),
        ("127.0.0.1", True),
        ("169.254.169.254", True),
        ("100.64.0.1", True),
        ("224.0.0.1", True),
        ("::1", True),
        ("fd00::1", True),
        ("fe80::1%eth0", True),
        ("::ffff:10.0.0.1", True),
        ("64:ff9b::a00:1", True),
        ("2002:a00:1::", True),
        ("8.8.8.8", False),
        ("2606:4700::1111", False),
        ("64:ff9b::808:808", False),
    ],
)
def test_addresses_inside_are_known_however_they_are_written(address: str, inside: bool) -> None:
    assert is_inside(address) is inside


@pytest.mark.parametrize("address", ["169.254.169.254", "::ffff:169.254.169.254", "0.0.0.0"])
def test_no_name_leads_to_what_clouds_tell_their_machines(
    address: str, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    found = [(family, socket.SOCK_STREAM, 6, "", (address, 443))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    with pytest.raises(HttpsError, match="which is inside"):
        ask(receiver.endpoint("hooks.example.com", private=True), Question(b"{}"))


def test_handshake_that_comes_a_byte_at_a_time_ends_in_time() -> None:
    """Each byte in time, and all of them never: it once held the thread for as long as the server liked."""
    listening = socket.create_server(("127.0.0.1", 0))
    over = threading.Event()

    def drip() -> None:
        taken, _ = listening.accept()
        with taken, contextlib.suppress(OSError):
            taken.sendall(b"\x16\x03\x03\x40\x00\x02\x00\x3f\xfc")
            while not over.wait(0.02):
                taken.sendall(b"\x00")

    threading.Thread(target=drip, daemon=True).start()
    try:
        with pytest.raises(HttpsError, match="gives no answer"):
            ask(Endpoint(f"https://127.0.0.1:{listening.getsockname()[1]}/", timeout_s=0.5), Question(b"{}"))
    finally:
        over.set()
        listening.close()


def test_name_server_that_never_answers_holds_nobody_past_the_time_and_takes_one_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []
    answers = threading.Event()

    def hangs(host: str, *_: Any, **__: Any) -> Any:
        asked.append(host)
        answers.wait()
        raise socket.gaierror("no such name")

    monkeypatch.setattr(socket, "getaddrinfo", hangs)
    try:
        for host in ("slow.example.com", "slow.example.com", "other.example.com"):
            with pytest.raises(HttpsError, match="TimeoutError"):
                ask(Endpoint(f"https://{host}/", timeout_s=0.1), Question(b"{}"))
        while len(asked) < 2:
            time.sleep(0.01)  # a thread that was begun may not have run yet
        assert asked == ["slow.example.com", "other.example.com"]
    finally:
        answers.set()
    while len(asked) == 2:  # once it has answered, the next who asks has the name looked up anew
        with pytest.raises(HttpsError, match="gaierror"):
            ask(Endpoint("https://slow.example.com/", timeout_s=60), Question(b"{}"))
