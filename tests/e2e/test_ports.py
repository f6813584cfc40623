"""Ports are apart and stay apart; one that somebody else took is told, and nothing is left running."""

import socket
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from licet.embedded.ports import FIRST_PORT, LAST_PORT, NoPortError, claim, free_port, keep_ports
from licet.embedded.process import StartError
from licet.embedded.project import read_project
from licet.embedded.stack import Stack

PROJECT = Path(__file__).resolve().parents[2] / "examples" / "refund"


def test_ports_are_kept_and_new_names_get_new_ones(tmp_path: Path) -> None:
    file = tmp_path / "ports.json"
    first = keep_ports(file, ("a", "b"))
    again = keep_ports(file, ("b", "c"))
    assert again["b"] == first["b"]
    assert len({*first.values(), *again.values()}) == 3
    assert keep_ports(file, ("a",)) == {"a": first["a"]}


def test_a_port_is_none_that_an_outgoing_connection_may_get() -> None:
    outgoing = Path("/proc/sys/net/ipv4/ip_local_port_range")
    if outgoing.exists():
        assert (
            int(outgoing.read_text().split()[0]) > LAST_PORT
            or int(outgoing.read_text().split()[1]) < FIRST_PORT
        )
    assert FIRST_PORT <= free_port() <= LAST_PORT


def test_a_port_claimed_by_one_process_is_given_to_no_other_until_it_ends() -> None:
    port = free_port()
    ask = (
        sys.executable,
        "-c",
        f"from licet.embedded.ports import claim; print(claim({port}), claim({port + 1}))",
    )
    asked = subprocess.run(ask, capture_output=True, text=True, check=True)
    assert asked.stdout.split()[0] == "False"
    assert not claim(port), "claimed twice by one process"
    maker = "from licet.embedded.ports import free_port; print(free_port())"
    other = int(
        subprocess.run((sys.executable, "-c", maker), capture_output=True, text=True, check=True).stdout
    )
    assert claim(other), "what an ended process claimed is free again"


def test_no_port_is_given_on_which_something_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        taken = server.getsockname()[1]
        monkeypatch.setattr("licet.embedded.ports.FIRST_PORT", taken)
        monkeypatch.setattr("licet.embedded.ports.LAST_PORT", taken)
        with pytest.raises(NoPortError, match="no free port"):
            free_port()


def test_port_taken_by_another_program_is_told_and_nothing_runs_on(tmp_path: Path) -> None:
    ports = keep_ports(tmp_path / "ports.json", ("otlp",))
    with closing(socket.create_server(("127.0.0.1", ports["otlp"]))):
        stack = Stack(tmp_path, read_project(PROJECT))
        with pytest.raises(StartError, match="is taken by another program"):
            stack.start()
    assert stack.nats.pid is None
    assert not any(one.alive for one in stack.processes.values())
    stack.close()


def test_path_too_long_for_a_socket_is_told_before_anything_is_made(tmp_path: Path) -> None:
    directory = tmp_path / ("d" * 90)
    with pytest.raises(StartError, match="name a shorter directory"):
        Stack(directory, read_project(PROJECT))
    assert not directory.exists()
