"""Compiled designs: every width, stalls, probes and planted faults, each design compiled once."""

import random
import shutil
import subprocess

import numpy as np
import pytest

from sbnn_hw.errors import OutputRefused, ToolFailed
from sbnn_hw.sim import library
from sbnn_hw.sim.library import Probe, compile_design, open_library, primitives

pytestmark = pytest.mark.skipif(not shutil.which("g++"), reason="needs g++")

HEAD = """\
module top(
  input clk, input rst,
  input [{w}-1:0] i__payload, input i__valid, output i__ready,
  output [{w}-1:0] o__payload, output o__valid, input o__ready
);
"""

#: Three stages that invert, with the hierarchy and the names that Amaranth writes.
PIPELINE = (
    HEAD
    + """\
  wire [{w}-1:0] a; wire [{w}-1:0] b;
  wire va; wire vb; wire ra; wire rb;
  \\top.first  first (.clk(clk), .rst(rst), .ip(i__payload), .iv(i__valid), .ir(i__ready), .op(a), .ov(va), .\\or (ra));
  \\top.second  second (.clk(clk), .rst(rst), .ip(a), .iv(va), .ir(ra), .op(b), .ov(vb), .\\or (rb));
  \\top.third  third (.clk(clk), .rst(rst), .ip(b), .iv(vb), .ir(rb), .op(o__payload), .ov(o__valid), .\\or (o__ready));
endmodule
"""
)
STAGE = """\
module \\top.{name} (clk, rst, ip, iv, ir, op, ov, \\or );
  input clk; input rst; input [{w}-1:0] ip; input iv; output ir;
  output [{w}-1:0] op; output ov; input \\or ;
  reg [{w}-1:0] q = 0; reg full = 0; wire moves;
  assign moves = iv & ir;
  assign ir = ~full | \\or ;
  assign op = q; assign ov = full;
  always @(posedge clk) begin
    if (ir) begin full <= iv; q <= ~ip; end
    if (rst) full <= 0;
  end
endmodule
"""


def pipeline(width):
    names = ("first", "second", "third")
    return {"top.v": PIPELINE.format(w=width)} | {
        f"{name}.v": STAGE.format(name=name, w=width) for name in names
    }


def rows(count, width, seed=0):
    bits = np.random.default_rng(seed).integers(0, 2, (count, width), dtype=np.uint8)
    return np.packbits(bits, axis=1, bitorder="little")


def inverted(beats, width):
    bits = np.unpackbits(beats, axis=1, bitorder="little")[:, :width]
    return np.packbits(1 - bits, axis=1, bitorder="little")


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    """Compile in a cache of its own, so that nothing from an earlier run is taken."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("cache")
        patch.setenv("SBNN_CACHE", str(folder))
        yield folder


PROBES = (
    Probe("moves", ("second.moves",)),
    Probe("kept", ("second.full", "second.ir"), "second.q", 33),
    Probe("in", ("i__valid", "i__ready"), "i__payload", 33),
)


@pytest.fixture(scope="module")
def stages(cache):
    return compile_design(pipeline(33), in_width=33, out_width=33, probes=PROBES)


@pytest.mark.parametrize("width", [1, 8, 33, 64, 65, 200])
def test_every_bit_of_every_width_goes_through(width):
    design = compile_design(pipeline(width), in_width=width, out_width=width)
    beats = rows(50, width)
    trace = design.run(beats, expect=50, ready_odds=0.7, seed=width)
    assert trace.complete
    assert trace.violations == 0
    assert np.array_equal(trace.outputs, inverted(beats, width))


@pytest.mark.parametrize(("valid_odds", "ready_odds"), [(0.5, 1.0), (1.0, 0.5), (0.3, 0.2)])
def test_stalls_change_the_time_but_not_the_words(stages, valid_odds, ready_odds):
    beats = rows(200, 33)
    # One more than are due: none may come twice.
    trace = stages.run(
        beats, expect=201, valid_odds=valid_odds, ready_odds=ready_odds, seed=5, limit=300
    )
    assert np.array_equal(trace.outputs, inverted(beats, 33))
    assert not trace.complete
    assert trace.violations == 0
    assert trace.given_at[-1] > 300
    assert np.all(np.diff(trace.taken_at.astype(int)) > 0)


def test_latency_and_throughput_are_seen(stages):
    trace = stages.run(rows(20, 33), expect=20)
    assert np.array_equal(trace.taken_at, np.arange(20))
    assert np.array_equal(trace.given_at, np.arange(3, 23))
    assert trace.cycles == 23


def test_same_seed_gives_the_same_run_and_another_seed_another(stages):
    def run(seed):
        return stages.run(rows(50, 33), expect=50, valid_odds=0.5, ready_odds=0.5, seed=seed)

    assert np.array_equal(run(1).given_at, run(1).given_at)
    assert not np.array_equal(run(1).given_at, run(2).given_at)


def test_probes_see_signals_below_the_top(stages):
    beats = rows(40, 33)
    trace = stages.run(beats, expect=40, ready_odds=0.4)
    assert trace.counts["moves"] == 40
    assert trace.values["moves"].shape == (40, 0)
    assert np.array_equal(trace.values["in"], beats)
    # Twice inverted by then.
    assert np.array_equal(trace.values["kept"], beats)


@pytest.mark.parametrize(
    ("probe", "message"),
    [
        (Probe("x", ("second.nope",)), "no signal second.nope"),
        (Probe("x", ("nope.full",)), "no signal nope.full"),
        (Probe("x", ("second.full",), "second.q", 32), "signal second.q has 33 bits, not 32"),
        (Probe("x", ("second.q",)), "signal second.q has 33 bits, not 1"),
    ],
)
def test_wrong_probe_is_refused(probe, message):
    said = "The signals of the design do not match its description"
    with pytest.raises(ToolFailed, match=f"^{said}: {message}$"):
        compile_design(pipeline(33), in_width=33, out_width=33, probes=[probe])


def test_two_designs_in_one_process(stages):
    narrow = compile_design(pipeline(8), in_width=8, out_width=8)
    beats = rows(10, 8)
    for _ in range(2):
        assert np.array_equal(narrow.run(beats, expect=10).outputs, inverted(beats, 8))
        assert stages.run(rows(10, 33), expect=10).complete


def design(body, width=8):
    return compile_design(
        {"top.v": HEAD.format(w=width) + body + "endmodule\n"}, in_width=width, out_width=width
    )


FAULTY = """\
  reg [7:0] count = 0;
  always @(posedge clk) if (rst) count <= 0; else count <= count + 1;
  assign i__ready = 1;
"""


def test_word_taken_back_or_changed_is_a_violation():
    drops = design(FAULTY + "assign o__valid = count[0]; assign o__payload = 0;\n")
    assert drops.run(rows(9, 8), expect=9, ready_odds=0.3).violations > 0
    assert drops.run(rows(9, 8), expect=9).violations == 0
    changes = design(FAULTY + "assign o__valid = 1; assign o__payload = count;\n")
    assert changes.run(rows(9, 8), expect=9, ready_odds=0.3).violations > 0
    assert changes.run(rows(9, 8), expect=9).violations == 0


def test_design_that_hangs_is_incomplete():
    hangs = design(
        "reg [2:0] left = 5; assign i__ready = left != 0; assign o__valid = i__valid & i__ready;\n"
        "assign o__payload = i__payload;\n"
        "always @(posedge clk) if (rst) left <= 5; else if (i__ready & i__valid) left <= left - 1;\n"
    )
    trace = hangs.run(rows(9, 8), expect=9, limit=50)
    assert not trace.complete
    assert len(trace.outputs) == len(trace.taken_at) == len(trace.given_at) == 5
    assert trace.cycles == 55


def test_second_compile_runs_no_compiler(stages, monkeypatch):
    run = subprocess.run

    def refuse(command, **options):
        assert command[1:] in (["--version"], ["--getenv", "VERILATOR_ROOT"]), command
        return run(command, **options)

    monkeypatch.setattr(subprocess, "run", refuse)
    again = compile_design(pipeline(33), in_width=33, out_width=33, probes=PROBES)
    assert again.path == stages.path


@pytest.mark.parametrize("content", ["", "half", "another"])
def test_damaged_library_is_not_loaded(cache, content):
    sources = {"top.v": HEAD.format(w=3) + FAULTY + "endmodule\n"}
    path = compile_design(sources, in_width=3, out_width=3).path
    whole = path.read_bytes()
    other = compile_design(pipeline(8), in_width=8, out_width=8).path.read_bytes()
    # Not in place: this process has the old file mapped.
    path.unlink()
    path.write_bytes({"": b"", "half": whole[: len(whole) // 2], "another": other}[content])
    assert compile_design(sources, in_width=3, out_width=3).path == path
    assert len(path.read_bytes()) == len(whole)


def test_library_that_cannot_be_loaded_is_one_sentence(tmp_path):
    (tmp_path / "design.so").write_bytes(b"")
    with pytest.raises(ToolFailed) as raised:
        open_library(tmp_path / "design.so", {})
    assert str(raised.value) == (
        f"The compiled simulation {tmp_path}/design.so cannot be loaded (file too short): if that "
        f"disk does not allow programs to run, point $SBNN_CACHE at a folder on another one"
    )


@pytest.mark.parametrize(
    "said", ["/x/part0.o: No space left on device", "as: write error: Disk quota exceeded"]
)
def test_compiler_without_room_is_one_sentence(tmp_path, monkeypatch, said):
    program = tmp_path / "full++"
    program.write_text(
        f"#!/bin/sh\n[ $1 = --version ] && echo full++ 1 && exit\necho '{said}' >&2\nexit 1\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("CXX", str(program))
    with pytest.raises(OutputRefused, match=r"^There is no space left for "):
        compile_design(pipeline(2), in_width=2, out_width=2)


def test_broken_text_fails_in_one_sentence_with_a_log(cache):
    with pytest.raises(
        ToolFailed, match=r"^Verilator failed on the design \(its output is in \S+\.log\)$"
    ) as caught:
        compile_design({"top.v": "module top(;endmodule"}, in_width=1, out_width=1)
    log = str(caught.value).split()[-1].removesuffix(")")
    with open(log) as file:  # noqa: PTH123
        assert "syntax error" in file.read()
    assert not [x for x in (cache / "simulations").iterdir() if x.name.endswith(".part")]


def test_compiler_that_fails_is_named(monkeypatch):
    monkeypatch.setattr(library, "BENCH", library.BENCH.replace("o_ready", "o_rdy"))
    with pytest.raises(
        ToolFailed, match=r"^The C\+\+ compiler failed on the design \(its output is in \S+\)$"
    ):
        compile_design(pipeline(2), in_width=2, out_width=2)


def test_wrong_width_is_refused():
    with pytest.raises(
        ToolFailed, match=r"^The ports of the design do not match its description: %Warning-WIDTH"
    ):
        compile_design(pipeline(9), in_width=9, out_width=10)


def test_wrong_beats_are_refused(stages):
    with pytest.raises(ValueError, match=r"^Beats must be rows of 5 bytes, not uint8 of shape"):
        stages.run(np.zeros((2, 4), np.uint8), expect=2)
    with pytest.raises(ValueError, match=r"^Beats must have no bit set above their 33$"):
        stages.run(np.full((2, 5), 255, np.uint8), expect=2)
    with pytest.raises(ValueError, match=r"^Odds must be between 0 and 1, not 2\.0$"):
        stages.run(rows(1, 33), expect=1, valid_odds=2.0)


def test_simulation_that_never_settles_is_an_error_not_the_end_of_python():
    loops = design(
        "wire x; assign x = ~(x & i__valid); assign i__ready = x; assign o__valid = 0;\n"
        "assign o__payload = 0;\n"
    )
    with pytest.raises(ToolFailed, match=r"^Verilator stopped the simulation: .*converge"):
        loops.run(rows(1, 8), expect=1)


def test_optimised_library_computes_the_same(stages):
    fast = compile_design(pipeline(33), in_width=33, out_width=33, vectors=10_000_000)
    assert fast.path != stages.path
    beats = rows(50, 33)
    assert np.array_equal(fast.run(beats, expect=50).outputs, inverted(beats, 33))


# The primitives

#: Name, parameter, inputs, outputs with the inputs that are 0 for them.
CELLS = [
    ("LUT1", "INIT", ["I0"], {"O": None}),
    ("LUT2", "INIT", ["I0", "I1"], {"O": None}),
    ("LUT3", "INIT", ["I0", "I1", "I2"], {"O": None}),
    ("LUT4", "INIT", ["I0", "I1", "I2", "I3"], {"O": None}),
    ("LUT4", "INIT", ["A", "B", "C", "D"], {"Z": None}),
    ("SB_LUT4", "LUT_INIT", ["I0", "I1", "I2", "I3"], {"O": None}),
    ("LUT5", "INIT", ["I0", "I1", "I2", "I3", "I4"], {"O": None}),
    ("LUT6", "INIT", ["I0", "I1", "I2", "I3", "I4", "I5"], {"O": None}),
    ("LUT6_2", "INIT", ["I0", "I1", "I2", "I3", "I4", "I5"], {"O5": 5, "O6": None}),
]


def test_primitives_agree_with_their_tables_on_all_inputs():
    rng = random.Random(0)
    text = []
    expected = []
    for name, parameter, inputs, outputs in CELLS * 3:
        size = 1 << len(inputs)
        table = rng.getrandbits(size)
        pins = [f".{pin}(i__payload[{n}])" for n, pin in enumerate(inputs)]
        for output, always_low in outputs.items():
            pins.append(f".{output}(o__payload[{len(expected)}])")
            mask = size - 1 if always_low is None else (size - 1) & ~(1 << always_low)
            expected.append([table >> (word & mask) & 1 for word in range(64)])
        text.append(
            f"{name} #(.{parameter}({size}'h{table:x})) u{len(text)} ({', '.join(pins)});\n"
        )
    width = len(expected)
    source = (
        f"module top(input clk, rst, input [5:0] i__payload, input i__valid, output i__ready,\n"
        f"output [{width - 1}:0] o__payload, output o__valid, input o__ready);\n"
        "assign i__ready = o__ready; assign o__valid = i__valid;\n" + "".join(text) + "endmodule\n"
    )
    sources = {"top.v": source, "primitives.v": primitives()}
    cells = compile_design(sources, in_width=6, out_width=width)
    trace = cells.run(np.arange(64, dtype=np.uint8).reshape(64, 1), expect=64)
    found = np.unpackbits(trace.outputs, axis=1, bitorder="little")[:, :width]
    assert np.array_equal(found, np.array(expected).T)
