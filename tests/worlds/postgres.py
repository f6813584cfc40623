"""A PostgreSQL server of the tests' own: a data directory of its own, a Unix socket, no TCP port."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

START_S = 60.0
ACCOUNT = "postgres"


def binaries() -> Path | None:
    """Return the directory of initdb and postgres, the newest where there are several."""
    found = shutil.which("initdb")
    places = [Path(found).resolve().parent] if found else []
    places += sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda place: -int(place.parent.name))
    return next((place for place in places if (place / "postgres").exists()), None)


class PostgresServer:
    """Started in `start`, stopped by its own pid in `stop`; as root it runs under the account `postgres`."""

    def __init__(self, binaries: Path) -> None:
        self._binaries = binaries
        self._account = {"user": ACCOUNT, "group": ACCOUNT, "extra_groups": []} if os.geteuid() == 0 else {}
        # not pytest's directory: its parents are closed to other accounts
        self.directory = Path(tempfile.mkdtemp(prefix="licet-postgres-"))
        self._schemas = 0
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        if self._account:
            shutil.chown(self.directory, ACCOUNT, ACCOUNT)
        data = self.directory / "data"
        self._run(
            "initdb",
            "-D",
            str(data),
            "-U",
            "postgres",
            "-A",
            "trust",
            "--no-sync",
            "-E",
            "UTF8",
            "--locale=C",
        )
        settings = {
            "listen_addresses": "",
            "unix_socket_directories": str(self.directory),
            "fsync": "off",
            "autovacuum": "off",
            "max_connections": "60",
        }
        flags = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        with (self.directory / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [str(self._binaries / "postgres"), "-D", str(data), *flags],
                stdout=log,
                stderr=log,
                cwd="/",
                **self._account,  # type: ignore[arg-type]
            )
        self._await_ready(time.monotonic() + START_S)

    def schema(self) -> str:
        """Make an empty schema and return the DSN of a role whose own it is, by the server's default
        search_path.

        A database of its own would cost each test ten times as much.
        """
        self._schemas += 1
        name = f"tool_{self._schemas}"
        with psycopg.connect(self._dsn("postgres"), autocommit=True) as connection:
            connection.execute(
                sql.SQL("CREATE ROLE {0} LOGIN SUPERUSER; CREATE SCHEMA {0} AUTHORIZATION {0}").format(
                    sql.Identifier(name)
                )
            )
        return self._dsn(name)

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)  # immediate: nothing here is kept
            self._process.wait(START_S)
        shutil.rmtree(self.directory, ignore_errors=True)

    def _dsn(self, user: str) -> str:
        return f"host={self.directory} user={user} dbname=postgres"

    def _run(self, program: str, *arguments: str) -> None:
        command: Any = [str(self._binaries / program), *arguments]
        done = subprocess.run(command, cwd="/", capture_output=True, check=False, **self._account)  # type: ignore[call-overload]
        assert done.returncode == 0, done.stderr.decode()

    def _await_ready(self, until: float) -> None:
        while True:
            try:
                psycopg.connect(self._dsn("postgres")).close()
            except psycopg.OperationalError:
                assert self._process is not None
                assert self._process.poll() is None, (self.directory / "log").read_text()
                assert time.monotonic() < until, (self.directory / "log").read_text()
                time.sleep(0.05)
            else:
                return
