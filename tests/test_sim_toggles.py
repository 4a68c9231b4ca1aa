"""Toggles: a tiny design counted by hand, and generated ones against the network itself."""

import json

import numpy as np
import pytest
from designs import described
from random_networks import random_images, random_vector_network

from sbnn_hw.errors import ToolFailed, UsageError
from sbnn_hw.rtl_gen.design import generate
from sbnn_hw.rtl_gen.lower import Options
from sbnn_hw.sim.library import compile_design, primitives
from sbnn_hw.sim.toggles import count_toggles, find_signals, make_public
from sbnn_hw.vectors import pack_images
from sbnn_hw.yosys import run_yosys

# Written as the generator writes: one table, and behind it a register of two bits.
TINY = r"""
module top(clk, rst, i__payload, i__valid, i__ready, o__payload, o__valid, o__ready);
  input clk;
  wire clk;
  input rst;
  wire rst;
  input [1:0] i__payload;
  wire [1:0] i__payload;
  input i__valid;
  wire i__valid;
  output i__ready;
  wire i__ready;
  output [1:0] o__payload;
  wire [1:0] o__payload;
  output o__valid;
  wire o__valid;
  input o__ready;
  wire o__ready;
  \top.part  part (
    .clk(clk),
    .i__payload(i__payload),
    .i__valid(i__valid),
    .o_payload(o__payload),
    .o_valid(o__valid)
  );
  assign i__ready = 1'h1;
endmodule

module \top.part (clk, i__payload, i__valid, o_payload, o_valid);
  input clk;
  wire clk;
  input [1:0] i__payload;
  wire [1:0] i__payload;
  input i__valid;
  wire i__valid;
  output [1:0] o_payload;
  reg [1:0] o_payload = 2'h0;
  output o_valid;
  reg o_valid = 1'h0;
  reg [1:0] \$1 ;
  wire n0;
  wire copy;
  always @(posedge clk)
    o_payload <= \$1 ;
  always @(posedge clk)
    o_valid <= i__valid;
  LUT2 #(
    .INIT(4'h6)
  ) n0_lut (
    .I0(i__payload[0]),
    .I1(i__payload[1]),
    .O(n0)
  );
  assign copy = n0;
  always @* begin
    \$1 = { copy, i__payload[0] };
  end
endmodule
"""
TINY_DESIGN = described((1, 1, 1), value_bits=2, index_bits=2, latency=1)


def tiny_images(*values):
    return np.array(values, np.uint8).reshape(-1, 1, 1, 1)


def test_tiny_design_has_one_table_and_three_flip_flops():
    found = {(s.path, s.kind, s.bits) for s in find_signals(TINY)}
    assert found == {
        ("part.o_payload", "register", (0, 1)),
        ("part.o_valid", "register", (0,)),
        ("part.n0", "table", (0,)),
    }


def test_tiny_design_toggles_as_often_as_by_hand():
    """Images 0, 1, 3, 2, 2: their parity is 0 1 0 1 1, and their lowest bit 0 1 1 0 0.

    The table follows at once: 3 toggles. The register has both a clock later: 3 and 2, and valid
    rises once. A name that is only another one for the table's output must not count again.
    """
    toggles = count_toggles(TINY, TINY_DESIGN, tiny_images(0, 1, 3, 2, 2))
    assert (toggles.tables, toggles.registers) == (3, 3 + 2 + 1)
    assert (toggles.table_bits, toggles.register_bits) == (1, 3)
    assert (toggles.images, toggles.cycles) == (5, 6)
    assert toggles.each == 9 / 5


def test_what_does_not_change_does_not_toggle():
    toggles = count_toggles(TINY, TINY_DESIGN, tiny_images(0, 0, 0))
    assert (toggles.tables, toggles.registers) == (0, 1)  # valid alone


def test_refuses_no_images_and_no_top():
    with pytest.raises(UsageError, match=r"^There must be one image or more to simulate$"):
        count_toggles(TINY, TINY_DESIGN, tiny_images())
    with pytest.raises(
        UsageError, match=r"^There is no module top in the Verilog; generate the design again$"
    ):
        find_signals(TINY.replace("module top(", "module other("))


def test_says_when_a_signal_cannot_be_seen(monkeypatch):
    monkeypatch.setattr("sbnn_hw.sim.toggles.make_public", lambda text: text)
    with pytest.raises(
        ToolFailed, match=r"^Verilator shows no signal part\.o_payload of the design$"
    ):
        count_toggles(TINY, TINY_DESIGN, tiny_images(0, 1))


@pytest.fixture(scope="module")
def generated():
    network = random_vector_network(np.random.default_rng(5), layers=2)
    design = generate(network, Options(family="xc7"))
    return network, design


def test_finds_every_table_and_register_of_a_generated_design(generated):
    """Yosys reads the same text, and counts the bits of registers and the outputs of tables."""
    _, design = generated
    script = "read_verilog top.v\nproc -noopt\ntee -q -o cells.json stat -json -width\n"
    written = run_yosys(script, {"top.v": design.verilog})
    registers = tables = 0
    for module in json.loads(written["cells.json"])["modules"].values():
        for cell, count in module["num_cells_by_type"].items():
            if cell.startswith("$dff_"):
                registers += int(cell.removeprefix("$dff_")) * count
            elif cell.startswith("LUT"):
                tables += (2 if cell == "LUT6_2" else 1) * count
    signals = find_signals(design.verilog)
    assert registers == sum(len(s.bits) for s in signals if s.kind == "register") > 0
    assert tables == sum(len(s.bits) for s in signals if s.kind == "table") > 0
    assert make_public(design.verilog).count("public_flat_rd") == len(signals)


def test_one_image_more_toggles_by_the_bits_in_which_it_differs(generated):
    network, made = generated
    design = made.design
    pixels = random_images(np.random.default_rng(0), network, 12)
    library = compile_design(
        {"primitives.v": primitives(), "top.v": make_public(made.verilog)},
        in_width=design.input.width,
        out_width=design.output.width,
        watch=True,
    )
    hidden = [s.name for s in design.stages if s.kind == "linear" and s.payload]
    assert hidden
    values = network.compute(pixels, keep=hidden).values
    changes = [
        library.run(pack_images(pixels[:count], design.input), expect=count).changes
        for count in range(1, len(pixels) + 1)
    ]
    for name in hidden:
        absent = next(s.absent for s in network.stages if s.name == name)
        bits = np.delete(values[name], absent, axis=1)
        for number in range(1, len(pixels)):
            path = f"{name}.o_payload"
            more = int(changes[number][path].sum()) - int(changes[number - 1][path].sum())
            assert more == (bits[number] != bits[number - 1]).sum()
