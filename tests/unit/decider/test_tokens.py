"""User tokens: who a call is for, and every way in which a token is not believed."""

import asyncio
import http.server
import json
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given, settings
from hypothesis import strategies as st

from decider.https import HttpsError, check_url
from decider.source import SourceError
from decider.tokens.issuers import AGAIN_S, STALE_S, Believed, IssuerKeys, Users, read_issuers
from decider.tokens.keys import MAX_JWKS_BYTES, KeysError, read_jwks
from decider.tokens.source import FileSource, UrlSource
from decider.tokens.token import MAX_TOKEN_BYTES, Issuer, User, read_token, verify_token
from licet.refusal import Reason, Refusal
from tests.worlds.certificates import Authority
from tests.worlds.issuer import AUDIENCE, ISSUER, KEYS, RSA_KEY, b64, claims, jwk, jwks, token

NOW_S = 1_900_000_000
NOW_MS = NOW_S * 1000
HOUSE = Issuer(ISSUER, AUDIENCE)
OTHER = rsa.generate_private_key(65537, 2048)
PEM = RSA_KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def verified(text: str, issuer: Issuer = HOUSE, keys: bytes | None = None) -> User | Refusal:
    read = read_token(text)
    if isinstance(read, Refusal):
        return read
    return verify_token(read, issuer, read_jwks(jwks() if keys is None else keys), now_ms=NOW_MS)


@pytest.mark.parametrize("key_id", KEYS)
def test_honest_token_names_its_user(key_id: str) -> None:
    assert verified(token(key_id, claims(NOW_S))) == User("ana@t1.example.com", ISSUER)


def test_audience_among_several_and_another_claim_for_the_principal() -> None:
    said = claims(NOW_S, aud=["other", AUDIENCE], email="ana@example.com", email_verified=True)
    assert verified(token("e", said), Issuer(ISSUER, AUDIENCE, "email")) == User("ana@example.com", ISSUER)


def hs256_with_the_public_key() -> str:
    return token("r", claims(NOW_S), algorithm="HS256", key=PEM)


def swapped_payload() -> str:
    head, _, signed = token("r", claims(NOW_S)).split(".")
    return f"{head}.{b64(json.dumps(claims(NOW_S, sub='eve')).encode())}.{signed}"


def said_twice() -> str:
    return json.dumps(claims(NOW_S))[:-1] + ', "sub": "eve"}'


BAD = [
    ("alg none", token("r", claims(NOW_S), algorithm="none"), Reason.TOKEN_ALGORITHM),
    ("alg none, in capitals", token("r", claims(NOW_S), alg="None"), Reason.TOKEN_ALGORITHM),
    ("HS256 with the public key", hs256_with_the_public_key(), Reason.TOKEN_ALGORITHM),
    ("RS256 key used as ES256", token("e", claims(NOW_S), kid="r"), Reason.TOKEN_ALGORITHM),
    ("RS512", token("r", claims(NOW_S), alg="RS512"), Reason.TOKEN_ALGORITHM),
    ("alg that is no text", token("r", claims(NOW_S), alg=["RS256"]), Reason.TOKEN_ALGORITHM),
    ("no key id", token("r", claims(NOW_S), kid=None), Reason.TOKEN_KEY_UNKNOWN),
    ("unknown key id", token("r", claims(NOW_S), kid="other"), Reason.TOKEN_KEY_UNKNOWN),
    ("another key's signature", token("r", claims(NOW_S), key=OTHER), Reason.TOKEN_SIGNATURE),
    ("key in the header", token(said=claims(NOW_S), key=OTHER, jwk=jwk("r", OTHER)), Reason.TOKEN_SIGNATURE),
    ("swapped claims", swapped_payload(), Reason.TOKEN_SIGNATURE),
    ("no signature", token("r", claims(NOW_S)).rpartition(".")[0] + ".", Reason.TOKEN_SIGNATURE),
    ("expired", token("r", claims(NOW_S - 7200)), Reason.TOKEN_EXPIRED),
    ("expired this second", token("r", claims(NOW_S - 60, exp=NOW_S - 5)), Reason.TOKEN_EXPIRED),
    ("not yet valid", token("r", claims(NOW_S, nbf=NOW_S + 6)), Reason.TOKEN_NOT_YET_VALID),
    ("issued in the future", token("r", claims(NOW_S + 60)), Reason.TOKEN_NOT_YET_VALID),
    ("another audience", token("r", claims(NOW_S, aud="billing")), Reason.TOKEN_AUDIENCE),
    ("no audience", token("r", claims(NOW_S, aud=None)), Reason.TOKEN_AUDIENCE),
    (
        "an audience that only begins like ours",
        token("r", claims(NOW_S, aud="licet2")),
        Reason.TOKEN_AUDIENCE,
    ),
    ("another issuer", token("r", claims(NOW_S, iss="https://evil.example.com")), Reason.TOKEN_ISSUER),
    ("no issuer", token("r", claims(NOW_S, iss=None)), Reason.TOKEN_ISSUER),
    ("no subject", token("r", claims(NOW_S, sub=None)), Reason.TOKEN_MALFORMED),
    ("empty subject", token("r", claims(NOW_S, sub=" ")), Reason.TOKEN_MALFORMED),
    ("no end", token("r", claims(NOW_S, exp=None)), Reason.TOKEN_MALFORMED),
    ("no beginning", token("r", claims(NOW_S, iat=None)), Reason.TOKEN_MALFORMED),
    ("lives for years", token("r", claims(NOW_S, exp=NOW_S + 10**8)), Reason.TOKEN_MALFORMED),
    ("end as text", token("r", claims(NOW_S, exp=str(NOW_S + 60))), Reason.TOKEN_MALFORMED),
    ("end that is true", token("r", claims(NOW_S, exp=True)), Reason.TOKEN_MALFORMED),
    ("a claim twice", token("r", said_twice()), Reason.TOKEN_MALFORMED),
    ("critical header", token("r", claims(NOW_S), crit=["exp"]), Reason.TOKEN_MALFORMED),
    ("detached payload", token("r", claims(NOW_S), b64=False), Reason.TOKEN_MALFORMED),
    ("claims that are a list", token("r", "[]"), Reason.TOKEN_MALFORMED),
    ("two parts", "a.b", Reason.TOKEN_MALFORMED),
    ("padding", token("r", claims(NOW_S)) + "==", Reason.TOKEN_MALFORMED),
    ("line break at the end", token("r", claims(NOW_S)) + "\n", Reason.TOKEN_MALFORMED),
    ("oversized", "a." + "a" * MAX_TOKEN_BYTES + ".a", Reason.TOKEN_MALFORMED),
    ("oversized claims", token("r", claims(NOW_S, x="x" * 12_000)), Reason.TOKEN_MALFORMED),
]


@pytest.mark.parametrize(("text", "reason"), [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_bad_token_is_refused_with_its_own_reason(text: str, reason: Reason) -> None:
    """The lawful twin of each is the honest token of the same key."""
    refusal = verified(text)
    assert isinstance(refusal, Refusal)
    assert refusal.reason is reason
    assert verified(token("r", claims(NOW_S))) == User("ana@t1.example.com", ISSUER)


def test_times_have_the_leeway_of_clocks_and_no_more() -> None:
    assert isinstance(verified(token("r", claims(NOW_S - 60, exp=NOW_S - 4))), User)
    assert isinstance(verified(token("r", claims(NOW_S, nbf=NOW_S + 5))), User)


def test_issuer_may_be_held_to_fewer_algorithms() -> None:
    strict = Issuer(ISSUER, AUDIENCE, algorithms=frozenset({"EdDSA"}))
    refusal = verified(token("r", claims(NOW_S)), strict)
    assert isinstance(refusal, Refusal)
    assert refusal.reason is Reason.TOKEN_ALGORITHM
    assert isinstance(verified(token("d", claims(NOW_S)), strict), User)


def test_address_that_its_issuer_has_not_verified_is_no_principal() -> None:
    by_mail = Issuer(ISSUER, AUDIENCE, "email")
    refusal = verified(token("r", claims(NOW_S, email="ana@t1.example.com")), by_mail)
    assert isinstance(refusal, Refusal)
    assert refusal.reason is Reason.TOKEN_MALFORMED


HONEST = token("r", claims(NOW_S))


@settings(max_examples=150, deadline=None)
@given(at=st.integers(0, len(HONEST) - 1), char=st.sampled_from("AZaz09-_.=/+ \n"))
def test_no_changed_character_leaves_a_token_believed_for_another(at: int, char: str) -> None:
    """Invariant: whatever one character becomes, the token is refused or says exactly what was signed."""
    changed = HONEST[:at] + char + HONEST[at + 1 :]
    found = verified(changed)
    assert isinstance(found, Refusal) or (changed == HONEST and found.principal == "ana@t1.example.com")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"{}", "no list"),
        (b'{"keys": []}', "no key that can be used"),
        (b'{"keys": [1]}', "no key"),
        (b'{"keys": [], "keys": []}', "twice"),
        (jwks(jwk("r"), jwk("r")), "one id"),
        (jwks(jwk("d") | {"d": "AAAA"}), "shows a secret"),
        (jwks({"kty": "oct", "kid": "h", "k": "c2VjcmV0"}), "shows a secret"),
        (jwks(jwk("r", rsa.generate_private_key(65537, 1024))), "less than 2048"),
        (jwks({"kty": "OKP", "crv": "Ed25519", "kid": "x", "x": "AA"}), "cannot be read"),
        (b" " * (MAX_JWKS_BYTES + 1), "larger than"),
        (jwks(*[jwk("e") | {"kid": str(at)} for at in range(65)]), "at most 64"),
    ],
)
def test_key_set_that_is_unfit_is_refused_as_a_whole(text: bytes, why: str) -> None:
    with pytest.raises(KeysError, match=why):
        read_jwks(text)


def test_keys_for_other_uses_and_curves_are_left_out() -> None:
    p384 = ec.generate_private_key(ec.SECP384R1()).public_key().public_numbers()
    other = {"kty": "EC", "crv": "P-384", "kid": "p", "x": b64(p384.x.to_bytes(48, "big")), "y": "AA"}
    keys = read_jwks(jwks(jwk("r") | {"use": "enc"}, jwk("e") | {"alg": "ES512"}, other, jwk("d")))
    assert list(keys) == ["d"]


class Pages:
    """An HTTPS server that says what a test wants, and counts."""

    def __init__(self, directory: Path) -> None:
        authority = Authority(directory)
        self.ca_file = authority.file
        self.body, self.status, self.headers, self.asked = jwks(), 200, {}, 0
        self.drip_s = 0.0
        pages = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                pages.asked += 1
                self.send_response(pages.status)
                for name, value in pages.headers.items():
                    self.send_header(name, value)
                self.end_headers()
                for at in range(0, len(pages.body), 64 if pages.drip_s else len(pages.body)):
                    self.wfile.write(pages.body[at : at + (64 if pages.drip_s else len(pages.body))])
                    time.sleep(pages.drip_s)

            def log_message(self, *_: Any) -> None: ...

        class Server(http.server.ThreadingHTTPServer):
            def handle_error(self, *_: Any) -> None: ...  # a client that hangs up is what is tested

        self._server = Server(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*authority.issue("pages", ips=("127.0.0.1",)))
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.url = f"https://127.0.0.1:{self._server.server_port}/keys"

    def source(self, **changes: Any) -> UrlSource:
        return UrlSource(self.url, self.ca_file, **({"timeout_s": 60.0} | changes))

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pages]:
    made = Pages(tmp_path_factory.mktemp("pages"))
    yield made
    made.close()


def test_key_set_is_fetched_over_verified_tls_only(pages: Pages) -> None:
    assert read_jwks(asyncio.run(pages.source().read())).keys() == set(KEYS)
    with pytest.raises(KeysError, match="SSLCertVerificationError"):
        asyncio.run(UrlSource(pages.url, timeout_s=60.0).read())


def test_redirect_is_not_followed_not_even_to_https(pages: Pages) -> None:
    pages.status, pages.headers = 302, {"Location": "http://127.0.0.1:1/keys"}
    try:
        with pytest.raises(KeysError, match="answers 302; redirects are not followed"):
            asyncio.run(pages.source().read())
    finally:
        pages.status, pages.headers = 200, {}


def test_endless_and_slow_key_sets_are_given_up(pages: Pages) -> None:
    pages.body = b" " * (MAX_JWKS_BYTES + 1)
    with pytest.raises(KeysError, match="larger than"):
        asyncio.run(pages.source().read())
    pages.body, pages.drip_s = jwks() * 100, 0.05
    try:
        with pytest.raises(KeysError, match=r"in time|gives no answer"):
            asyncio.run(pages.source(timeout_s=0.3).read())
    finally:
        pages.body, pages.drip_s = jwks(), 0.0


@pytest.mark.parametrize(
    "url",
    [
        "http://login.example.com/keys",
        "file:///etc/passwd",
        "https:///keys",
        "https://user:word@login.example.com/",
        "https://login.example.com/#keys",
        "https://login.example.com:0/",
        "https://login.example.com:99999/",
    ],
)
def test_url_that_is_not_plainly_https_is_refused(url: str) -> None:
    with pytest.raises(HttpsError):
        check_url(url)
    assert check_url("https://login.example.com:8443/keys?v=1")


class Clock:
    def __init__(self) -> None:
        self.ms = 1_000_000

    def __call__(self) -> int:
        return self.ms


def test_rotated_key_works_at_once_and_invented_ones_cause_no_flood(pages: Pages) -> None:
    """A withdrawn key ends when the set is read again; a set that cannot be read ends after a while."""
    clock = Clock()
    users = Users({ISSUER: Believed(HOUSE, IssuerKeys(pages.source(), clock))})

    async def said(text: str) -> Any:
        return await users.verify(text, now_ms=NOW_MS)

    async def story() -> None:
        pages.body, pages.asked = jwks(jwk("r")), 0
        assert isinstance(await said(HONEST), User)
        assert isinstance(await said(HONEST), User)
        assert pages.asked == 1
        pages.body = jwks(jwk("d"))  # rotated
        clock.ms += int(AGAIN_S * 1000)
        assert isinstance(await said(token("d", claims(NOW_S))), User)
        refusal = await said(HONEST)
        assert refusal.reason is Reason.TOKEN_KEY_UNKNOWN
        for at in range(20):
            assert (await said(token("d", claims(NOW_S), kid=f"x{at}"))).reason is Reason.TOKEN_KEY_UNKNOWN
        assert pages.asked == 2
        pages.status = 500
        clock.ms += int(STALE_S * 500)
        assert isinstance(await said(token("d", claims(NOW_S))), User)
        clock.ms += int(STALE_S * 500)
        assert (await said(token("d", claims(NOW_S)))).reason is Reason.TOKEN_KEYS_UNAVAILABLE
        pages.status = 200
        clock.ms += int(AGAIN_S * 1000)
        assert isinstance(await said(token("d", claims(NOW_S))), User)

    try:
        asyncio.run(story())
    finally:
        pages.body, pages.status = jwks(), 200


def test_issuers_file_says_what_is_wrong_with_file_line_and_field(tmp_path: Path) -> None:
    file = tmp_path / "issuers.yaml"
    file.write_text(f"required: true\nissuers:\n  {ISSUER}:\n    audience: licet\n    jwks_file: keys.json\n")
    (tmp_path / "keys.json").write_bytes(jwks(jwk("d")))
    users = read_issuers(file, Clock())
    assert asyncio.run(users.verify(token("d", claims(NOW_S)), now_ms=NOW_MS)) == User(
        "ana@t1.example.com", ISSUER
    )
    missing = asyncio.run(users.verify("", now_ms=NOW_MS))
    assert isinstance(missing, Refusal)
    assert missing.reason is Reason.TOKEN_MISSING
    for text, why in (
        ("issuers: {}\n", "names nobody"),
        ("issuers:\n  a: {audience: licet}\n", "exactly one"),
        ("issuers:\n  a: {audience: licet, jwks_url: 'http://x/'}\n", "must be an https URL"),
        ("issuers:\n  a: {audience: '', jwks_file: k}\n", "must not be empty"),
        ("issuers:\n  a: {audience: b, jwks_file: k, algorithms: [HS256]}\n", "must be of"),
        ("issuers:\n  a: {audience: b, jwks_file: k, verify: false}\n", "unknown field"),
    ):
        file.write_text(text)
        with pytest.raises(SourceError, match=why):
            read_issuers(file, Clock())


def test_missing_key_file_is_no_decision(tmp_path: Path) -> None:
    users = Users({ISSUER: Believed(HOUSE, IssuerKeys(FileSource(tmp_path / "none"), Clock()))})
    refusal = asyncio.run(users.verify(token("d", claims(NOW_S)), now_ms=NOW_MS))
    assert isinstance(refusal, Refusal)
    assert refusal.reason is Reason.TOKEN_KEYS_UNAVAILABLE
