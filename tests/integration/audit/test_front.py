"""The front answers the client of production unmodified, and nobody without the password."""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection
from typing import Any
from urllib.parse import quote, urlsplit

import clickhouse_connect
import lz4.frame
import pytest
from backports import zstd
from clickhouse_connect.driver.exceptions import DatabaseError, StreamFailureError

from audit.store.engine import Engine, EngineBusyError
from audit.store.front import Account, serving

HOSTILE = [
    "it's",
    'a "b" `c`',
    "back\\slash",
    "tab\tline\nfeed",
    "nul\0nul",
    "bidi \u202e",
    "'; DROP TABLE t; --",
    "",
]


def get(url: str) -> tuple[int, str, bytes]:
    """Status, ClickHouse's error code, body."""
    parts = urlsplit(url)
    with closing(HTTPConnection(parts.netloc, timeout=30)) as connection:
        connection.request("GET", url.removeprefix(f"http://{parts.netloc}"))
        answer = connection.getresponse()
        return answer.status, answer.headers.get("X-ClickHouse-Exception-Code", ""), answer.read()


@pytest.fixture
def table(store: Any) -> Iterator[Any]:
    store.client.command(
        "CREATE TABLE t (a UInt64, b String, n Int64) ENGINE = MergeTree ORDER BY a"
        " SETTINGS non_replicated_deduplication_window = 100"
    )
    yield store
    store.client.command("DROP TABLE t SYNC")


def test_wrong_password_and_no_password_are_refused_with_clickhouses_own_code(front: Any) -> None:
    for user, password in (
        ("licet", "wrong"),
        ("other", front.password_file.read_text().strip()),
        ("licet", ""),
    ):
        with pytest.raises(DatabaseError) as refused:
            clickhouse_connect.get_client(host="127.0.0.1", port=front.port, username=user, password=password)
        assert refused.value.code == 516
    with closing(front.address().client()) as client:
        assert client.command("SELECT 1") == 1


@pytest.mark.parametrize(
    "headers",
    [
        b"X-ClickHouse-User: \xff\xfe\r\nX-ClickHouse-Key: x",
        b"X-ClickHouse-User: licet\r\nX-ClickHouse-Key: \xff",
        b"Authorization: Basic \xff\xff",
        b"Authorization: Basic /////w==",
    ],
)
def test_credentials_that_are_no_utf8_are_refused_plainly(front: Any, headers: bytes) -> None:
    answer = raw(front, b"GET /?query=SELECT+1&query_id=a%0d%0aX:+y HTTP/1.1\r\nHost: x\r\n" + headers)
    assert answer.startswith(b"HTTP/1.1 401 ")
    assert b"Traceback" not in answer
    assert b"X: y" not in answer


def raw(front: Any, head: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", front.port), timeout=10) as connection:
        connection.sendall(head + b"\r\nConnection: close\r\n\r\n")
        parts = []
        while part := connection.recv(65_536):
            parts.append(part)
    return b"".join(parts)


def test_ping_needs_no_password_and_tells_nothing_else(front: Any) -> None:
    assert get(f"{front.url}/ping")[::2] == (200, b"Ok.\n")
    assert get(f"{front.url}/?query={quote('SELECT 1')}")[0] == 401


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_comes_back_as_it_went_in(table: Any, text: Any) -> None:
    table.client.insert("t", [[1, text, 2**63 - 1], [2, text, -(2**63)]], column_names=["a", "b", "n"])
    assert table.rows("SELECT a, n FROM t WHERE b = {b:String} ORDER BY a", b=text) == [
        (1, 2**63 - 1),
        (2, -(2**63)),
    ]


def test_bytes_that_are_no_utf8_are_kept(table: Any) -> None:
    table.client.raw_insert("t", ["a", "b"], b"1\t\xff\xfe\n", fmt="TSV")
    result = table.client.query("SELECT b FROM t", column_formats={"b": "bytes"})
    assert result.result_rows[0][0] == b"\xff\xfe"


def test_body_of_an_insert_may_be_compressed(table: Any) -> None:
    rows = "".join(f"{number}\tx\t0\n" for number in range(1000)).encode()
    for encoding, body in (("lz4", lz4.frame.compress(rows)), ("zstd", zstd.compress(rows)), (None, rows)):
        table.client.raw_insert(
            "t",
            ["a", "b", "n"],
            body,
            fmt="TSV",
            compression=encoding,
            settings={"insert_deduplication_token": f"{encoding}"},
        )
    assert table.value("SELECT count() FROM t") == 3000


def test_body_that_is_not_what_its_encoding_says_is_an_error_and_inserts_nothing(table: Any) -> None:
    with pytest.raises(DatabaseError) as refused:
        table.client.raw_insert("t", ["a", "b", "n"], b"no lz4", fmt="TSV", compression="lz4")
    assert refused.value.code == 354
    assert table.value("SELECT count() FROM t") == 0


def test_row_that_cannot_be_read_fails_the_whole_insert(table: Any) -> None:
    with pytest.raises(DatabaseError):
        table.client.raw_insert("t", ["a", "b", "n"], b"1\tx\t0\n2\tx\tno-number\n", fmt="TSV")
    assert table.value("SELECT count() FROM t") == 0


def test_large_answers_are_compressed_and_equal(table: Any) -> None:
    table.client.raw_insert(
        "t", ["a", "b", "n"], b"".join(b"%d\ty\t0\n" % n for n in range(100_000)), fmt="TSV"
    )
    assert sum(row[0] for row in table.rows("SELECT a FROM t")) == sum(range(100_000))


def test_answer_that_fails_midway_cannot_be_taken_for_a_whole_one(table: Any) -> None:
    with (
        pytest.raises((StreamFailureError, DatabaseError)),
        table.client.query_row_block_stream(
            "SELECT throwIf(number = 900000) FROM numbers(1000000)"
        ) as stream,
    ):
        for _ in stream:
            pass


@pytest.mark.parametrize(
    ("sql", "code"),
    [("SELEC 1", 62), ("SELECT nothing_like_it", 47), ("SELECT * FROM missing", 60)],
)
def test_errors_carry_clickhouses_codes(store: Any, sql: Any, code: Any) -> None:
    with pytest.raises(DatabaseError) as refused:
        store.client.command(sql)
    assert refused.value.code == code


def test_setting_of_one_request_does_not_reach_the_next(table: Any) -> None:
    token = {"insert_deduplication_token": "same"}
    for settings in (token, token, {}):
        table.client.raw_insert("t", ["a", "b", "n"], b"1\tx\t0\n", fmt="TSV", settings=settings)
    assert table.value("SELECT count() FROM t") == 2
    assert table.value("SELECT value FROM system.settings WHERE name = 'insert_deduplication_token'") == ""


def test_setting_name_cannot_carry_a_statement(front: Any) -> None:
    url = f"{front.signed_url('SELECT 1')}&{quote('x = 1; DROP TABLE t')}=1"
    assert get(url)[1] == "115"


def test_get_changes_nothing(front: Any, table: Any) -> None:
    url = front.signed_url(f"INSERT INTO {table.address.database}.t SELECT 1, 'x', 1")
    assert get(url)[1] == "164"  # READONLY
    assert table.value("SELECT count() FROM t") == 0


def test_client_that_dies_midway_through_its_body_inserts_nothing(front: Any, table: Any) -> None:
    path = front.signed_url(f"INSERT INTO {table.address.database}.t FORMAT TSV").removeprefix(front.url)
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n"
    with socket.create_connection(("127.0.0.1", front.port)) as connection:
        connection.sendall(head.encode() + b"1\tx\t0\n")
    assert table.value("SELECT count() FROM t") == 0


async def _ask(address: Any) -> Any:
    client = await clickhouse_connect.get_async_client(
        host="127.0.0.1",
        port=int(address.url.rpartition(":")[2]),
        username="licet",
        password=address.password_file.read_text().strip(),
        database=address.database,
    )
    try:
        answers = await asyncio.gather(*(client.query(f"SELECT {n}, sleep(0.1)") for n in range(6)))
        return [answer.result_rows[0][0] for answer in answers]
    finally:
        await client.close()


@pytest.mark.asyncio
async def test_async_client_runs_statements_side_by_side(store: Any) -> None:
    assert await _ask(store.address) == list(range(6))


def test_second_process_on_the_directory_is_told_so(front: Any) -> None:
    with pytest.raises(EngineBusyError, match="another process has"):
        Engine(front.directory / "data")


@pytest.mark.asyncio
async def test_front_refuses_to_listen_off_loopback(tmp_path: Any) -> None:
    with pytest.raises(ValueError, match="loopback only"):
        async with serving(tmp_path / "data", Account("licet", "x"), "0.0.0.0", 0):
            pass
