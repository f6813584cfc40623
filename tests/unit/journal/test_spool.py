"""Records survive whatever happens to the end of a file, and nothing else is taken for a record."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from licet.journal import Spool, SpoolBroken
from licet.journal import spool as spool_module
from licet.journal.spool import MAX_RECORD_BYTES


def everything(spool: Spool) -> list[bytes]:
    found, position = [], spool.done
    while records := list(spool.read(position)):
        found += [record for _, record in records]
        position = records[-1][0]
    return found


def close(spool: Spool) -> None:
    spool.close()


def sync(spool: Spool) -> None:
    spool.sync(spool.unsynced())


def test_records_come_back_in_order_after_a_restart(tmp_path: Path) -> None:
    spool = Spool.open(tmp_path)
    records = [b"", b"a", b"b" * 70_000, b"c"]
    for record in records:
        spool.append(record)
    assert everything(spool) == records
    close(spool)
    again = Spool.open(tmp_path)
    assert everything(again) == records
    assert again.recovery.records == 4
    close(again)


def test_what_is_done_does_not_come_back(tmp_path: Path) -> None:
    spool = Spool.open(tmp_path)
    positions = [spool.append(b"%d" % number) for number in range(10)]
    spool.finish(positions[6])
    assert everything(spool) == [b"7", b"8", b"9"]
    sync(spool)  # no close: a kill
    spool._lock.close()
    again = Spool.open(tmp_path)
    assert everything(again) == [b"7", b"8", b"9"]
    close(again)


def test_segments_that_are_done_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool_module, "SEGMENT_BYTES", 1_000)
    spool = Spool.open(tmp_path)
    positions = [spool.append(b"x" * 100) for _ in range(100)]
    assert len(list(tmp_path.glob("*.seg"))) == 10
    spool.finish(positions[49])
    assert len(list(tmp_path.glob("*.seg"))) == 5
    assert len(everything(spool)) == 50
    spool.finish(positions[-1])
    close(spool)
    assert list(tmp_path.glob("*.seg")) == []
    again = Spool.open(tmp_path)
    assert again.append(b"y") > positions[-1]
    close(again)


def test_a_new_segment_waits_for_no_disk_until_somebody_syncs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The event loop appends: a disk that hangs must not hang it, also when a segment is full."""
    monkeypatch.setattr(spool_module, "SEGMENT_BYTES", 100)
    spool = Spool.open(tmp_path)
    sync(spool)
    synced: list[str] = []
    for name in ("fsync", "fdatasync"):
        real = getattr(os, name)

        def note(file: int, name: str = name, real: Callable[[int], None] = real) -> None:
            synced.append(name)
            real(file)

        monkeypatch.setattr(spool_module.os, name, note)
    for _ in range(2):
        spool.append(b"x" * 100)
    assert synced == []
    sync(spool)
    assert synced == ["fsync", "fdatasync", "fdatasync"]  # the new one's name, the full one, the new one
    sync(spool)
    assert synced[3:] == ["fdatasync"]
    close(spool)


def test_a_second_process_is_refused(tmp_path: Path) -> None:
    spool = Spool.open(tmp_path)
    with pytest.raises(SpoolBroken, match="another process"):
        Spool.open(tmp_path)
    close(spool)
    close(Spool.open(tmp_path))


def test_files_are_for_their_owner_alone(tmp_path: Path) -> None:
    directory = tmp_path / "spool"
    spool = Spool.open(directory)
    spool.append(b"x")
    assert directory.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o077 for path in directory.glob("*.seg")} == {0}
    close(spool)


def test_the_largest_record_fits_and_one_more_byte_does_not(tmp_path: Path) -> None:
    spool = Spool.open(tmp_path)
    spool.append(b"x" * MAX_RECORD_BYTES)
    assert len(everything(spool)[0]) == MAX_RECORD_BYTES
    with pytest.raises(ValueError, match="larger"):
        spool.append(b"x" * (MAX_RECORD_BYTES + 1))
    close(spool)


@pytest.mark.parametrize("cut", [1, 3, 7, 8, 12])
def test_a_torn_record_at_the_end_is_cut_off_and_told(tmp_path: Path, cut: int) -> None:
    spool = Spool.open(tmp_path)
    for record in (b"one", b"two", b"three"):
        spool.append(record)
    close(spool)
    path = next(tmp_path.glob("*.seg"))
    os.truncate(path, path.stat().st_size - cut)
    again = Spool.open(tmp_path)
    assert everything(again) == [b"one", b"two"]
    assert again.recovery.torn_bytes == 13 - cut
    again.append(b"four")
    assert everything(again) == [b"one", b"two", b"four"]
    close(again)


def test_damage_in_the_middle_is_set_aside_and_what_follows_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spool_module, "SEGMENT_BYTES", 30)
    spool = Spool.open(tmp_path)
    for number in range(6):
        spool.append(b"record-%d" % number)
    close(spool)
    first = min(tmp_path.glob("*.seg"))
    content = bytearray(first.read_bytes())
    content[20] ^= 1
    first.write_bytes(content)
    again = Spool.open(tmp_path)
    assert everything(again) == [b"record-0", b"record-2", b"record-3", b"record-4", b"record-5"]
    assert again.recovery.damaged == (first.name,)
    assert first.with_suffix(".damaged").exists()
    close(again)


def test_a_disk_that_is_full_leaves_no_half_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = Spool.open(tmp_path)
    spool.append(b"one")
    write = os.write
    monkeypatch.setattr(spool_module.os, "write", lambda fd, data: write(fd, data[:5]))
    with pytest.raises(SpoolBroken, match="full"):
        spool.append(b"two")
    monkeypatch.undo()
    spool.append(b"three")
    assert everything(spool) == [b"one", b"three"]
    close(spool)


@settings(max_examples=60, deadline=None)
@given(
    records=st.lists(st.binary(max_size=200), min_size=1, max_size=12),
    keep=st.integers(0, 3_000),
    flip=st.integers(0, 3_000),
    done=st.integers(0, 12),
)
def test_after_any_cut_or_flip_a_prefix_comes_back_and_never_anything_else(
    tmp_path_factory: pytest.TempPathFactory, records: list[bytes], keep: int, flip: int, done: int
) -> None:
    directory = tmp_path_factory.mktemp("spool")
    spool = Spool.open(directory)
    positions = [spool.append(record) for record in records]
    if done:
        spool.finish(positions[min(done, len(positions)) - 1])
    finished = min(done, len(positions))
    sync(spool)
    spool._lock.close()
    path = next(directory.glob("*.seg"))
    content = bytearray(path.read_bytes()[:keep])
    if flip < len(content):
        content[flip] ^= 0x10
    path.write_bytes(content)
    again = Spool.open(directory)
    found = everything(again)
    assert found == records[finished : finished + len(found)]
    intact = sum(position <= min(keep, flip) for position in positions)
    assert len(found) >= intact - finished
    close(again)
