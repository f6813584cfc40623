"""Each check of the doctor on this machine: all is well, then exactly one thing is broken."""

import os
import shutil
import socket
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from licet.doctor import State
from licet.doctor.another_way import check_another_way, other_ports
from licet.doctor.certificates import check_certificates
from licet.doctor.files import check_keys, check_socket, check_spool
from licet.doctor.servers import judge_beacon
from licet.doctor.settings import DoctorSettings
from licet.embedded.dev_keys import make_dev_keys
from licet.v1 import beacon_pb2
from tests.worlds.certificates import DAY, Authority

NOW_MS = 1_800_000_000_000
ID = "spiffe://licet.local/dev/sidecar/finance"


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("LICET_")]:
        monkeypatch.delenv(name)


def told(**given: Any) -> DoctorSettings:
    return DoctorSettings(**given)


# --- keys ---


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    make_dev_keys(tmp_path / "keys", "dev", ["finance"], (), "licet.local", now_ms=NOW_MS)
    return tmp_path / "keys"


def test_good_keys_are_fine(keys: Path) -> None:
    assert check_keys(told(keys_dir=keys), now_ms=NOW_MS).state is State.OK


def test_a_key_that_others_may_read_is_named(keys: Path) -> None:
    (keys / "decider.key").chmod(0o644)
    found = check_keys(told(keys_dir=keys), now_ms=NOW_MS)
    assert found.state is State.PROBLEM
    assert "decider.key" in found.says


def test_a_key_of_another_key_set_is_named(keys: Path) -> None:
    shutil.copyfile(keys / "beacon.key", keys / "decider.key")
    found = check_keys(told(keys_dir=keys), now_ms=NOW_MS)
    assert "is not the private half of key `decider`" in found.says


def test_a_key_set_of_another_environment_is_named(keys: Path) -> None:
    assert check_keys(told(keys_dir=keys, environment="prod"), now_ms=NOW_MS).state is State.PROBLEM


@pytest.mark.parametrize(
    ("later_days", "said"), [(3_640, "ends within 30 days"), (3_660, "outside its validity")]
)
def test_a_key_near_or_past_its_end_is_named(keys: Path, later_days: int, said: str) -> None:
    found = check_keys(told(keys_dir=keys), now_ms=NOW_MS + later_days * 86_400_000)
    assert said in found.says


def test_a_key_file_that_is_not_mounted_is_named(keys: Path) -> None:
    found = check_keys(told(spend_key_file=keys / "spend-crm.key"), now_ms=NOW_MS)
    assert found.state is State.PROBLEM
    assert "spend-crm.key" in found.says


# --- certificates ---


def certificate(authority: Authority, *uris: str, **life: Any) -> dict[str, Path]:
    made, key = authority.issue("one", *uris, **life)
    return {"tls_certificate_file": made, "tls_key_file": key, "tls_ca_file": authority.file}


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "ca")


def test_a_good_certificate_is_fine(authority: Authority) -> None:
    found = check_certificates(told(**certificate(authority, ID)))
    assert found.state is State.OK
    assert ID in found.says


@pytest.mark.parametrize("uris", [(), (ID, f"{ID}2"), ("https://example.org/",)])
def test_a_certificate_without_exactly_one_spiffe_id_is_named(
    authority: Authority, uris: tuple[str, ...]
) -> None:
    found = check_certificates(told(**certificate(authority, *uris, dns=("licet",))))
    assert "not one SPIFFE id" in found.says


def test_a_certificate_of_another_authority_is_named(authority: Authority, tmp_path: Path) -> None:
    files = certificate(authority, ID) | {"tls_ca_file": Authority(tmp_path / "other").file}
    assert check_certificates(told(**files)).state is State.PROBLEM


def test_a_key_that_is_not_the_certificates_is_named(authority: Authority) -> None:
    files = certificate(authority, ID)
    _, other = authority.issue("two", ID)
    assert check_certificates(told(**files | {"tls_key_file": other})).state is State.PROBLEM


def test_an_expired_certificate_is_named(authority: Authority) -> None:
    import datetime as dt

    past = dt.datetime.now(dt.UTC) - DAY
    files = certificate(authority, ID, not_before=past - DAY, not_after=past)
    assert check_certificates(told(**files)).state is State.PROBLEM


def test_a_certificate_that_ends_within_the_hour_is_named(authority: Authority) -> None:
    import time

    found = check_certificates(told(**certificate(authority, ID)), now_s=time.time() + 86_400 - 600)
    assert "ends in" in found.says


# --- the tool's socket, and ways past it ---


@pytest.fixture
def tool() -> Iterator[Path]:
    """A process of its own that listens on a Unix socket: this one."""
    directory = Path(tempfile.mkdtemp(prefix="d"))
    directory.chmod(0o755)
    path = directory / "tool.sock"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        path.chmod(0o660)
        server.listen()
        accepting = threading.Thread(target=accept, args=(server,), daemon=True)
        accepting.start()
        yield path
        server.shutdown(socket.SHUT_RDWR)
        accepting.join(60)
    shutil.rmtree(directory)


def accept(server: socket.socket) -> None:
    while True:
        try:
            connection, _ = server.accept()
        except OSError:
            return
        connection.close()


def test_a_socket_for_the_group_alone_is_fine(tool: Path) -> None:
    assert check_socket(told(tool_socket=tool)).state is State.OK


def test_a_socket_that_is_not_there_is_named(tool: Path) -> None:
    assert check_socket(told(tool_socket=tool.with_name("other.sock"))).state is State.PROBLEM


def test_a_file_in_its_place_is_named(tool: Path) -> None:
    tool.with_name("file").touch()
    assert "is no socket" in check_socket(told(tool_socket=tool.with_name("file"))).says


def test_a_socket_that_everybody_may_use_is_named(tool: Path) -> None:
    tool.chmod(0o666)
    assert "open to others" in check_socket(told(tool_socket=tool)).says
    tool.parent.chmod(0o750)  # now nobody else gets to it
    assert check_socket(told(tool_socket=tool)).state is State.OK


def test_a_tool_that_listens_on_tcp_beside_its_socket_is_named(tool: Path) -> None:
    before = check_another_way(told(tool_socket=tool))
    with socket.create_server(("127.0.0.1", 0)) as past:
        found = check_another_way(told(tool_socket=tool))
        assert found.state is State.PROBLEM
        assert str(past.getsockname()[1]) in found.says
    assert before.state is State.OK, before.says


def test_in_a_pod_every_port_counts_but_the_doors_own(tmp_path: Path) -> None:
    """The tool's process is in another namespace there: the kernel gives 0 for it."""
    (tmp_path / "self" / "net").mkdir(parents=True)
    head = (
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
    )
    row = "   0: 0100007F:{port:04X} 00000000:0000 0A 00000000:00000000 00:00000000 00000000  0  0 {port} 1\n"
    table = tmp_path / "self" / "net" / "tcp"
    own = told(listen="10.0.0.1:8443", health_listen="10.0.0.1:8081", metrics_listen="").own_ports
    table.write_text(head + row.format(port=8443) + row.format(port=8081))
    assert other_ports(0, own, tmp_path) == set()
    table.write_text(head + row.format(port=8443) + row.format(port=50_051))
    assert other_ports(0, own, tmp_path) == {50_051}


# --- spool ---


def test_a_spool_with_room_is_fine(tmp_path: Path) -> None:
    assert check_spool(told(spool_dir=tmp_path / "not-yet")).state is State.OK


def test_a_spool_on_a_volume_that_is_not_mounted_is_named(tmp_path: Path) -> None:
    assert check_spool(told(spool_dir=tmp_path / "away" / "spool")).state is State.PROBLEM


def test_a_spool_on_a_full_disk_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is moved past what this disk has, since no test may fill it."""
    free = shutil.disk_usage(tmp_path).free
    monkeypatch.setattr("licet.doctor.files.LEAST_FREE_BYTES", free * 2)
    found = check_spool(told(spool_dir=tmp_path))
    assert (found.state, "MiB left" in found.says) == (State.PROBLEM, True)
    monkeypatch.setattr("licet.doctor.files.LEAST_FREE_BYTES", 0)
    assert check_spool(told(spool_dir=tmp_path)).state is State.OK


# --- beacon and clock ---


def beacon(issued_at_ms: int, *, store_safe: bool = True) -> beacon_pb2.Beacon:
    return beacon_pb2.Beacon(issued_at_ms=issued_at_ms, store_safe=store_safe, bundle_version=1, generation=1)


def test_fresh_beacons_are_fine() -> None:
    found = judge_beacon(beacon(NOW_MS - 2_000), beacon(NOW_MS - 500), now_ms=NOW_MS)
    assert [one.state for one in found] == [State.OK, State.OK]


def test_a_decider_that_signs_no_new_beacon_is_named_and_no_clock_is_blamed() -> None:
    found = judge_beacon(beacon(NOW_MS - 9_000), beacon(NOW_MS - 9_000), now_ms=NOW_MS)
    assert [one.state for one in found] == [State.PROBLEM, State.SKIPPED]


@pytest.mark.parametrize(("off_ms", "side"), [(-3_000, "behind"), (20_000, "ahead")])
def test_a_clock_that_is_off_is_named_and_no_beacon_is_blamed(off_ms: int, side: str) -> None:
    ours = NOW_MS + off_ms
    found = judge_beacon(beacon(NOW_MS - 2_000), beacon(NOW_MS - 500), now_ms=ours)
    assert [one.state for one in found] == [State.OK, State.PROBLEM]
    assert side in found[1].says


def test_an_unsafe_store_is_named() -> None:
    found = judge_beacon(beacon(NOW_MS - 2_000), beacon(NOW_MS - 500, store_safe=False), now_ms=NOW_MS)
    assert [one.state for one in found] == [State.PROBLEM, State.OK]


@pytest.mark.parametrize(
    ("ours", "state"), [(1, State.PROBLEM), (2, State.OK), (3, State.PROBLEM), (0, State.OK)]
)
def test_a_door_of_another_generation_is_named(ours: int, state: State) -> None:
    """All was said to be well while the door refused every call."""
    now, then = beacon(NOW_MS - 500), beacon(NOW_MS - 2_000)
    now.generation = 2
    found, clock = judge_beacon(then, now, now_ms=NOW_MS, generation=ours)
    assert (found.state, clock.state) == (state, State.OK)
    assert state is State.OK or f"of {ours}" in found.says


def test_nothing_told_means_nothing_looked_at(tmp_path: Path) -> None:
    checks = (check_keys(told(), now_ms=NOW_MS), check_certificates(told()), check_socket(told()))
    assert {one.state for one in (*checks, check_spool(told()), check_another_way(told()))} == {State.SKIPPED}
