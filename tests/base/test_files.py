"""Files that take the place of others."""

import errno
import os
import stat
import subprocess
import sys
from unittest.mock import Mock

import pytest

from hardsplat.base import files
from hardsplat.base.errors import UserError
from hardsplat.base.files import check_free, remove_abandoned, replacing, replacing_folder, written
from tests.helpers.tables import refuses


def test_the_longest_names_are_written(tmp_path):
    for name in ("x" * 255, "ü" * 127):
        with replacing(tmp_path / name) as partial:
            partial.write_text(name)
    assert {path.name for path in tmp_path.iterdir()} == {"x" * 255, "ü" * 127}


def test_the_old_file_stays_until_the_new_one_is_whole(tmp_path):
    path = tmp_path / "new" / "folder" / "file"
    for text in ("one", "two"):
        before = path.read_text() if path.exists() else None
        with replacing(path) as partial:
            partial.write_text(text)
            assert (path.read_text() if path.exists() else None) == before
        assert path.read_text() == text
    with pytest.raises(KeyboardInterrupt), replacing(path) as partial:
        partial.write_text("half")
        raise KeyboardInterrupt
    assert path.read_text() == "two" and list(path.parent.iterdir()) == [path]


def test_a_name_appears_only_after_its_bytes_are_on_the_disk(tmp_path, monkeypatch):
    """The order that a power loss cannot turn round: bytes, name, folder."""
    done, fsync, replace = [], os.fsync, os.replace

    def synced(descriptor):
        status = os.fstat(descriptor)
        done.append("folder" if stat.S_ISDIR(status.st_mode) else f"{status.st_size} bytes")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", lambda *names: (done.append("name"), replace(*names)))
    with replacing(tmp_path / "file") as partial:
        partial.write_bytes(b"12345")
    assert done == ["5 bytes", "name", "folder"]
    done.clear()
    with replacing(tmp_path / "picture", durable=False) as partial:
        partial.write_bytes(b"1")
    assert done == ["name"]


def test_a_disk_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "file"
    path.write_text("old")
    monkeypatch.setattr(os, "fsync", Mock(side_effect=OSError(errno.EIO, "Input/output error")))
    with pytest.raises(OSError, match="Input/output error"), replacing(path) as partial:
        partial.write_text("new")
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]


def test_what_a_killed_process_did_not_finish_goes(tmp_path):
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    alive = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        (tmp_path / "ckpts").mkdir()
        gone = tmp_path / "ckpts" / f"ckpt_5.npz.{dead.pid}.part"
        earlier = tmp_path / f"splats.ply.{os.getpid()}.part"  # with our number, before us
        kept = [tmp_path / f"splats.ply.{alive.pid}.part"]
        kept += [tmp_path / name for name in ("own.part", f"a.{dead.pid}.part.txt", ".part")]
        for path in (gone, earlier, *kept):
            path.write_text("half")
        with replacing(tmp_path / "new") as partial:
            partial.write_text("whole")
            remove_abandoned(tmp_path)
        assert (tmp_path / "new").read_text() == "whole"
        assert not gone.exists() and not earlier.exists() and all(p.exists() for p in kept)
    finally:
        alive.communicate(b"\n")


def test_what_a_killed_process_left_goes_when_the_same_is_written_again(tmp_path):
    """Files and folders of that name alone, whose process is gone."""
    kill = (
        "import os, pathlib, sys\n"
        "from hardsplat.base.files import replacing, replacing_folder\n"
        "with replacing(pathlib.Path('a[1].ply')) as a, "
        "replacing_folder(pathlib.Path('lod')) as b:\n"
        "    a.write_text('half'), (b / '0_0').mkdir(), os.kill(os.getpid(), 9)\n"
    )
    for _ in range(2):
        assert subprocess.run([sys.executable, "-c", kill], cwd=tmp_path).returncode < 0
        assert len(list(tmp_path.glob("a*.part"))) == len(list(tmp_path.glob("lod*.part"))) == 1
    (tmp_path / "lod.ply.1.part").touch()  # of another file
    (tmp_path / "lod").mkdir()
    (tmp_path / "lod" / "old").touch()
    with replacing(tmp_path / "a[1].ply") as file, replacing_folder(tmp_path / "lod") as folder:
        file.write_text("whole")
        (folder / "new").touch()
        assert (tmp_path / "lod" / "old").exists()
    assert (tmp_path / "a[1].ply").read_text() == "whole"
    assert [path.name for path in (tmp_path / "lod").iterdir()] == ["new"]
    names = {"a[1].ply", "lod", "lod.ply.1.part"}
    assert {path.name for path in tmp_path.iterdir()} == names
    with pytest.raises(ZeroDivisionError), replacing_folder(tmp_path / "lod") as folder:
        (folder / "third").write_text(str(1 / 0))
    assert {path.name for path in tmp_path.iterdir()} == names
    assert [path.name for path in (tmp_path / "lod").iterdir()] == ["new"]


def test_a_process_of_its_own_syncs_files(tmp_path, monkeypatch):
    """It is not waited for, and does not mind a file that is gone."""
    started = []  # and what starts it is given nothing that it could wait for
    monkeypatch.setattr(subprocess, "Popen", lambda *a, **how: started.append((*a, how)))
    (tmp_path / "a file").write_bytes(b"1")
    files.sync_later(tmp_path / "gone", tmp_path / "a file", tmp_path)
    monkeypatch.undo()
    ((command, how),) = started
    subprocess.run(command, check=True, timeout=60, **how)


def test_files_that_cannot_be_made(tmp_path, monkeypatch):
    (tmp_path / "a").write_text("")
    words = f"cannot write {tmp_path / 'a/b/c'}: {tmp_path / 'a'} is a file, not a folder"
    with pytest.raises(UserError) as caught, written(path := tmp_path / "a/b/c"):
        with replacing(path):
            raise AssertionError("not reached")
    assert str(caught.value) == words
    monkeypatch.setattr(os, "access", lambda *_: False)
    refuses("cannot write .*/d: no files can be made in", check_free, tmp_path / "d", True)
