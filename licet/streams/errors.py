"""What can go wrong between a process and JetStream. Every one of these denies whoever was waiting."""


class StreamsError(Exception):
    """Base of the failures of this package."""


class StoreUnavailable(StreamsError):  # noqa: N818 - the field's word; it is a state, told to callers as such
    """No ack: not connected, timed out, forbidden, nobody there.

    `maybe_stored` is False only where the message certainly was not stored.
    """

    def __init__(self, cause: str, *, maybe_stored: bool = True) -> None:
        super().__init__(cause)
        self.maybe_stored = maybe_stored


class StoreRefused(StreamsError):  # noqa: N818 - as above
    """The server answered no. The message of this request was not stored.

    `err_code` is the server's number for the cause, `description` its exact text: 10077 alone does not tell a
    used-up subject from a full stream, the text does.
    """

    def __init__(self, err_code: int, description: str) -> None:
        super().__init__(f"store refused: {description} ({err_code})")
        self.err_code = err_code
        self.description = description


class CredentialsRefused(StreamsError):  # noqa: N818 - as above
    """The server knows no such user or the password is wrong; trying again does not help."""


class UnsafeChange(StreamsError):  # noqa: N818 - as above
    """A wanted change of a stream would lose stored messages, or the server cannot make it in place."""
