"""The egress check: what is found, however it is dressed, and that what is found is told nowhere."""

import asyncio
import base64
import gzip
import html
import urllib.parse
import zlib
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from decider.egress import UNCHECKED, Kind, inspect_fields, inspect_text, packaged, read_rules
from decider.egress.beside import MAX_INLINE_BYTES, Beside
from decider.egress.check import WHOLE, inspect
from decider.egress.reading import MAX_INFLATED_BYTES, MAX_READ_BYTES, Readings, bounds_of
from licet.call import Arguments
from licet.call.strict_json import read_json
from licet.refusal import Refusal

CANARY = "ghp_" + "9f3KxQ7LmZ2tVbN8rYcW4sJd6HgP1aEuTo5R"  # of the form, and nobody's
FLAG = "secret:github-token"


def full_width(text: str) -> str:
    return "".join(chr(ord(char) + 0xFEE0) for char in text)


ENCODINGS: dict[str, Callable[[str], list[str]]] = {
    "plain": lambda text: [f"use {text} please"],
    "base64": lambda text: ["data: " + base64.b64encode(f"token={text}".encode()).decode()],
    "base64url without padding": lambda text: [
        base64.urlsafe_b64encode(f"??>{text}".encode()).decode().rstrip("=")
    ],
    "base64 of base64": lambda text: [base64.b64encode(base64.b64encode(text.encode())).decode()],
    "hex": lambda text: [f"0x{text.encode().hex()}"],
    "hex with colons": lambda text: [text.encode().hex(":")],
    "percent, twice": lambda text: [urllib.parse.quote("".join(f"%{ord(char):02X}" for char in text))],
    "html references": lambda text: ["".join(f"&#{ord(char)};" for char in text)],
    "backslash escapes": lambda text: ["".join(f"\\u{ord(char):04x}" for char in text)],
    "zero-width characters": lambda text: ["\u200b".join(text)],
    "full-width forms": lambda text: [full_width(text)],
    "letters set apart": lambda text: [" ".join(text)],
    "pieces in a list": lambda text: [text[:9], text[9:23], text[23:]],
    "pieces of code": lambda text: [f'"{text[:11]}" + "{text[11:]}"'],
    "broken lines": lambda text: [text[:20] + "\n  " + text[20:]],
    "gzip in base64": lambda text: [base64.b64encode(gzip.compress(text.encode())).decode()],
    "html references in hex": lambda text: ["".join(f"&#x{ord(char):x};" for char in text)],
    "braced escapes": lambda text: ["".join(f"\\u{{{ord(char):x}}}" for char in text)],
    "quoted-printable": lambda text: ["".join(f"={ord(char):02X}" for char in text)],
    "quoted-printable with soft breaks": lambda text: [
        "".join(f"={ord(char):02X}" + "=\n" * (at % 9 == 8) for at, char in enumerate(text))
    ],
    "zlib in hex": lambda text: [zlib.compress(text.encode()).hex()],
    "percent of base64": lambda text: [urllib.parse.quote(base64.b64encode(text.encode()).decode(), safe="")],
    "base32": lambda text: [base64.b32encode(text.encode()).decode()],
}
NOT_FOUND: dict[str, Callable[[str], list[str]]] = {
    "reversed": lambda text: [text[::-1]],
    "rot13": lambda text: [
        "".join(
            chr((ord(c) - base + 13) % 26 + base)
            if c.isalpha() and (base := 97 if c.islower() else 65)
            else c
            for c in text
        )
    ],
}
"""Listed in docs/egress.md as not undone; a test so that the page stays true."""


@pytest.mark.parametrize("name", ENCODINGS)
def test_canary_is_found_however_it_is_encoded(name: str) -> None:
    report = inspect_fields({"note": ENCODINGS[name](CANARY)})
    assert FLAG in report.flags
    assert "secret" in report.flags
    assert report.whole


@pytest.mark.parametrize("name", ENCODINGS)
def test_harmless_text_of_the_same_encoding_raises_no_flag(name: str) -> None:
    harmless = "please send the usual summary"
    assert inspect_fields({"note": ENCODINGS[name](harmless)}).flags == ()


@pytest.mark.parametrize("name", NOT_FOUND)
def test_forms_that_the_page_says_are_not_undone_are_not(name: str) -> None:
    assert inspect_fields({"note": NOT_FOUND[name](CANARY)}).findings == ()


def test_secret_divided_among_fields_is_found_as_the_calls_own() -> None:
    report = inspect_fields({"first": [CANARY[:20]], "second": [CANARY[20:]]})
    assert [(f.flag, f.path) for f in report.findings] == [(FLAG, WHOLE)]


def test_nothing_that_is_returned_holds_the_value() -> None:
    report = inspect_text(f"password: {CANARY}, card 4111 1111 1111 1111")
    assert report.findings
    assert CANARY not in repr(report)
    assert "4111" not in repr(report)


def test_key_of_a_map_is_read_and_never_part_of_a_path() -> None:
    schema = '{"type":"object","additionalProperties":false,"properties":{"labels":{"type":"string"}}}'
    arguments = read_json(schema, b'{"labels":"%s"}' % CANARY.encode())
    assert not isinstance(arguments, Refusal)
    assert [(f.flag, f.path) for f in inspect(arguments).findings] == [(FLAG, "labels")]


def test_expected_data_in_its_field_raises_no_flag_and_elsewhere_does() -> None:
    allowed = {"to": frozenset({"personal:email"})}
    assert inspect_fields({"to": ["ada@example.com"]}, allowed=allowed).flags == ()
    assert inspect_fields({"body": ["ada@example.com"]}, allowed=allowed).flags == (
        "personal",
        "personal:email",
    )
    assert FLAG in inspect_fields({"to": [CANARY]}, allowed=allowed).flags


def test_number_without_a_word_that_says_what_it_is_is_only_possible() -> None:
    assert "possible:ca_sin" in inspect_text("130 692 544").flags
    assert "personal:ca_sin" in inspect_text("my SIN is 130 692 544").flags
    assert "personal:ca_sin" in inspect_fields({"sin": ["130 692 544"]}).flags


@pytest.mark.parametrize(
    "text",
    [
        "IBAN DE89 3704 0044 0532 0130 00 please",
        "4111 1111 1111 1111",
        "call +49 30 1234567 or 0",
        "ssn 078-05-1123",
    ],
)
def test_personal_data_is_found_and_its_neighbour_with_a_wrong_digit_is_not(text: str) -> None:
    assert "personal" in inspect_text(text).flags
    wrong = text.replace("0130", "0131").replace("4111 1111", "4111 1112").replace("078-", "000-")
    wrong = wrong.replace("+49 30 1234567", "+49 0 1")
    assert "personal" not in inspect_text(wrong).flags


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        ("ar_cuit", "20-05536168-2"),
        ("at_svnr", "SVNR 1237 010180"),
        ("be_national_number", "85.07.30-033.28"),
        ("be_national_number", "rijksregister 85073003328"),
        ("br_cpf", "390.533.447-05"),
        ("ch_ahv", "756.9217.0769.85"),
        ("cl_rut", "76.086.428-5"),
        ("cn_resident_id", "360426199101010071"),
        ("cz_rodne_cislo", "710319/2745"),
        ("fr_nir", "2 55 08 14 168 025 38"),
        ("gr_amka", "AMKA 01013099997"),
        ("ie_pps", "PPS 6433435F"),
        ("il_id", "teudat 039337423"),
        ("imei", "IMEI 49-015420-323751-8"),
        ("mx_curp", "BOXW310820HNERXN09"),
        ("nl_bsn", "bsn 111222333"),
        ("no_fodselsnummer", "fødselsnummer 151086 95088"),
        ("pt_nif", "NIF 501 964 843"),
        ("ro_cnp", "CNP 1630615123457"),
        ("us_dea", "DEA number BB1388568"),
    ],
)
def test_personal_number_of_a_country_is_found_and_with_another_check_digit_is_not(
    rule: str, text: str
) -> None:
    assert f"personal:{rule}" in inspect_text(text).flags
    last = text[-1]
    other = chr(ord(last) + 1) if last.isalpha() else str((int(last) + 1) % 10)
    assert f"personal:{rule}" not in inspect_text(text[:-1] + other).flags


@pytest.mark.parametrize(
    ("rule", "text", "without"),
    [
        ("passport", "my passport is C03005988", "the part is C03005988"),
        ("driving_licence", "driving licence F1234567", "invoice F1234567"),
        ("dk_cpr", "CPR 211062-5629", "order 211062-5629"),
    ],
)
def test_document_of_a_common_form_needs_the_word_that_names_it(rule: str, text: str, without: str) -> None:
    assert f"personal:{rule}" in inspect_text(text).flags
    assert f"personal:{rule}" not in inspect_text(without).flags


HEX = "9f3ac17be02d58641c7ae39b05f28d6437be1a90c4d25f86ab93e7104d6c5f28b1"
MIXED = "9f3KxQ7LmZ2tVbN8rYcW4sJd6HgP1aEuTo5R0iDk3XeBvMqCwSzAyUfGhJpLnT7O"
UUID = "3f2c8a1e-9b4d-4c67-8e21-5a9d0b7c6f13"


@pytest.mark.parametrize(
    ("rule", "key", "alike"),
    [
        ("aws-mws-token", f"amzn.mws.{UUID}", f"amzn.mws.{UUID[:20]}"),
        ("azure-devops-token", f"{MIXED}{MIXED[:12]}AZDO{MIXED[:4]}", f"{MIXED[:40]}AZDO{MIXED[:4]}"),
        ("supabase-key", f"sbp_{HEX[:40]}", f"sbp_{HEX[:12]}"),
        ("crates-token", f"cio{MIXED[:32]}", f"cio{MIXED[:20]}"),
        ("openrouter-key", f"sk-or-v1-{HEX[:64]}", f"sk-or-v1-{HEX[:20]}"),
        ("langfuse-key", f"sk-lf-{UUID}", "sk-lf-documentation"),
        ("nvidia-key", f"nvapi-{MIXED}", f"nvapi-{MIXED[:20]}"),
        ("tavily-key", f"tvly-dev-{MIXED[:32]}", "tvly-dev-key"),
        ("elevenlabs-key", f"sk_{HEX[:48]}", f"sk_{HEX[:20]}"),
        ("cerebras-key", f"csk-{HEX[:48]}", f"csk-{HEX[:20]}"),
        ("resend-key", f"re_{MIXED[:8]}_{MIXED[8:32]}", "re_inspect_the_whole_delivery_now"),
        ("clickup-token", f"pk_12345678_{MIXED[:32].upper()}", f"pk_12345678_{MIXED[:9].upper()}"),
        ("paddle-key", f"pdl_live_apikey_{HEX[:26]}_{MIXED[:22]}_a1B", "pdl_live_apikey_of_the_shop"),
        ("razorpay-key", f"rzp_live_{MIXED[:14]}", "rzp_live_mode"),
        (
            "mercadopago-token",
            f"APP_USR-1234567890123456-010203-{HEX[:32]}-123456789",
            "APP_USR-1234567890123456",
        ),
        ("axiom-token", f"xaat-{UUID}", "xaat-docs"),
        ("persona-key", f"persona_sandbox_{UUID}", "persona_sandbox_mode"),
        (
            "zapier-webhook",
            "https://hooks.zapier.com/hooks/catch/123456/ab3d9x/",
            "https://hooks.zapier.com/docs/",
        ),
        ("hetzner-key", f"hcloud_token = {MIXED[:64]}", f"hcloud_token = {MIXED[:10]}"),
    ],
)
def test_key_of_a_provider_is_found_and_what_only_begins_like_one_is_not(
    rule: str, key: str, alike: str
) -> None:
    assert f"secret:{rule}" in inspect_text(f"use {key} for it").flags
    assert f"secret:{rule}" not in inspect_text(f"use {alike} for it").flags


@pytest.mark.parametrize(
    ("told", "harmless"),
    [
        (
            "The password for the admin console is Tr0ub4dor&9xplain.",
            "The password for the room is on the back.",
        ),
        (
            "Das Passwort für das Portal lautet kX9!vbn2Lq",
            "Das Passwort für das Portal lautet wie letztes Mal",
        ),
        ("password for admin: kX9!vbn2Lq", "The password is SHA-256-hashed before it is stored"),
        (f"SECRET_KEY_BASE={'3f8a1c0b9d2e' * 8}", "if (user.password !== confirmPassword) return;"),
        (
            "Authorization: SSWS 00Q7x-9aKt2LmR4vBz8YcWdE1fGh3JkNpSuTq5Xo_V",
            "SSWS 0017 is the number of the form",
        ),
        ("Rentenversicherungsnummer 15 070649 C 103", "Rentenversicherungsnummer 15 070649 C 104"),
        ("from 203.0.113.77, http://203.0.113.78/", "Mozilla/5.0 AppleWebKit/537.36 Chrome/124.0.0.0"),
    ],
)
def test_what_a_sentence_tells_is_found_and_its_harmless_like_is_not(told: str, harmless: str) -> None:
    assert {"secret", "personal"} & set(inspect_text(told).flags)
    assert not {"secret", "personal"} & set(inspect_text(harmless).flags)


def test_credential_in_a_field_named_for_one_is_found() -> None:
    assert "secret:secret-field" in inspect_fields({"user.password": ["corr3ct-Horse!battery"]}).flags
    assert inspect_fields({"user.password_hint": ["my first dog"]}).flags == ()
    assert inspect_text("api_secret = 7d1f0b9ac3e85d24f6a1b07c9e38").flags
    assert inspect_text("api_secret = 1234567890abcdef1234567890ab").flags == ()


def test_call_too_large_to_be_read_whole_says_so() -> None:
    assert UNCHECKED not in inspect_text("a b " * 1000).flags
    assert UNCHECKED in inspect_text("a" * (MAX_READ_BYTES + 1)).flags


def test_card_behind_very_many_that_are_none_does_not_pass_as_checked() -> None:
    decoys = "4111 1111 1111 1112 " * 1_500
    assert "personal:credit_card" in inspect_text(decoys + "4111 1111 1111 1111").flags
    assert UNCHECKED in inspect_text(decoys * 2 + "4111 1111 1111 1111").flags


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "piece",
    ["6162", "ab", "1", "a=b\n", "a@", "1.", ":1", "<", "{{", "\n" + " " * 40, "a a ", "%41", "=", "x" * 9],
)
def test_hostile_text_takes_no_more_than_linear_time(piece: str) -> None:
    """At a square of its length each would take hours."""
    text = piece * (100_000 // len(piece))
    inspect_fields({"password": [text], "body": ["\n" + text]})


def test_readings_end_for_text_that_decodes_for_ever() -> None:
    text = "x" * 40
    for _ in range(9):
        text = base64.b64encode(text.encode()).decode()
    assert len(list(Readings().of(text))) < 100


def packed(text: str) -> str:
    return base64.b64encode(gzip.compress(text.encode(), 9)).decode()


def wrapped(text: str, layers: int) -> str:
    for _ in range(layers):
        text = base64.b64encode(f"see {text}".encode()).decode()
    return text


def test_layer_more_than_is_undone_does_not_pass_as_checked() -> None:
    assert inspect_text(wrapped(CANARY, 3)).flags == ("secret", FLAG)
    assert inspect_text(wrapped(CANARY, 4)).flags == (UNCHECKED,)
    assert inspect_text(wrapped("the usual summary", 3)).flags == ()


def test_end_of_a_compressed_run_that_is_not_read_does_not_pass_as_checked() -> None:
    long = "a b c " * (MAX_INFLATED_BYTES // 6 + 1)
    assert UNCHECKED in inspect_fields({"a": [packed(long + CANARY)], "b": ["x " * 50_000]}).flags
    two = gzip.compress(b"the usual summary") + gzip.compress(CANARY.encode())
    assert inspect_text(base64.b64encode(two).decode()).flags == (UNCHECKED,)
    assert inspect_text(packed(f"the usual summary, {CANARY}")).flags == ("secret", FLAG)


@pytest.mark.parametrize("filling", ["the same words ", "\x01\x02\x03"], ids=["text", "no text"])
def test_small_call_cannot_be_made_to_hold_much(filling: str) -> None:
    bombs = " ".join(packed(f"{number} " + filling * 80_000) for number in range(12))
    bounds = bounds_of(len(bombs))
    readings = Readings(bounds)
    assert sum(len(reading.text) for reading in readings.of(bombs)) <= bounds.characters < 1 << 20
    assert readings.cut


def test_secret_buried_under_numbers_is_found_all_the_same() -> None:
    cards = "4111 1111 1111 1112 " * 2_000
    report = inspect_fields({f"f{number}": [cards] for number in range(9)} | {"note": [CANARY]})
    assert {FLAG, UNCHECKED} <= set(report.flags)


def arguments_of(text: str) -> Arguments:
    schema = '{"type":"object","additionalProperties":false,"properties":{"note":{"type":"string"}}}'
    read = read_json(schema, ('{"note": "' + text + '"}').encode())
    assert not isinstance(read, Refusal)
    return read


@pytest.mark.asyncio
async def test_small_call_that_takes_long_is_read_beside_the_loop() -> None:
    bombs = " ".join(packed(f"{number} " + "key= token: " * 4_000 + CANARY) for number in range(4))
    assert len(bombs) < MAX_INLINE_BYTES
    reading = asyncio.ensure_future(Beside().inspect(arguments_of(bombs)))
    turns = 0
    while not reading.done():
        turns += 1
        await asyncio.sleep(0)
    assert FLAG in reading.result().flags
    assert turns > 5


@pytest.mark.asyncio
async def test_call_that_would_wait_too_long_to_be_read_does_not_pass_as_checked() -> None:
    crowded = Beside(max_waiting=0)
    assert (await crowded.inspect(arguments_of("x " * MAX_INLINE_BYTES))).flags == (UNCHECKED,)
    assert (await crowded.inspect(arguments_of("please send the usual summary"))).flags == ()


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=300))
def test_any_text_is_read_without_an_error(text: str) -> None:
    inspect_fields({"a": [text], "b": [text[::-1], text]})


@settings(max_examples=60, deadline=None)
@given(
    st.text(alphabet=" abcdefgh,.\n", max_size=60),
    st.text(alphabet=" abcdefgh,.\n", max_size=60),
)
def test_canary_is_found_in_any_surroundings(before: str, after: str) -> None:
    assert FLAG in inspect_text(f"{before} {CANARY} {after}").flags


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("version: 2", "version"),
        ("{version: 1, secrets: [{id: a-b, pattern: '(?=x)'}]}", "RE2"),
        ("{version: 1, secrets: [{id: a-b, pattern: x, check: nope}]}", "no check"),
        ("{version: 1, secrets: [{id: a-b, pattern: x, hint: [x]}]}", "unknown key"),
        ("{version: 1, personal: [{id: a-b, pattern: x, check: nope}]}", "no check"),
    ],
)
def test_rule_file_with_a_fault_is_refused_whole(text: str, what: str) -> None:
    with pytest.raises(ValueError, match=what):
        read_rules(text)
    assert read_rules("{version: 1, secrets: [{id: a-b, pattern: x}]}").rule_ids == ("a-b",)


def test_every_hint_is_lower_case_and_every_secret_rule_can_be_reached() -> None:
    for rule in packaged().rules:
        assert all(hint == hint.lower() and hint for hint in rule.hints)
        if rule.kind is Kind.SECRET and not rule.hints:
            assert rule.rule_id == "assigned-secret"


def test_html_in_a_message_is_no_secret() -> None:
    assert inspect_text(html.escape("<b>Your order</b> has been refunded & closed")).flags == ()
