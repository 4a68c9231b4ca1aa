# amaranth: UnusedElaboratable=no
"""The C driver: compiled strictly, against scripted and simulated boards, with noise and garbage."""

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from c_driver import (
    ANSWER,
    C99,
    GEOMETRY,
    HOST,
    NETWORK,
    NEVER_QUIET,
    NO_ANSWER,
    NO_BOARD,
    OK,
    PORT,
    REFUSED,
    ROOM,
    SANITIZED,
    SCORES,
    SILENT,
    STRICT,
    VALUE,
    VERSION,
    Board,
    Model,
    compile_c,
    load_driver,
)
from conftest import ROOT
from designs import described
from test_boards_driver import IDENTITY, WIRE, FakePort, images
from test_run_command import serve

from sbnn_hw.boards.clocks import BAUD_RATES
from sbnn_hw.boards.host import host_files
from sbnn_hw.boards.protocol import ANSWER as START
from sbnn_hw.boards.protocol import Answer, Command, Reason, Wire, pack
from sbnn_hw.cli import main
from sbnn_hw.hardware import Folder
from sbnn_hw.images import random_images


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    return load_driver(tmp_path_factory.mktemp("driver"))


def board_on(driver, port, **settings):
    """Return a board on a port of the Python driver's tests."""

    def write(data, last):
        # Its parser wants whole packets only at their end.
        port.write(data)

    return Board(driver, write, lambda size, _: port.read(size), **{"timeout_ms": 10, **settings})


# The text


@pytest.mark.parametrize("posix", [(), ("-DSBNN_POSIX",)])
def test_it_is_strict_c99_and_cpp(tmp_path, posix):
    source = HOST / "sbnn.c"
    compile_c(tmp_path / "c.o", *C99, "-Wconversion", "-O2", *posix, "-c", source)
    compile_c(tmp_path / "cpp.o", "-x", "c++", *STRICT, "-O2", *posix, "-c", source)


@pytest.mark.skipif(not shutil.which("avr-gcc"), reason="needs avr-gcc")
def test_it_is_strict_where_an_int_has_16_bits(tmp_path):
    flags = (*C99, "-Wconversion", "-Os", "-mmcu=atmega1284p")
    command = ["avr-gcc", *flags, "-c", HOST / "sbnn.c", "-o", tmp_path / "avr.o"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_it_needs_no_memory_of_its_own_and_keeps_no_state(tmp_path):
    compiled = compile_c(tmp_path / "c.o", *C99, "-O2", "-c", HOST / "sbnn.c")
    symbols = subprocess.run(["nm", compiled], capture_output=True, text=True, check=True).stdout
    kinds = dict(re.findall(r" (\w) ([\w.$]+)$", symbols, re.M)[::-1])
    assert set(kinds) <= set("TtrRdUN"), "no variables (b, B, D)"
    needed = set(re.findall(r" U (\w+)", symbols))
    assert needed <= {"memchr", "memcmp", "memcpy", "memmove", "memset", "__stack_chk_fail",
                      "_GLOBAL_OFFSET_TABLE_"}  # fmt: skip


def test_the_example_for_spi_compiles(tmp_path):
    (code,) = re.findall(r"```c\n(.*?)```", (ROOT / "docs/wire.md").read_text(), re.S)
    stubs = """
        #include "sbnn.h"
        void select_board(void), deselect_board(void), wait_for_ready(uint32_t);
        int ready(void);
        uint8_t exchange(uint8_t);
    """
    use = "sbnn_port port(void) { sbnn_port p = {NULL, spi_write, spi_read}; return p; }\n"
    text = "\n".join(line.strip() for line in stubs.splitlines()) + code + "sbnn_port port(void);\n"
    (tmp_path / "spi.c").write_text(text + use)
    compile_c(tmp_path / "spi.o", *C99, f"-I{HOST}", "-c", tmp_path / "spi.c")


def test_rates_of_boards_are_rates_of_the_port():
    text = (HOST / "sbnn.c").read_text()
    assert set(BAUD_RATES) <= {int(rate) for rate in re.findall(r"case (\d+): return B\1;", text)}


def test_errors_are_told_in_words(driver):
    said = {}
    for error in [*range(-19, 1), *(REFUSED - code for code in Reason)]:
        said[error] = driver.sbnn_error_text(error).decode()
    assert len(set(said.values())) == len(said)
    assert "unknown error" not in said.values()
    for code in Reason:
        assert said[REFUSED - code] == f"the board refused a packet: {code.words}"
    assert driver.sbnn_error_text(REFUSED - 99).decode() == "the board refused a packet"
    assert driver.sbnn_error_text(7).decode() == "unknown error"


# Scripted boards


@pytest.mark.parametrize("fault", ["", "lost", "refused", "damaged", "stale", "short", "noise"])
def test_every_image_gets_its_class_whatever_happens_to_a_packet(driver, fault):
    for at in range(4):
        board = board_on(driver, FakePort([""] * at + [fault]))
        assert board.identify() == OK
        status, classes, _ = board.classify(images(30))
        assert status == OK
        np.testing.assert_array_equal(classes, np.arange(30) % 10)
        again = fault in ("lost", "refused", "damaged", "short")
        assert (board.fields.retries > 0) == again
        assert board.count()[0] == OK


def test_a_start_with_an_absurd_length_does_not_hide_the_answer_behind_it(driver):
    port = FakePort()

    def answer(packet, fault, whole=port.answer):
        port.out += b"\x5a\x82\x00\x00\xff\xff\xff"
        whole(packet, fault)

    port.answer = answer
    board = board_on(driver, port, room=200)
    assert board.identify() == OK
    assert board.classify(images(30))[0] == OK
    assert board.fields.retries == 0


def test_the_identity_is_what_the_board_says(driver):
    board = board_on(driver, FakePort())
    assert board.identify() == OK
    fields = board.fields
    assert bytes(fields.model.network).hex() == IDENTITY.network
    assert (fields.model.height, fields.model.width, fields.model.channels) == WIRE.shape
    assert (fields.image_bytes, fields.result_bytes) == (WIRE.image_bytes, WIRE.result_bytes)
    assert (fields.clock_hz, fields.clocks_per_bit, fields.batch) == (100_000_000, 100, 4)
    assert fields.made_by.decode() == IDENTITY.version


def test_another_network_is_refused(driver):
    board = board_on(driver, FakePort())
    assert board.identify() == OK
    model = Model.from_buffer_copy(board.fields.model)
    assert driver.sbnn_check(board.fields, model) == OK
    model.classes += 1
    assert driver.sbnn_check(board.fields, model) == GEOMETRY
    model.network[31] ^= 1
    assert driver.sbnn_check(board.fields, model) == NETWORK


def test_images_that_never_get_through_are_told(driver):
    port = FakePort()
    whole = port.answer
    port.answer = lambda packet, _: whole(packet, "refused" if 7 in packet.payload[::4] else "")
    board = board_on(driver, port, tries=3)
    assert board.identify() == OK
    status, classes, _ = board.classify(images(10))
    assert status == REFUSED - Reason.CHECK
    assert classes.tolist() == [0, 1, 2, 3, 4, 5, 6, -1, 8, 9]
    assert board.fields.failed == 1


def test_a_board_that_dies_is_given_up_soon(driver):
    port = FakePort(["", "", ""] + ["lost"] * 10_000)
    board = board_on(driver, port, tries=2)
    assert board.identify() == OK
    status, classes, _ = board.classify(images(4000))
    assert status == SILENT
    assert len(port.asked) < 60
    assert board.fields.failed == (classes < 0).sum() > 3900
    good = classes >= 0
    np.testing.assert_array_equal(classes[good], (np.arange(4000) % 10)[good])


def test_packets_become_smaller_on_a_bad_line_and_larger_again(driver):
    port = FakePort(["refused"] * 3)
    board = board_on(driver, port)
    assert board.identify() == OK
    assert board.classify(images(80))[0] == OK
    sizes = [len(packet.payload) // 4 for packet in port.asked if packet.kind == Command.CLASSIFY]
    assert sizes[0] == 4
    assert 1 in sizes
    assert sizes[-2] == 4
    numbers = [packet.number for packet in port.asked]
    assert len(set(numbers)) == len(numbers)


def test_a_line_that_is_never_quiet_ends(driver):
    port = FakePort()
    port.read = lambda size=1: b"$GPGGA"[:size]
    assert board_on(driver, port).identify() == NEVER_QUIET
    assert board_on(driver, port, baud=115_200).identify() == NEVER_QUIET


def test_a_line_that_breaks_ends(driver):
    board = Board(driver, lambda data, last: -1, lambda size, _: b"")
    assert board.identify() == PORT
    board = Board(driver, lambda data, last: 0, lambda size, _: -1)
    assert board.identify() == PORT
    # More than was asked for was not read.
    board = Board(driver, lambda data, last: 0, lambda size, _: size + 1)
    assert board.identify() == PORT
    assert Board(driver, lambda data, last: 0, lambda size, _: b"").identify() == NO_ANSWER
    assert Board(driver, None, None, room=90).identify() == ROOM


@pytest.mark.parametrize(
    ("lie", "status"),
    [
        ({"shape": (2**32 - 1, 2**32 - 1, 2**32 - 1)}, NO_BOARD),
        ({"shape": (2**31, 2, 1)}, NO_BOARD),
        ({"shape": (65536, 65536, 65536)}, NO_BOARD),
        # Their product is 0 in 64 bits.
        ({"shape": (2**8, 2**28, 2**28)}, NO_BOARD),
        ({"shape": (0,)}, NO_BOARD),
        ({"shape": (2, 2, 0)}, NO_BOARD),
        ({"value_bits": 0}, NO_BOARD),
        ({"value_bits": 255}, NO_BOARD),
        ({"index_bits": 17}, NO_BOARD),
        ({"score_bits": 33}, NO_BOARD),
        ({"classes": 0}, NO_BOARD),
        ({"classes": 65_535, "score_bits": 32}, ROOM),
    ],
)
def test_a_board_that_lies_about_its_size_is_refused(driver, lie, status):
    port = FakePort(identity=replace(IDENTITY, wire=replace(WIRE, **lie)))
    board = board_on(driver, port)
    assert board.identify() == status
    found, classes, _ = board.classify(images(3))
    assert found == NO_BOARD
    assert classes.tolist() == [-1, -1, -1]
    assert board.count()[0] == NO_BOARD


def test_sizes_are_the_callers(driver):
    """A board that tells of other sizes than the caller has room for gets no chance."""
    board = board_on(
        driver, FakePort(identity=replace(IDENTITY, wire=Wire((2, 3, 1), 8, 4, 5, 12)))
    )
    assert board.identify() == OK
    assert board.classify(images(3))[0] == GEOMETRY
    six = np.zeros((3, 2, 3, 1), np.uint8)
    assert board.classify(six, classes=10)[0] == GEOMETRY
    assert board.classify(six, classes=13)[0] == GEOMETRY
    board = board_on(driver, FakePort())
    assert board.identify() == OK
    assert board.classify(images(3), classes=10)[0] == SCORES
    board = board_on(driver, FakePort(identity=replace(IDENTITY, batch=0)))
    assert board.identify() == NO_BOARD


def test_a_class_that_there_is_not_is_no_answer(driver):
    port = FakePort()
    board = board_on(driver, port, tries=2)
    assert board.identify() == OK
    pixels = images(12)
    pixels[5] = 10
    status, classes, _ = board.classify(pixels)
    assert status == ANSWER
    assert classes.tolist() == [0, 1, 2, 3, 4, -1, 6, 7, 8, 9, 0, 1]


def test_values_that_are_too_large_are_refused(driver):
    port = FakePort(identity=replace(IDENTITY, wire=Wire((1, 2, 1), 12, 4, 0, 10)))
    board = board_on(driver, port)
    assert board.identify() == OK
    values = np.zeros((5, 4), np.uint8)
    values[:, [1, 3]] = 15
    assert board.classify(values)[0] == OK
    values[4, 3] = 16
    assert board.classify(values)[0] == VALUE


@pytest.mark.parametrize("length", [48, 80, 128])
def test_another_version_of_the_protocol_is_told_as_such(driver, length):
    said = (b"SBNN\x07" + IDENTITY.to_bytes()[5:]).ljust(length, b"\0")[:length]
    assert board_on(driver, FakePort(identity=said)).identify() == VERSION


def test_what_is_no_board_is_said_to_be_none(driver):
    assert board_on(driver, FakePort(identity=bytes(80))).identify() == NO_BOARD


def test_a_small_buffer_takes_fewer_images_in_a_packet(driver):
    wire = Wire((2, 2, 1), 8, 4, 12, 30)
    board = board_on(driver, FakePort(identity=replace(IDENTITY, wire=wire, batch=16)), room=150)
    assert board.identify() == OK
    assert board.fields.batch == (150 - 11) // wire.result_bytes == 3


def test_a_wrong_polynomial_is_noticed(tmp_path):
    """The planted fault: half a byte's entry of another check."""
    wrong = load_driver(tmp_path, [("0xEDB88320", "0x82F63B78")])
    assert board_on(wrong, FakePort(), tries=2).identify() == NO_ANSWER


def test_scores_have_their_sign(driver):
    wire = Wire((2, 2, 1), 8, 4, 7, 10)
    port = FakePort(identity=replace(IDENTITY, wire=wire))
    values = np.array([-64, 63, -1, 0, 1, -2, 31, -32, 5, -5])
    bits = [3 >> n & 1 for n in range(4)] + [int(v) >> n & 1 for v in values for n in range(7)]
    result = np.packbits(bits, bitorder="little").tobytes()

    def answer(packet, fault, whole=port.answer):
        if packet.kind != Command.CLASSIFY:
            return whole(packet, fault)
        port.out += pack(START, Answer.RESULTS, packet.number, result * (len(packet.payload) // 4))
        return None

    port.answer = answer
    board = board_on(driver, port)
    assert board.identify() == OK
    status, classes, scores = board.classify(images(5), classes=10)
    assert (status, classes.tolist()) == (OK, [3] * 5)
    np.testing.assert_array_equal(scores, np.tile(values, (5, 1)))


# Under sanitizers


def test_garbage_on_the_line_does_no_harm(tmp_path):
    fuzz = compile_c(
        tmp_path / "fuzz", *SANITIZED, f"-I{HOST}", ROOT / "tests/host_fuzz.c", HOST / "sbnn.c"
    )
    done = subprocess.run([fuzz, "10000"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    right, without, refused = map(int, re.findall(r"\d+", done.stdout))
    assert right > 50_000
    assert without > 100
    assert refused > 1000


# Through a terminal


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    """Return a build of digits, its program, images, and what it must say of them."""
    out = tmp_path_factory.mktemp("digits")
    arguments = ["--model", str(ROOT / "models/digits.pt"), "--board", "icebreaker"]
    assert main(["build", *arguments, "--out", str(out / "build"), "--until", "rtl"]) == 0
    network, _, design = Folder(out / "build").load()
    for name, text in host_files(design).items():
        (out / name).write_text(text)
    compile_c(
        out / "classify", *SANITIZED, "-DSBNN_POSIX", f"-I{out}", out / "main.c", out / "sbnn.c"
    )
    pixels = random_images(network, 100)
    pixels.astype(np.uint8).tofile(out / "images.raw")
    outcome = network.compute(pixels)
    lines = [
        " ".join(map(str, [number, *row]))
        for number, row in zip(outcome.classes, outcome.scores.tolist(), strict=True)
    ]
    return out, lines


@pytest.mark.parametrize("noise", ["0", "3e-5"])
def test_a_hundred_images_through_simulated_wires(digits, noise):
    out, lines = digits
    with serve(out / "build", out / "port", "--noise", noise, "--seed", "1"):
        command = [out / "classify", out / "port", "1000000", out / "images.raw"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == lines
    retries, counted, errors = map(int, re.findall(r"\d+", done.stderr))
    assert (retries > 0) == (noise != "0")
    assert counted >= 100
    assert (errors > 0) <= (noise != "0")


def test_ports_that_are_none_are_told_in_a_sentence(digits):
    out, _ = digits

    def said(*arguments):
        done = subprocess.run([out / "classify", *arguments], capture_output=True, text=True)
        assert done.returncode
        return done.stderr.strip().removeprefix(f"{arguments[0]}: " if arguments else "")

    raw = out / "images.raw"
    assert said("/nowhere", "115200", raw) == (
        "the port cannot be opened; is this the board's port?"
    )
    assert said("/dev/null", "115200", raw) == (
        "the port cannot be opened; is this the board's port?"
    )
    assert said("/nowhere", "12345", raw) == "the port cannot have this baud rate; choose another"
    assert said("/nowhere", "115200x", raw) == "the port cannot have this baud rate; choose another"
    assert said("/nowhere").startswith("usage: ")
    assert "[MILLISECONDS]" in said("/nowhere", "115200", raw, "soon")


def test_a_file_that_does_not_hold_whole_images_is_told(digits, tmp_path):
    out, lines = digits
    whole = (out / "images.raw").read_bytes()
    size = len(whole) // len(lines)
    (tmp_path / "cut").write_bytes(whole[: 2 * size + 1])
    (tmp_path / "empty").touch()
    with serve(out / "build", out / "port"):
        for file, before in ((tmp_path / "cut", 2), (tmp_path / "empty", 0), (tmp_path, 0)):
            command = [out / "classify", out / "port", "1000000", file]
            done = subprocess.run(command, capture_output=True, text=True, timeout=120)
            assert done.returncode == 1
            assert done.stdout.splitlines() == lines[:before]
            assert done.stderr == f"{file}: not a file of whole images, {size} bytes each\n"
        with Path("/dev/full").open("w") as full:
            command = [out / "classify", out / "port", "1000000", out / "images.raw"]
            done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
        assert (done.returncode, done.stderr) == (1, "the results could not be written\n")


def test_the_header_of_a_model_has_its_sizes():
    text = host_files(described((3, 5, 2), value_bits=12, index_bits=3, score_bits=9, classes=6))[
        "sbnn_model.h"
    ]
    assert "#define SBNN_MODEL_IMAGE_BYTES 60\n" in text
    assert "#define SBNN_MODEL_CLASSES 6\n" in text
    assert f"#define SBNN_MODEL_BUFFER {11 + 16 * 8}\n" in text
    assert "3, 5, 2, 12, \\\n        3, 9, 6 \\\n" in text
