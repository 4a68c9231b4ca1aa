"""Files: what is none is never waited for; what could not be written leaves the old one whole."""

import os
import resource
import socket
from contextlib import contextmanager

import pytest

from sbnn_hw import netlist
from sbnn_hw.errors import ModelRejected, OutputRefused
from sbnn_hw.files import check_writable, open_file, write_atomically
from sbnn_hw.models import open_network

LONG = "a" * 5000


@contextmanager
def disk_of(size):
    """Let no file grow larger, as a full disk would not; no rights are needed for it."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.timeout(60)  # waiting for a pipe must fail, not stop the suite
@pytest.mark.parametrize("ending", [".pt", ".sbnn", ".json", ".onnx"])
def test_what_is_no_file_is_refused_and_not_waited_for(tmp_path, ending):
    if ending == ".onnx":
        pytest.importorskip("onnx", reason="needs onnx (pip install 'sbnn-hw[qonnx]')")
    pipe, folder, device = (tmp_path / f"{name}{ending}" for name in ("pipe", "folder", "device"))
    os.mkfifo(pipe)
    folder.mkdir()
    device.symlink_to("/dev/zero")
    for path in (pipe, device):
        with pytest.raises(ModelRejected, match=r": It is a pipe or a device, not a file$"):
            open_network(path)
    with pytest.raises(
        ModelRejected, match=r"^\S+ is a folder; name (an ONNX file|a [\w ]+) in it$"
    ):
        open_network(folder)


def test_a_socket_is_no_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # names of sockets are short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("a.sbnn")
        with pytest.raises(ModelRejected, match=r"^Cannot read a\.sbnn: "):
            netlist.load("a.sbnn")


@pytest.mark.parametrize("ending", [".pt", ".sbnn", ".json", ".onnx"])
@pytest.mark.parametrize("name", [LONG, "a\0b", "a\ud800b"])
def test_names_that_no_file_can_have_are_one_sentence(tmp_path, name, ending):
    if ending == ".onnx":
        pytest.importorskip("onnx", reason="needs onnx (pip install 'sbnn-hw[qonnx]')")
    reason = "File name too long" if name is LONG else "Not a valid file name"
    with pytest.raises(ModelRejected, match=rf"^Cannot read .{{1,90}}: {reason}$"):
        open_network(name + ending)
    for refused in (check_writable, lambda path: write_atomically(path, lambda file: None)):
        with pytest.raises(OutputRefused, match=rf"^Cannot write .{{1,200}}: {reason}$"):
            refused(tmp_path / (name + ending))
    assert not list(tmp_path.iterdir())


def test_a_file_that_is_opened_is_read(tmp_path):
    (tmp_path / "a").write_bytes(b"abc")
    for path in (tmp_path / "a", str(tmp_path / "a")):
        with open_file(path) as file:
            assert file.read() == b"abc"
    with pytest.raises(FileNotFoundError):
        open_file(tmp_path / "b")


def test_a_full_disk_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "a"
    write_atomically(str(path), lambda file: file.write(b"old"))
    with disk_of(4096), pytest.raises(OutputRefused, match=r"^Cannot write \S+/a: File too large$"):
        write_atomically(path, lambda file: file.write(bytes(10_000)))
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["a"]


def test_a_new_file_has_the_rights_of_any_other(tmp_path):
    write_atomically(tmp_path / "a", lambda file: file.write(b"a"))
    (tmp_path / "b").write_bytes(b"b")
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "b").stat().st_mode
