"""The C driver, compiled and called from Python, with a line that is Python's."""

import ctypes
import os
import shutil
import subprocess
from ctypes import POINTER, c_char, c_int, c_int32, c_long, c_size_t, c_uint8, c_uint16, c_uint32

import numpy as np
import pytest
from conftest import ROOT

HOST = ROOT / "boards/host"
STRICT = ("-Wall", "-Wextra", "-Werror", "-pedantic")
C99 = ("-std=c99", *STRICT)
SANITIZED = (*C99, "-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")

OK, PORT, NO_ANSWER, SILENT, NEVER_QUIET, NO_BOARD, VERSION = 0, -1, -2, -3, -4, -5, -6
NETWORK, GEOMETRY, ANSWER, ROOM, VALUE, SCORES, REFUSED = -7, -8, -9, -10, -11, -12, -256
FIXED, SHAPE, PROGRAM, LOAD = -16, -17, -18, -19


def compile_c(out, *arguments, compiler=None):
    """Call the C compiler, which says nothing."""
    compiler = compiler or os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    done = subprocess.run(
        [compiler, *map(str, arguments), "-o", str(out)], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    return out


class Model(ctypes.Structure):
    _fields_ = (
        ("network", c_uint8 * 32),
        *((name, c_uint32) for name in ("height", "width", "channels")),
        *((name, c_uint8) for name in ("value_bits", "index_bits", "score_bits")),
        ("classes", c_uint16),
    )


Write = ctypes.CFUNCTYPE(c_int, ctypes.c_void_p, POINTER(c_uint8), c_size_t, c_int)
Read = ctypes.CFUNCTYPE(c_long, ctypes.c_void_p, POINTER(c_uint8), c_size_t, c_uint32)


class PortFields(ctypes.Structure):
    _fields_ = (("context", ctypes.c_void_p), ("write", Write), ("read", Read))


class BoardFields(ctypes.Structure):
    _fields_ = (
        *((name, c_uint32) for name in ("timeout_ms", "tries", "baud")),
        ("model", Model),
        *((name, c_uint32) for name in ("clock_hz", "clocks_per_bit")),
        ("made_by", c_char * 17),
        ("shape", c_uint8 * 8),
        ("program_bytes", c_uint32),
        ("loaded", c_int),
        *((name, c_uint32) for name in ("image_bytes", "result_bytes", "batch")),
        *((name, c_uint32) for name in ("retries", "failed")),
        ("port", PortFields),
        ("buffer", ctypes.c_void_p),
        *((name, c_size_t) for name in ("room", "begin", "end")),
        ("number", c_uint16),
    )


class Counters(ctypes.Structure):
    _fields_ = tuple((name, c_uint32) for name in ("images", "busy_cycles", "errors"))


def load_driver(folder, edit=()):
    """Compile the driver to a library; ``edit`` plants faults in its text."""
    text = (HOST / "sbnn.c").read_text()
    for old, new in edit:
        assert old in text
        text = text.replace(old, new)
    (folder / "sbnn.c").write_text(text)
    path = compile_c(
        folder / "sbnn.so", *C99, "-O1", "-shared", "-fPIC", f"-I{HOST}", folder / "sbnn.c"
    )
    library = ctypes.CDLL(str(path))
    library.sbnn_init.argtypes = (POINTER(BoardFields), PortFields, ctypes.c_void_p, c_size_t)
    library.sbnn_init.restype = None
    library.sbnn_classify.argtypes = (
        *(POINTER(BoardFields), ctypes.c_void_p, c_size_t, c_size_t),
        *(POINTER(c_int32), POINTER(c_int32), c_size_t),
    )
    library.sbnn_load.argtypes = (POINTER(BoardFields), ctypes.c_char_p, c_size_t)
    library.sbnn_check.argtypes = (POINTER(BoardFields), POINTER(Model))
    library.sbnn_error_text.restype = ctypes.c_char_p
    return library


class Board:
    """A board behind the C driver; ``port`` writes and reads as :class:`driver.Port` does."""

    def __init__(self, library, write, read, room=4096, **settings):
        self.library, self.fields = library, BoardFields()
        self.raised = None
        self._buffer = ctypes.create_string_buffer(room)

        def guarded(call, *arguments):
            try:
                return call(*arguments)
            except BaseException as error:  # C cannot pass it on
                self.raised = error
                return -1

        def give(_, data, size, last):
            return guarded(write, ctypes.string_at(data, size), bool(last)) or 0

        def take(_, data, size, timeout_ms):
            came = guarded(read, size, timeout_ms)
            if isinstance(came, int):
                return came
            ctypes.memmove(data, came, len(came))
            return len(came)

        self._calls = Write(give), Read(take)
        port = PortFields(None, *self._calls)
        library.sbnn_init(self.fields, port, self._buffer, room)
        for name, value in settings.items():
            setattr(self.fields, name, value)

    def _ended(self, status):
        if self.raised is not None:
            raise self.raised
        return status

    def identify(self):
        return self._ended(self.library.sbnn_identify(ctypes.byref(self.fields)))

    def count(self):
        counters = Counters()
        status = self.library.sbnn_count(ctypes.byref(self.fields), ctypes.byref(counters))
        return self._ended(status), counters

    def load(self, file):
        return self._ended(self.library.sbnn_load(ctypes.byref(self.fields), file, len(file)))

    def classify(self, pixels, classes=0, each=None):
        """Return the status, classes and scores; ``classes`` is how many there are scores of."""
        data = np.ascontiguousarray(pixels, np.uint8)
        size = data[0].size if each is None else each
        found = np.full(len(data), 99, np.int32)
        scores = np.zeros((len(data), classes), np.int32)
        status = self.library.sbnn_classify(
            *(ctypes.byref(self.fields), data.ctypes.data, size, len(data)),
            found.ctypes.data_as(POINTER(c_int32)),
            *(scores.ctypes.data_as(POINTER(c_int32)) if classes else None, classes),
        )
        return self._ended(status), found, scores
