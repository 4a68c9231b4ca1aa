"""Toy boards that can be loaded: every byte of their program decides what they answer.

A toy takes an image pixel by pixel, mixes it, and then walks through its program, some cycles a
byte. An answer is right only if the whole program is.
"""

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from shells import CLOCK_HZ, DIVISOR, LEDS

from sbnn_hw.boards.protocol import Command, Identity, Wire
from sbnn_hw.boards.shell import Shell
from sbnn_hw.design import Design, InputStream, OutputStream, ProgramPort
from sbnn_hw.rtl_gen.verilog import to_verilog
from sbnn_hw.sim.line import Line, compile_line

SHAPE = "0123456789abcdef"

_TOP = """\
module top (
  input clk, input rst,
  input [7:0] i__payload, input i__valid, output i__ready,
  output [24:0] o__payload, output o__valid, input o__ready,
  input program__reset, input program__valid, input [7:0] program__byte
);
  reg [7:0] words [0:{size}-1];
{init}
  reg [15:0] written = 0;
  reg [15:0] left = {pixels};
  reg [15:0] at = 0;
  reg [7:0] wait_ = 0;
  reg [23:0] mixed = 0;
  reg full = 0;
  wire [7:0] word = words[at];
  assign i__ready = left != 0 && !full;
  assign o__valid = full;
  assign o__payload = {{mixed, ^mixed}};
  always @(posedge clk) begin
    if (program__valid) begin
      if (written < {size}) words[written] <= program__byte;
      written <= written + 1;
    end
    if (i__valid && i__ready) begin
      mixed <= {{mixed[18:0], mixed[23:19]}} ^ i__payload;
      left <= left - 1;
    end else if (left == 0 && !full) begin
      wait_ <= wait_ + 1;
      if (wait_ == {pace} - 1) begin
        wait_ <= 0;
        mixed <= ({{mixed[18:0], mixed[23:19]}} ^ word) + 24'd77;
        at <= at + 1;
        full <= at == {size} - 1;
      end
    end else if (full && o__ready) begin
      full <= 0; left <= {pixels}; at <= 0; mixed <= 0;
    end
    if (rst || program__reset) begin
      written <= 0; left <= {pixels}; at <= 0; wait_ <= 0; mixed <= 0; full <= 0;
    end
  end
endmodule
"""


@dataclass
class Toy:
    """A board that can be loaded, and the network and program that it was built with."""

    design: Design
    network: str
    program: bytes
    library: Path

    @property
    def wire(self):
        """How its images look on the line."""
        return Wire.of(self.design)

    def line(self, **noise):
        """Return a board that was just reset."""
        return Line(self.library, self.design, divisor=DIVISOR, **noise)

    def results(self, pixels, program=None):
        """Return the bytes that must come back for images."""
        return b"".join(answer(self.program if program is None else program, one) for one in pixels)


def answer(program, image):
    """Return the result of an image, as a toy gives it."""
    mixed = 0
    for byte in np.ravel(image).tolist():
        mixed = (mixed << 5 & 0xFFFFFF | mixed >> 19) ^ byte
    for byte in program:
        mixed = ((mixed << 5 & 0xFFFFFF | mixed >> 19) ^ byte) + 77 & 0xFFFFFF
    return (mixed << 1 | mixed.bit_count() & 1).to_bytes(4, "little")


def toy_design(size, *, shape=(8, 4, 1), pace=1, loadable=True):
    """Return the description of a toy with a program of some bytes."""
    pixels = int(np.prod(shape))
    return Design(
        network="5b" * 32,
        options={"family": "generic", "levels_per_stage": 3},
        input=InputStream(pixels, 0, 8, 8, shape),
        output=OutputStream(25, 1, 12, 2),
        latency=pixels + size * pace + 2,
        interval=pixels + size * pace + 2,
        stages=(),
        program=ProgramPort(size, SHAPE) if loadable else None,
    )


def toy_sources(size, *, pace=1, edit=(), shape=(8, 4, 1), **shell):
    """Return a toy's design, program and Verilog; ``edit`` plants faults in the text of its shell."""
    design = toy_design(size, shape=shape, pace=pace)
    program = bytes(range(7, 7 + size))
    init = "".join(f"  initial words[{n}] = {byte};\n" for n, byte in enumerate(program))
    top = _TOP.format(size=size, pixels=int(np.prod(shape)), pace=pace, init=init)
    shell = {"divisor": DIVISOR, **shell}
    text = to_verilog(Shell(design, clock_hz=CLOCK_HZ, leds=LEDS, **shell), "shell")
    for pattern, fault in edit:
        text, found = re.subn(pattern, fault, text)
        assert found, f"nothing is like {pattern}"
    return design, program, {"top.v": top, "shell.v": text}


def make_toy(size, **options):
    """Return a board whose program has some bytes; each takes ``pace`` cycles of every image."""
    design, program, sources = toy_sources(size, **options)
    library = compile_line(sources, design, divisor=DIVISOR, leds=LEDS)
    return Toy(design, design.network, program, library)


def identity(talk):
    """Return who a board says that it is."""
    (packet,) = talk.ask(Command.IDENTIFY, 500)
    return Identity.from_bytes(packet.payload)
