# amaranth: UnusedElaboratable=no
"""Loading from the host: the drivers in Python and in C, and the command."""

import json
from dataclasses import replace

import numpy as np
import pytest
from c_driver import FIXED, OK, PROGRAM, SHAPE, Board, load_driver
from shells import make_rig, small_network
from test_boards_driver import IDENTITY, FakePort, serving

from sbnn_hw.boards.conversation import NoProgram
from sbnn_hw.boards.driver import Link, open_board
from sbnn_hw.boards.protocol import ANSWER, Answer, Command, Identity, Program, Reason, Wire, pack
from sbnn_hw.cli import main
from sbnn_hw.engine import compile_program, fold
from sbnn_hw.engine.evaluate import evaluate
from sbnn_hw.errors import LinkFailed, ModelRejected, UsageError
from sbnn_hw.flow import loading
from sbnn_hw.generate import generate_design
from sbnn_hw.images import random_images
from sbnn_hw.netlist import save
from sbnn_hw.rtl_gen.lower import Options
from sbnn_hw.sim.line import LinePort

OPTIONS = {"form": "gaps", "lanes": 4, "loadable": True}


def network_of(seed, **sizes):
    return small_network(**{"shape": (3, 4, 1), "hidden": (6,), "classes": 4, "fan_in": 4,
                            "seed": seed, **sizes})  # fmt: skip


FIRST, OTHER = network_of(0), network_of(7)


@pytest.fixture(scope="module")
def rig():
    return make_rig(FIRST, **OPTIONS)


@pytest.fixture(scope="module")
def build(tmp_path_factory):
    folder = tmp_path_factory.mktemp("builds") / "first-board"
    generate_design(FIRST, folder, Options(family="generic", **OPTIONS))
    save(FIRST, folder.parent / "first.sbnn")
    save(OTHER, folder.parent / "other.sbnn")
    return folder


def answers_are_right(board, network):
    pixels = random_images(network, 12)
    board.check_network(network, "it")
    found, outcome = board.classify(pixels), network.compute(pixels)
    return not found.failed and np.array_equal(found.scores, outcome.scores)


# A board in Python


class Loadable(FakePort):
    """A board in Python that can be loaded; ``keeps`` what it is loaded with, or does not."""

    def __init__(self, faults=(), *, keeps=True, **identity):
        program = Program("01" * 8, 5, identity.pop("loaded", True))
        super().__init__(faults, replace(IDENTITY, program=program, **identity))
        self.who, self.keeps = replace(IDENTITY, program=program, **identity), keeps

    def answer(self, packet, fault):
        if packet.kind == Command.LOAD:
            self.asked.append(packet)
            if fault == "refused":
                self.out += pack(ANSWER, Answer.REFUSED, packet.number, bytes([Reason.CHECK]))
                return
            if self.keeps:
                self.who = replace(
                    self.who,
                    network=packet.payload[:32].hex(),
                    program=replace(self.who.program, loaded=True),
                )
                self.identity = self.who.to_bytes()
            self.out += pack(ANSWER, Answer.LOADED, packet.number)
        elif packet.kind == Command.CLASSIFY and not self.who.program.loaded:
            self.asked.append(packet)
            self.out += pack(ANSWER, Answer.REFUSED, packet.number, bytes([Reason.PROGRAM]))
        else:
            super().answer(packet, fault)


SMALL = small_network((2, 2, 1), hidden=(2,), fan_in=2)
SMALL_BITS = SMALL.edge_from(len(SMALL.stages) - 1).bits
WIRE = Wire((2, 2, 1), 8, 4, SMALL_BITS, 10)


def link(port):
    return Link(port, baud=10_000_000, timeout=0.02)


def test_what_is_loaded_is_what_the_board_then_says():
    port = Loadable(["refused"], wire=WIRE)
    board = link(port)
    board.load(SMALL, b"12345")
    assert board.identity.network == SMALL.digest
    loads = [packet.payload for packet in port.asked if packet.kind == Command.LOAD]
    assert loads == [bytes.fromhex(SMALL.digest) + b"12345"] * 2
    assert board.conversation.retries == 1


def test_a_plan_may_have_room_for_longer_scores_but_not_for_shorter():
    link(Loadable(wire=replace(WIRE, score_bits=SMALL_BITS + 3))).load(SMALL, b"12345")
    with pytest.raises(UsageError, match=r"^The board has 1 bits per score, but x\.pt has \d; "):
        link(Loadable(wire=replace(WIRE, score_bits=1))).load(SMALL, b"12345", "x.pt")


def test_what_does_not_fit_is_not_sent():
    port = Loadable(wire=WIRE)
    board = link(port)
    with pytest.raises(
        UsageError,
        match=r"^The board takes programs of 5 bytes, but that of x\.pt has 4; compile it for the "
        r"board's shape$",
    ):
        board.load(SMALL, b"1234", "x.pt")
    with pytest.raises(
        UsageError, match=r"^The board has images of 2×2×1, but the network has 3×4×1"
    ):
        board.load(FIRST, b"12345")
    assert Command.LOAD not in [packet.kind for packet in port.asked]


def test_a_board_that_cannot_be_loaded_is_told():
    with pytest.raises(
        LinkFailed,
        match=r"^The board cannot be loaded: its network was not built as a program; build it with "
        r"--loadable$",
    ):
        link(FakePort()).load(SMALL, b"12345")


def test_a_board_without_a_program_is_told_at_once():
    port = Loadable(loaded=False, wire=WIRE)
    board = link(port)
    asked = len(port.asked)
    for ask in (
        lambda: board.classify(np.zeros((40, 2, 2, 1), np.uint8)),
        lambda: board.check_network(SMALL, "x.pt"),
    ):
        with pytest.raises(
            NoProgram,
            match=r"^The board has no program, since its last load did not finish; load one with "
            r"`sbnn-hw load`$",
        ):
            ask()
    assert len(port.asked) <= asked + 2
    board.load(SMALL, b"12345")
    board.check_network(SMALL, "x.pt")


def test_a_board_that_forgets_what_it_was_loaded_with_is_found_out():
    with pytest.raises(LinkFailed, match=r"^The board has another network"):
        link(Loadable(keeps=False, wire=WIRE)).load(SMALL, b"12345")


def test_an_identity_with_a_program_comes_back_as_it_was():
    for loaded in (True, False):
        said = replace(IDENTITY, program=Program("0123456789abcdef", 70_000, loaded))
        assert Identity.from_bytes(said.to_bytes()) == said
    assert len(IDENTITY.to_bytes()) == 80


# A simulated one


@pytest.mark.parametrize("noise", [0.0, 2e-4])
def test_a_board_is_loaded_over_a_line_with_errors(rig, noise):
    shape = fold(FIRST, lanes=4, loadable=True).shape
    with (
        serving(rig.line(noise=noise, seed=1)) as terminal,
        open_board(terminal.port, baud=1_000_000, timeout=0.5, tries=20) as board,
    ):
        for network in (OTHER, FIRST, OTHER):
            size = loading.load_network(board, network, shape)
            assert size == shape.program_bytes
            assert answers_are_right(board, network)
        assert (board.conversation.retries > 0) == (noise > 0)


def test_the_simulated_network_may_forget_images_when_it_is_loaded(rig):
    """What was dropped is not waited for by the watchdog."""
    line = rig.line()
    port = LinePort(line)
    board = Link(port, baud=1_000_000)
    shape = fold(FIRST, lanes=4, loadable=True).shape
    program = compile_program(OTHER, shape).to_bytes()
    image = random_images(FIRST, 1).tobytes()
    # The load begins while the image is under way.
    port.write(pack(0xA5, Command.CLASSIFY, 9, image))
    board.load(OTHER, program)
    for _ in range(20):
        line.run(b"", 2000)
    assert answers_are_right(board, OTHER)


def command(capsys, *arguments):
    code = main(["load", *map(str, arguments)])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_the_command_loads_and_run_then_agrees(rig, build, capsys, monkeypatch):
    other = build.parent / "other.sbnn"
    with serving(rig.line()) as terminal:
        line = ("--port", terminal.port, "--baud", "1000000", "--timeout", "5")
        code, out, _ = command(capsys, *line, "--model", other, "--build", build, "--json")
        assert code == 0
        result = json.loads(out)
        assert (result["network"], result["retries"]) == (OTHER.digest, 0)
        # The board's build is found by the shape that the board tells.
        monkeypatch.setattr(loading, "BUILDS", build.parent)
        code, out, _ = command(capsys, *line, "--model", build.parent / "first.sbnn")
        assert code == 0
        assert out.startswith(f"loaded       {build.parent / 'first.sbnn'} ({FIRST.digest[:12]}…)")
        with open_board(terminal.port, baud=1_000_000, timeout=5) as board:
            assert answers_are_right(board, FIRST)
        # Nothing is sent of what does not fit.
        wide = build.parent / "wide.sbnn"
        save(network_of(3, hidden=(9,)), wide)
        code, _, said = command(capsys, *line, "--model", wide, "--build", build)
        assert code == 1
        assert "has 9 neurons, but the plan 6" in said
        many = build.parent / "many.sbnn"
        save(network_of(3, fan_in=11), many)
        code, _, said = command(capsys, *line, "--model", many, "--build", build)
        assert code == 1
        assert any(digit in said for digit in "0123456789")
        monkeypatch.setattr(loading, "BUILDS", build)
        code, _, said = command(capsys, *line, "--model", other)
        assert code == 2
        assert f"No build in {build} has the board's shape" in said
        with open_board(terminal.port, baud=1_000_000, timeout=5) as board:
            assert board.counters().errors == 0
            assert answers_are_right(board, FIRST)


def test_what_the_command_needs_is_told(build, capsys, tmp_path):
    other = build.parent / "other.sbnn"
    assert "Name the board's port (--port), or a file" in command(capsys, "--model", other)[2]
    said = command(capsys, "--model", other, "--out", tmp_path / "p")[2]
    assert "A program is for a build; name its folder (--build)" in said
    fixed = tmp_path / "fixed"
    generate_design(FIRST, fixed, Options(family="generic"))
    said = command(capsys, "--model", other, "--build", fixed, "--out", tmp_path / "p")[2]
    assert f"The build in {fixed} cannot be loaded with other networks" in said


# The driver in C


def test_the_driver_in_c_loads_the_file_that_the_command_writes(rig, build, capsys, tmp_path):
    driver = load_driver(tmp_path)
    path = tmp_path / "other.program"
    model = ("--model", build.parent / "other.sbnn", "--build", build)
    assert command(capsys, *model, "--out", path)[0] == 0
    file = path.read_bytes()
    assert len(file) == 8 + 32 + rig.design.program.bytes
    port = LinePort(rig.line())

    def read(size, timeout_ms):
        port.timeout = max(0.05, timeout_ms / 1000)
        data = port.read(1)
        port.timeout = 0
        return data + port.read(size - 1)

    board = Board(driver, lambda data, _: port.write(data) and 0, read, baud=1_000_000)
    pixels = random_images(OTHER, 5).astype(np.uint8)
    assert board.identify() == OK
    assert (board.fields.program_bytes, board.fields.loaded) == (rig.design.program.bytes, 1)
    assert board.load(file[:-1]) == SHAPE
    assert board.load(bytes(8) + file[8:]) == SHAPE
    # A load that is cut off: the board has no program, and says so once.
    packet = pack(0xA5, Command.LOAD, 1, file[8:])
    port.write(packet[:60])
    assert board.identify() == OK
    assert board.fields.loaded == 0
    assert board.classify(pixels)[0] == PROGRAM
    assert board.load(file) == OK
    assert bytes(board.fields.model.network).hex() == OTHER.digest
    status, classes, scores = board.classify(pixels, classes=4)
    outcome = OTHER.compute(pixels)
    assert status == OK
    np.testing.assert_array_equal(scores, outcome.scores)
    np.testing.assert_array_equal(classes, outcome.classes)
    port.close()
    other = FakePort()
    fixed = Board(driver, lambda data, _: other.write(data) and 0, lambda size, _: other.read(size),
                  timeout_ms=10)  # fmt: skip
    assert fixed.identify() == OK
    assert fixed.load(file) == FIXED


# What a plan holds


def test_another_network_is_computed_exactly_or_refused():
    """Not one of its bits is lost to what the plan was built for."""
    held = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        sizes = {"shape": (5, 4, 1), "hidden": (8, 6)[: 1 + seed % 2], "fan_in": 6}
        shape = fold(network_of(seed, **sizes), lanes=(1, 2, 4)[seed % 3], loadable=True).shape
        other = network_of(seed + 1000, **{**sizes, "fan_in": int(rng.integers(2, 7))})
        try:
            program = compile_program(other, shape)
        except ModelRejected:
            continue
        held += 1
        pixels = random_images(other, 40)
        found, outcome = evaluate(program, pixels), other.compute(pixels)
        np.testing.assert_array_equal(found.scores, outcome.scores)
    assert held > 20
