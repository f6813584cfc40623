"""A port that somebody else took since the last start is told, and nothing is left running."""

import socket
from contextlib import closing
from pathlib import Path

import pytest

from licet.embedded.ports import keep_ports
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
