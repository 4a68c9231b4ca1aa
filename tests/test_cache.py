"""What is expensive to make is kept whole, checked, and nobody else's."""

import errno
import logging
import os
import shutil
from multiprocessing import get_context

import pytest

from sbnn_hw.cache import cache_folder, keep_log, make_once
from sbnn_hw.errors import OutputRefused


def test_cache_is_where_the_environment_says(tmp_path, monkeypatch):
    monkeypatch.setenv("SBNN_CACHE", str(tmp_path / "a"))
    assert cache_folder() == tmp_path / "a"
    monkeypatch.delenv("SBNN_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "b"))
    assert cache_folder() == tmp_path / "b" / "sbnn-hw"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "c"))
    assert cache_folder() == tmp_path / "c" / ".cache" / "sbnn-hw"


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache."""
    monkeypatch.setenv("SBNN_CACHE", str(tmp_path))
    return tmp_path


def test_folder_is_made_once_and_whole(cache):
    def fail(folder):
        (folder / "half").touch()
        raise RuntimeError("half-way")

    with pytest.raises(RuntimeError, match="half-way"):
        make_once("thing", fail)
    assert not (cache / "thing").exists()
    made = make_once("thing", lambda folder: (folder / "whole").touch())
    assert (made / "whole").exists()
    assert make_once("thing", fail) == made


def test_half_written_folder_is_made_again_and_leftovers_go(cache):
    (cache / "thing").mkdir()
    (cache / "thing" / "half").touch()
    (cache / ".thing.x.part").mkdir()
    made = make_once("thing", lambda folder: (folder / "whole").touch())
    assert not (made / "half").exists()
    assert not (cache / ".thing.x.part").exists()


def make_and_note(notes):
    def make(folder):
        with (notes / str(os.getpid())).open("x"):
            (folder / "whole").touch()

    make_once("thing", make)


def test_of_two_processes_one_makes_it(cache, tmp_path_factory):
    notes = tmp_path_factory.mktemp("notes")
    spawn = get_context("spawn")
    workers = [spawn.Process(target=make_and_note, args=(notes,)) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    assert len(list(notes.iterdir())) == 1


# What was damaged


def fill(folder):
    (folder / "sub").mkdir()
    (folder / "sub" / "program").write_text("whole")
    (folder / "other").write_text("whole")


def truncate(folder):
    os.truncate(folder / "sub" / "program", 2)


def empty(folder):
    os.truncate(folder / "sub" / "program", 0)


def remove(folder):
    (folder / "sub" / "program").unlink()


def add(folder):
    (folder / "sub" / "foreign").write_text("")


def link(folder):
    (folder / "other").unlink()
    (folder / "other").symlink_to("sub/program")


@pytest.mark.parametrize("damage", [truncate, empty, remove, add, link])
def test_what_was_damaged_is_made_again(cache, caplog, damage):
    made = make_once("things/one", fill)
    assert make_once("things/one", pytest.fail) == made
    damage(made)
    assert make_once("things/one", fill) == made
    assert (made / "sub" / "program").read_text() == (made / "other").read_text() == "whole"
    assert not (made / "sub" / "foreign").exists()
    assert [record.getMessage() for record in caplog.records] == [
        f"{made} in the cache was damaged and is made again"
    ]


def test_change_of_the_same_length_is_seen(cache):
    made = make_once("thing", fill)
    known = (made / "other").stat()
    (made / "other").write_text("wHole")
    os.utime(made / "other", ns=(known.st_atime_ns, known.st_mtime_ns))
    make_once("thing", fill)
    assert (made / "other").read_text() == "whole"


def test_folder_of_an_older_release_is_made_again_without_a_word(cache, caplog):
    (cache / "thing").mkdir(0o700)
    fill(cache / "thing")
    (cache / "thing" / ".complete").touch()
    (cache / "thing" / "other").write_text("old")
    assert (make_once("thing", fill) / "other").read_text() == "whole"
    assert not caplog.records


# What is someone else's


def test_folders_are_for_the_user_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("SBNN_CACHE", str(tmp_path / "not" / "there"))
    before = os.umask(0o002)
    try:
        made = make_once("things/one", fill)
        log = keep_log("tool.log", "said")
    finally:
        os.umask(before)
    folders = (made, made.parent, cache_folder(), log.parent)
    assert [folder.stat().st_mode & 0o777 for folder in folders] == [0o700] * 4
    assert make_once("things/one", pytest.fail) == made


def test_a_log_may_come_first(tmp_path, monkeypatch):
    monkeypatch.setenv("SBNN_CACHE", str(tmp_path / "cache"))
    before = os.umask(0o002)
    try:
        assert keep_log("tool.log", "said").read_text() == "said"
    finally:
        os.umask(before)
    make_once("thing", fill)


@pytest.mark.parametrize("name", ["", "things", "things/one"])
@pytest.mark.parametrize("mode", [0o770, 0o707])
def test_folder_that_others_can_write_is_refused(cache, name, mode):
    make_once("things/one", fill)
    (cache / name).chmod(mode)
    with pytest.raises(OutputRefused) as raised:
        make_once("things/one", fill)
    assert str(raised.value) == (
        f"Other users can write to {cache / name}, and programs in it would be run: use `chmod -R "
        f"go-w {cache}`, or point $SBNN_CACHE at your own folder"
    )
    assert keep_log("tool.log", "said") is None or name


def test_folder_of_another_user_is_refused(cache, monkeypatch):
    make_once("things/one", fill)
    monkeypatch.setattr(os, "geteuid", lambda: cache.stat().st_uid + 1)
    with pytest.raises(OutputRefused) as raised:
        make_once("things/one", fill)
    assert str(raised.value) == (
        f"{cache} belongs to another user, and programs in it would be run: point $SBNN_CACHE at "
        f"your own folder"
    )


# Where there is no room


def no_room(folder):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder / "file"))


def no_room_to_copy(folder):
    why = f"[Errno 28] {os.strerror(errno.ENOSPC)}: '{folder}/file'"
    raise shutil.Error([("from", "to", why)] * 100)


@pytest.mark.parametrize("make", [no_room, no_room_to_copy])
def test_full_disk_is_one_sentence(cache, make):
    with pytest.raises(OutputRefused) as raised:
        make_once("things/one", make)
    assert str(raised.value) == (
        f"There is no space left for the cache {cache}: make room, or point $SBNN_CACHE at a "
        "folder on another disk"
    )
    assert not list((cache / "things").glob(".one.*.part"))


def test_cache_that_cannot_be_made_is_one_sentence(cache, monkeypatch):
    (cache / "file").touch(0o600)
    monkeypatch.setenv("SBNN_CACHE", str(cache / "file"))
    with pytest.raises(OutputRefused) as raised:
        make_once("things/one", fill)
    assert str(raised.value) == (
        f"Cannot write the cache {cache / 'file'} (Not a directory): point $SBNN_CACHE at another "
        "folder"
    )


@pytest.fixture(autouse=True)
def _heard(monkeypatch):
    """Let records reach pytest, also after a command has turned that off."""
    monkeypatch.setattr(logging.getLogger("sbnn_hw"), "propagate", True)
