"""The call digest: which exact arguments a decision was made for.

Equal calls have equal digests: loop breaker, holds and joins rely on it. Without the tool's key nobody can
guess an order number and an amount from a digest, so it may stand in audit. It is a keyed hash, not a
signature: whoever holds the tool's key (decider, that tool's sidecar and guard) can compute it.
"""

import hmac

CALL_DOMAIN = b"licet-call-v1\0"
"""First bytes of what is hashed: no digest of another purpose can be a call digest."""
LEFT_OUT_DOMAIN = b"licet-left-out-v1\0"
"""First bytes of what is hashed of arguments that nobody read."""
TOOL_KEY_SALT = b"licet-tool-key-v1"
"""Salt of the derivation of a tool's key (RFC 5869)."""
KEY_BYTES = 32
"""Length of the environment's master and of a tool's key, in bytes."""


def call_digest(k_tool: bytes, codec: int, method: str, method_digest: bytes, encoded: bytes) -> bytes:
    """Return the 32 byte digest of one call.

    HMAC-SHA-256 under `k_tool` over `CALL_DOMAIN ‖ codec ‖ len(method) ‖ method ‖ len(method_digest) ‖
    method_digest ‖ len(encoded) ‖ encoded`; codec (the number of licet.v1.Codec) and lengths in 4 bytes,
    big-endian. `encoded` is the tree encoding, so neither the order nor the form of the wire matters.

    Raises:
        ValueError: the key is not 32 bytes; OverflowError: a number does not fit its place. Both are faults
            of the caller, never of the call's input.
    """
    if len(k_tool) != KEY_BYTES:
        raise ValueError(f"a tool key has {KEY_BYTES} bytes, not {len(k_tool)}")
    parts = (method.encode(), method_digest, encoded)
    spelled = b"".join([len(part).to_bytes(4, "big") + part for part in parts])
    return hmac.digest(k_tool, CALL_DOMAIN + codec.to_bytes(4, "big") + spelled, "sha256")


def left_out_mark(body: bytes, k_tool: bytes) -> str:
    """Return what a record says of arguments too large to be read: their size, their digest under `k_tool`.

    The digest is of the bytes as they came, and no call digest. Takes milliseconds for megabytes.
    """
    keyed = hmac.digest(k_tool, LEFT_OUT_DOMAIN + body, "sha256").hex()
    return f"…[{len(body)} bytes left out, digest {keyed}]"


def same_digest(one: bytes, other: bytes) -> bool:
    """Compare two digests in constant time; an empty one, so an unset one, equals nothing."""
    return bool(one) and hmac.compare_digest(one, other)


def tool_key(master: bytes, audience: str, generation: int) -> bytes:
    """Derive the key of one tool from the environment's master: HKDF-SHA-256 (RFC 5869), 32 bytes.

    Info is `len(audience) ‖ audience ‖ generation` in 4, n and 8 bytes: a key serves one tool and one
    generation of the stores. The master is the decider's alone.

    Raises:
        ValueError: the master is not 32 bytes, or the audience is empty.
    """
    if len(master) != KEY_BYTES:
        raise ValueError(f"a master key has {KEY_BYTES} bytes, not {len(master)}")
    name = audience.encode()
    if not name:
        raise ValueError("a tool key needs an audience")
    info = len(name).to_bytes(4, "big") + name + generation.to_bytes(8, "big")
    extracted = hmac.digest(TOOL_KEY_SALT, master, "sha256")
    return hmac.digest(extracted, info + b"\x01", "sha256")  # one block is all 32 bytes need
