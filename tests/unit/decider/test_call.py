"""A call as HTTP/2 carries it: what is read as one, and what is not."""

import grpc
import pytest

from decider.server.call import Head, Misfit, framed, message_in, read_head, size_of, status_headers

HEAD = (
    (b":method", b"POST"),
    (b":scheme", b"http"),
    (b":path", b"/licet.v1.DeciderService/Decide"),
    (b":authority", b"localhost"),
    (b"content-type", b"application/grpc"),
    (b"te", b"trailers"),
)


def with_header(name: bytes, value: bytes) -> tuple[tuple[bytes, bytes], ...]:
    return (*(pair for pair in HEAD if pair[0] != name), (name, value))


def test_head_has_the_path_and_no_header_of_the_transport() -> None:
    assert read_head(HEAD) == Head("/licet.v1.DeciderService/Decide", (), None)


def test_metadata_comes_as_it_was_sent() -> None:
    headers = (*HEAD, (b"x-one", b"1"), (b"x-one", b"2"), (b"x-key-bin", b"AP8"), (b"x-key-bin", b"AQ==,Ag"))
    read = read_head(headers)
    assert isinstance(read, Head)
    assert read.metadata == (
        ("x-one", "1"),
        ("x-one", "2"),
        ("x-key-bin", b"\x00\xff"),
        ("x-key-bin", b"\x01"),
        ("x-key-bin", b"\x02"),
    )


def test_metadata_that_is_no_text_stays_bytes_so_that_no_text_is_read_from_it() -> None:
    read = read_head((*HEAD, (b"x-licet-id", b"spiffe://\xff")))
    assert isinstance(read, Head)
    assert read.metadata == (("x-licet-id", b"spiffe://\xff"),)


def test_binary_metadata_that_is_none_refuses_the_call() -> None:
    read = read_head((*HEAD, (b"x-key-bin", b"!")))
    assert isinstance(read, Misfit)
    assert read.code is grpc.StatusCode.INTERNAL


@pytest.mark.parametrize(
    ("spelled", "seconds"),
    [
        (b"1H", 3600),
        (b"2M", 120),
        (b"3S", 3),
        (b"500m", 0.5),
        (b"7u", 7e-6),
        (b"99999999n", 0.099999999),
        (b"0S", 0),
    ],
)
def test_timeout_is_read_in_every_unit(spelled: bytes, seconds: float) -> None:
    read = read_head((*HEAD, (b"grpc-timeout", spelled)))
    assert isinstance(read, Head)
    assert read.timeout_s == pytest.approx(seconds)


@pytest.mark.parametrize(
    "spelled", [b"", b"S", b"1", b"1s", b"-1S", b"1.5S", b"123456789S", b"1 S", b"\xb2S"]
)
def test_timeout_that_is_none_refuses_the_call(spelled: bytes) -> None:
    read = read_head((*HEAD, (b"grpc-timeout", spelled)))
    assert isinstance(read, Misfit)
    assert read.details == "the timeout cannot be read"


@pytest.mark.parametrize("content", [b"application/grpc", b"application/grpc+proto", b"application/grpc;v=1"])
def test_content_of_grpc_is_a_call(content: bytes) -> None:
    assert isinstance(read_head(with_header(b"content-type", content)), Head)


@pytest.mark.parametrize("content", [b"", b"text/html", b"application/grpc-web", b"application/json"])
def test_content_of_anything_else_is_no_call(content: bytes) -> None:
    assert read_head(with_header(b"content-type", content)) == Misfit(http_status=b"415")


@pytest.mark.parametrize("method", [b"GET", b"post", b""])
def test_request_that_is_no_post_is_no_call(method: bytes) -> None:
    assert read_head(with_header(b":method", method)) == Misfit(http_status=b"405")


def test_path_that_is_no_ascii_is_no_path_of_a_service() -> None:
    read = read_head(with_header(b":path", b"/licet.v1.DeciderService/Decide\xff"))
    assert isinstance(read, Head)
    assert read.path == "/licet.v1.DeciderService/Decide\N{REPLACEMENT CHARACTER}"


def test_headers_count_as_http2_counts_them() -> None:
    assert size_of(((b"ab", b"cde"), (b"f", b""))) == 5 + 1 + 2 * 32


@pytest.mark.parametrize("message", [b"", b"one", b"x" * 70_000])
def test_message_is_read_as_it_was_framed(message: bytes) -> None:
    assert message_in(framed(message)) == message


@pytest.mark.parametrize(
    "body",
    [b"", b"\x00\x00\x00\x00", framed(b"one") + framed(b"two"), framed(b"one")[:-1], framed(b"one") + b"x"],
)
def test_body_that_is_not_one_whole_message_is_refused(body: bytes) -> None:
    assert message_in(body) == Misfit(details="not one whole message")


def test_compressed_message_is_not_read() -> None:
    read = message_in(b"\x01" + framed(b"one")[1:])
    assert isinstance(read, Misfit)
    assert read.code is grpc.StatusCode.UNIMPLEMENTED


def test_status_says_its_text_percent_encoded_and_its_details_in_base64() -> None:
    trailing = (("grpc-status-details-bin", b"\x00\xff"), ("retry-after", "5"))
    assert status_headers(grpc.StatusCode.UNAVAILABLE, "50 % é\r\n", trailing) == [
        (b":status", b"200"),
        (b"content-type", b"application/grpc"),
        (b"grpc-status", b"14"),
        (b"grpc-message", b"50 %25 %C3%A9%0D%0A"),
        (b"grpc-status-details-bin", b"AP8"),
        (b"retry-after", b"5"),
    ]


def test_status_without_a_text_has_none() -> None:
    assert (b"grpc-message", b"") not in status_headers(grpc.StatusCode.INTERNAL, "")
