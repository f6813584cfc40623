"""The call digest binds every part, and its key is the tool's alone."""

import hashlib
import hmac
import itertools

import pytest

from licet.call import call_digest, left_out_mark, same_digest, tool_key

KEY = bytes(range(32))
CALL = (KEY, 1, "/fin.v1.Finance/IssueRefund", b"\x01" * 32, b"M\0\0\0\0")


def test_digest_is_an_hmac_over_the_parts_with_their_lengths() -> None:
    method = CALL[2].encode()
    text = b"licet-call-v1\0" + b"\0\0\0\1" + len(method).to_bytes(4, "big") + method
    text += b"\0\0\0\x20" + b"\x01" * 32 + b"\0\0\0\5" + b"M\0\0\0\0"
    assert call_digest(*CALL) == hmac.new(KEY, text, hashlib.sha256).digest()


def test_every_part_changes_the_digest() -> None:
    others = [bytes(32), 2, "/fin.v1.Finance/GetOrder", b"\x02" * 32, b"M\0\0\0\1"]
    digests = {call_digest(*CALL)}
    for index, other in enumerate(others):
        changed = [*CALL]
        changed[index] = other
        digests.add(call_digest(*changed))  # type: ignore[arg-type]
    assert len(digests) == 1 + len(others)


def test_bytes_cannot_move_from_one_part_to_the_next() -> None:
    """Without lengths, `/a` with the digest `bc` would be `/ab` with the digest `c`."""
    whole = "/abcdef"
    splits = {
        call_digest(KEY, 1, whole[:i], whole[i:j].encode(), whole[j:].encode())
        for i, j in itertools.combinations_with_replacement(range(len(whole) + 1), 2)
    }
    assert len(splits) == 36


def test_key_of_another_length_is_a_fault_of_the_caller() -> None:
    with pytest.raises(ValueError, match="32 bytes, not 31"):
        call_digest(bytes(31), *CALL[1:])
    with pytest.raises(ValueError, match="32 bytes, not 0"):
        tool_key(b"", "spiffe://licet.local/dev/tool/finance", 1)
    with pytest.raises(ValueError, match="audience"):
        tool_key(KEY, "", 1)
    with pytest.raises(OverflowError):
        tool_key(KEY, "a", -1)


def test_tool_key_is_hkdf_by_rfc_5869() -> None:
    """Against the extract and expand steps by hand; the form of HKDF itself against the RFC's first case."""

    def hkdf(master: bytes, salt: bytes, info: bytes, length: int) -> bytes:
        extracted = hmac.new(salt, master, hashlib.sha256).digest()
        block, out = b"", b""
        for count in range(1, 3):
            block = hmac.new(extracted, block + info + bytes([count]), hashlib.sha256).digest()
            out += block
        return out[:length]

    assert hkdf(b"\x0b" * 22, bytes(range(13)), bytes(range(0xF0, 0xFA)), 42).hex() == (
        "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865"
    )
    audience = b"spiffe://licet.local/dev/tool/finance"
    info = len(audience).to_bytes(4, "big") + audience + (7).to_bytes(8, "big")
    assert tool_key(KEY, audience.decode(), 7) == hkdf(KEY, b"licet-tool-key-v1", info, 32)


def test_tool_key_is_of_one_tool_one_environment_one_generation() -> None:
    audiences = ["spiffe://licet.local/dev/tool/finance", "spiffe://licet.local/prod/tool/finance"]
    keys = {tool_key(master, a, g) for master in (KEY, bytes(32)) for a in audiences for g in (1, 2)}
    assert len(keys) == 8


def test_unset_digest_equals_nothing() -> None:
    digest = call_digest(*CALL)
    assert same_digest(digest, bytes(digest))
    assert not same_digest(digest, digest[:-1])
    assert not same_digest(b"", b"")


def test_mark_of_what_was_left_out_says_size_and_a_digest_that_is_no_call_s() -> None:
    """Who reads the record can neither try guesses of the body without the key nor use it for a call."""
    body = b"x" * 5_000
    keyed = hmac.new(KEY, b"licet-left-out-v1\0" + body, hashlib.sha256).hexdigest()
    assert left_out_mark(body, KEY) == f"…[5000 bytes left out, digest {keyed}]"
    assert left_out_mark(body, bytes(32)) != left_out_mark(body, KEY)
    assert call_digest(KEY, 1, "", b"", body).hex() not in left_out_mark(body, KEY)
