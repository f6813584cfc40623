"""Strict decoding stays strict: only the task that takes calls is spared."""

import asyncio

import pytest

from licet.odd_path import SERVING, keep_serving


@pytest.fixture(autouse=True)
def _kept() -> None:
    keep_serving()


@pytest.mark.parametrize("raw", [b"\xff", b"a\xc3", b"\xed\xa0\x80", b"\xf5\x80\x80\x80"])
def test_bytes_that_are_no_text_are_refused_as_ever(raw: bytes) -> None:
    for errors in ({}, {"errors": "strict"}):
        with pytest.raises(UnicodeDecodeError):
            raw.decode("utf-8", **errors)
        with pytest.raises(UnicodeDecodeError):
            str(raw, "utf-8", **errors)
    with pytest.raises(UnicodeEncodeError):
        "\ud800".encode()
    with pytest.raises(UnicodeDecodeError):
        b"\xff".decode("ascii")


async def _decode(raw: bytes) -> str:
    return raw.decode()


@pytest.mark.asyncio
async def test_in_any_other_task_too() -> None:
    with pytest.raises(UnicodeDecodeError):
        await asyncio.create_task(_decode(b"\xff"))


@pytest.mark.asyncio
async def test_in_the_task_that_takes_calls_odd_bytes_become_a_path_of_nobody() -> None:
    serving = _decode(b"\xff\xfe/fin.v1.Finance/IssueRefund")
    serving.__qualname__ = SERVING
    assert await asyncio.create_task(serving) == "\ufffd\ufffd/fin.v1.Finance/IssueRefund"
