from __future__ import annotations

import errno
import os
import re
from pathlib import Path
from typing import BinaryIO

import pytest

from kvlab.errors import OutputError
from kvlab.files import new_directory, write_file, write_files


def hello(stream: BinaryIO) -> None:
    stream.write(b"hello")


def disk_full(stream: BinaryIO) -> None:
    stream.write(b"half of it")
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_file_is_written_whole_with_the_usual_permissions(tmp_path: Path) -> None:
    path = write_file(tmp_path / "a.txt", hello)
    (tmp_path / "plain").write_bytes(b"")
    assert path.read_bytes() == b"hello"
    assert path.stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_full_disk_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"old")
    with pytest.raises(OutputError, match=re.escape(f"{path}: can't be written: No space left on device")):
        write_file(path, disk_full)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_several_files_appear_together_or_not_at_all(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="No space left"):
        write_files({tmp_path / "a": hello, tmp_path / "b": disk_full, tmp_path / "c": hello})
    assert os.listdir(tmp_path) == []
    write_files({tmp_path / "a": hello, tmp_path / "b": hello})
    assert sorted(os.listdir(tmp_path)) == ["a", "b"]


def test_an_interrupt_leaves_nothing_half_written(tmp_path: Path) -> None:
    def interrupted(stream: BinaryIO) -> None:
        stream.write(b"half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_file(tmp_path / "a", interrupted)
    assert os.listdir(tmp_path) == []


def test_a_full_device_is_reported() -> None:
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    with pytest.raises(OutputError, match="/dev/full: can't be written: No space left on device"):
        write_file(Path("/dev/full"), hello)
    assert Path("/dev/full").is_char_device(), "it was written to, not replaced"


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(b"old")
    (tmp_path / "target").chmod(0o640)
    (tmp_path / "link").symlink_to("target")
    write_file(tmp_path / "link", hello)
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_bytes() == b"hello"
    assert (tmp_path / "target").stat().st_mode & 0o777 == 0o640


def test_a_directory_where_a_file_is_wanted(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="a directory stands there; name a file"):
        write_file(tmp_path, hello)


def test_a_missing_folder_and_one_that_is_a_file(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="No such file or directory"):
        write_file(tmp_path / "no" / "a", hello)
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(OutputError, match="Not a directory"):
        write_file(tmp_path / "file" / "a", hello)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission(tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    try:
        with pytest.raises(OutputError, match="Permission denied"):
            write_file(tmp_path / "a", hello)
    finally:
        tmp_path.chmod(0o755)


def test_a_refused_rename_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(OutputError, match="Permission denied"):
        write_file(tmp_path / "a", hello)
    assert os.listdir(tmp_path) == []


def test_a_new_directory_goes_again_when_its_files_fail(tmp_path: Path) -> None:
    with pytest.raises(OutputError), new_directory(tmp_path / "x" / "y"):
        write_file(tmp_path / "x" / "y" / "a", disk_full)
    assert os.listdir(tmp_path) == []
    with new_directory(tmp_path / "x" / "y"):
        write_file(tmp_path / "x" / "y" / "a", hello)
    assert (tmp_path / "x" / "y" / "a").read_bytes() == b"hello"


def test_a_directory_that_was_there_stays(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    with pytest.raises(OutputError), new_directory(tmp_path / "kept"):
        write_file(tmp_path / "kept" / "a", disk_full)
    assert (tmp_path / "kept").is_dir()


def test_a_file_where_a_directory_is_wanted(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(OutputError, match="a file stands there; name a directory"), new_directory(tmp_path / "file"):
        pass
    with pytest.raises(OutputError, match="Not a directory"), new_directory(tmp_path / "file" / "deeper"):
        pass
