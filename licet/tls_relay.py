"""mTLS to a server whose SPIFFE id is known: gRPC talks to this process, this process to the server.

gRPC compares a server's certificate with a host name alone, and a host name is no workload: any certificate
of the authority that has it would do. So gRPC's bytes go through a socket of this process, and the handshake
is done here, where the certificate can be read.

Guaranteed: not a byte reaches the other side before its certificate was verified: the authority, the host
name, exactly one URI SAN, which is the expected id byte for byte, TLS 1.3. The files are read again at the
next connection after one changed; files that do not fit together leave the ones before in use, loudly. The
socket takes connections of this process alone (SO_PEERCRED). Not guaranteed: that a connection which stands
ends when a certificate runs out.
"""

import asyncio
import contextlib
import logging
import os
import secrets
import socket
import ssl
import struct
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import grpc
import grpc.aio

from licet.identity import certificate_id
from licet.log import log

LOG: Final = logging.getLogger(__name__)

CONNECT_S: Final = 5.0
"""How long connection and handshake may take together."""

AGAIN_S: Final = 0.1
"""After a connection of our own could not be taken."""

BLOCK_BYTES: Final = 65_536

_PEER: Final = struct.Struct("3i")
"""SO_PEERCRED: pid, uid, gid."""


@dataclass
class CertificateFiles:
    """Certificate chain, key and authority, as they are now.

    Args:
        certificate: PEM chain.
        key: PEM private key.
        authority: PEM of whom the other side's certificate must come from.
    """

    certificate: Path
    key: Path
    authority: Path
    _stamp: tuple[tuple[int, int, int], ...] = field(default=(), init=False)

    def read(self) -> tuple[bytes, bytes, bytes]:
        """Return certificate, key and authority; raises OSError."""
        self._stamp = self._stamps()
        return self.certificate.read_bytes(), self.key.read_bytes(), self.authority.read_bytes()

    def changed(self) -> bool:
        """Whether a file is another than at the last `read`; False when one cannot be looked at."""
        try:
            return self._stamps() != self._stamp
        except OSError:
            return False

    def _stamps(self) -> tuple[tuple[int, int, int], ...]:
        found = [path.stat() for path in (self.certificate, self.key, self.authority)]
        return tuple((one.st_mtime_ns, one.st_ino, one.st_size) for one in found)


class TlsRelay:
    """Carries connections of this process to one server.

    Args:
        address: `host:port`.
        files: Our certificate and key, and whom the server's must come from.
        expected: The server's SPIFFE id.
        called: What the server is called in log lines and in `trouble`.

    Raises:
        OSError: A file cannot be read (ssl.SSLError: they do not fit together).
    """

    def __init__(
        self, address: str, files: CertificateFiles, expected: str, *, called: str = "the decider"
    ) -> None:
        host, _, port = address.rpartition(":")
        self._host, self._port = host.strip("[]"), int(port)
        self._files = files
        self._expected, self._called = expected, called
        self._address = address
        self._context = _context(files)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        name = f"licet-{secrets.token_hex(16)}"
        self._listener.bind(f"\0{name}")
        self._listener.listen()
        self._listener.setblocking(False)
        self.target: Final = f"unix-abstract:{name}"
        """What gRPC connects to."""
        self.trouble = ""
        """Why the last connection was not made; empty when it was."""
        self._accepting: asyncio.Task[None] | None = None
        self._carried: set[asyncio.Task[None]] = set()

    def channel(self, options: Sequence[tuple[str, Any]]) -> grpc.aio.Channel:
        """Return a channel through here; calls name the server as its address does."""
        named = ("grpc.default_authority", self._address)
        return grpc.aio.insecure_channel(self.target, options=(*options, named))

    def start(self) -> None:
        """Take connections from now on."""
        self._accepting = asyncio.get_running_loop().create_task(self._accept())

    async def close(self) -> None:
        """Cut every connection."""
        tasks = [*self._carried, *([self._accepting] if self._accepting is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._listener.close()

    def renew(self) -> bool:
        """Read the files again if one changed; return whether new connections use other ones than before."""
        if not self._files.changed():
            return False
        try:
            self._context = _context(self._files)
        except OSError as error:
            log(LOG, logging.ERROR, "tls.reload_failed", error=str(error)[:200])
            return False
        log(LOG, logging.INFO, "tls.reloaded", certificate=str(self._files.certificate))
        return True

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                connection, _ = await loop.sock_accept(self._listener)
            except OSError as error:  # out of files, most likely: it may pass, and nobody else would say so
                self._note(f"no connection to {self._called}: {error}")
                await asyncio.sleep(AGAIN_S)
                continue
            task = loop.create_task(self._carry(connection))
            self._carried.add(task)
            task.add_done_callback(self._carried.discard)

    async def _carry(self, connection: socket.socket) -> None:
        if not _is_ours(connection):
            connection.close()
            return
        with contextlib.ExitStack() as open_ends:
            reader, writer = await asyncio.open_unix_connection(sock=connection)
            open_ends.callback(writer.close)  # what was pumped still reaches gRPC
            try:
                server_reader, server_writer = await self._connected()
            except (OSError, ValueError) as error:
                self._note(f"no connection to {self._called}: {str(error) or type(error).__name__}")
                return
            open_ends.callback(server_writer.transport.abort)
            self._note("")
            await _either(_pump(reader, server_writer), _pump(server_reader, writer))

    async def _connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Return a connection to a server that is the one expected; raises OSError or ValueError."""
        self.renew()
        async with asyncio.timeout(CONNECT_S):
            reader, writer = await asyncio.open_connection(
                self._host, self._port, ssl=self._context, server_hostname=self._host
            )
        tls = writer.get_extra_info("ssl_object")
        found = certificate_id(tls.getpeercert())
        if found != self._expected or tls.selected_alpn_protocol() != "h2":
            writer.transport.abort()
            raise ValueError(f"whoever answers there is `{found or 'nobody'}`, not `{self._expected}`")
        return reader, writer

    def _note(self, trouble: str) -> None:
        if trouble and trouble != self.trouble:
            log(LOG, logging.ERROR, "peer.connection_refused", trouble=trouble[:500])
        self.trouble = trouble


def _context(files: CertificateFiles) -> ssl.SSLContext:
    """Return a client's context; raises OSError when a file is missing or they do not fit together."""
    _, _, authority = files.read()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_verify_locations(cadata=authority.decode("ascii"))
    context.load_cert_chain(files.certificate, files.key)
    context.set_alpn_protocols(["h2"])
    return context


def _is_ours(connection: socket.socket) -> bool:
    """Whether this process made the connection: nobody else may speak with our certificate."""
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
    pid, _, _ = _PEER.unpack(raw)
    return bool(pid == os.getpid())


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while block := await reader.read(BLOCK_BYTES):
        writer.write(block)
        await writer.drain()


async def _either(*pumps: Coroutine[Any, Any, None]) -> None:
    """Run until one has ended; HTTP/2 has no use for half a connection."""
    tasks = [asyncio.ensure_future(pump) for pump in pumps]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
