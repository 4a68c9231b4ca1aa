"""Simulated boards with SPI for the tests: a network behind its shell, and a master."""

import ctypes
import re

from conftest import ROOT
from shells import CLOCK_HZ, LEDS, Rig

from sbnn_hw.boards.clocks import SPI_DIVISOR
from sbnn_hw.boards.links import SPI
from sbnn_hw.boards.protocol import ANSWER, IDLE, REQUEST, Parser, pack
from sbnn_hw.boards.shell import Shell
from sbnn_hw.rtl_gen.design import generate
from sbnn_hw.rtl_gen.lower import Options
from sbnn_hw.rtl_gen.verilog import to_verilog
from sbnn_hw.sim.build import compile_once
from sbnn_hw.sim.library import open_library, primitives, quiet_about

_BENCH = f"""\
module sbnn_bench (
  input clk,
  input next_rst,
  input next_cs_n,
  input next_sck,
  input next_mosi,
  output miso,
  output miso_oe,
  output ready,
  output [{LEDS}-1:0] leds
);
  reg rst = 1'b1;
  reg cs_n = 1'b1;
  reg sck = 1'b0;
  reg mosi = 1'b1;
  always @(posedge clk) begin
    rst <= next_rst;
    cs_n <= next_cs_n;
    sck <= next_sck;
    mosi <= next_mosi;
  end
  shell dut (
    .clk(clk), .rst(rst), .cs_n(cs_n), .sck(sck), .mosi(mosi),
    .miso(miso), .miso_oe(miso_oe), .ready(ready), .leds(leds)
  );
endmodule
"""


class _Talk(ctypes.Structure):
    # The same, in the same order, as in spi_master.cpp.
    _fields_ = (
        ("sent", ctypes.c_char_p),
        ("heard", ctypes.c_void_p),
        ("bits", ctypes.c_uint64),
        ("period", ctypes.c_double),
        ("noise", ctypes.c_double),
    )


_HANDLE = ctypes.c_void_p
_CALLS = {
    "spi_create": (_HANDLE, [ctypes.c_uint64]),
    "spi_destroy": (None, [_HANDLE]),
    "spi_error": (ctypes.c_char_p, [_HANDLE]),
    "spi_ready": (ctypes.c_uint, [_HANDLE]),
    "spi_drives": (ctypes.c_uint, [_HANDLE]),
    "spi_lights": (ctypes.c_uint, [_HANDLE]),
    "spi_wait": (None, [_HANDLE, ctypes.c_double]),
    "spi_select": (None, [_HANDLE, ctypes.c_uint, ctypes.c_double]),
    "spi_transfer": (None, [_HANDLE, ctypes.POINTER(_Talk)]),
}


class Master:
    """A board that was just reset, and the master of its line.

    The clock of the line takes ``period`` clocks of the board. Each bit on the line, in either
    direction, is turned round with the probability ``noise``.
    """

    def __init__(self, path, *, period=SPI_DIVISOR, noise=0.0, seed=0):
        self.period, self.noise = period, noise
        self._calls = open_library(path, _CALLS)
        self._handle = self._calls.spi_create(seed)
        self._selected = False
        self.parser = Parser(ANSWER, 1 << 16)

    def close(self):
        if self._handle:
            self._calls.spi_destroy(self._handle)
            self._handle = 0

    def _check(self):
        error = self._calls.spi_error(self._handle).decode()
        assert not error, error

    @property
    def ready(self):
        return bool(self._calls.spi_ready(self._handle))

    @property
    def drives(self):
        return bool(self._calls.spi_drives(self._handle))

    @property
    def lights(self):
        return self._calls.spi_lights(self._handle)

    def wait(self, clocks):
        self._calls.spi_wait(self._handle, clocks)
        self._check()

    def select(self, on):
        self._calls.spi_select(self._handle, on, self.period)
        self._selected = on

    def transfer(self, data, *, keep=False, bits=None):
        """Exchange bytes, or only so many bits; return what came. Deselect the board, or keep it."""
        heard = ctypes.create_string_buffer(len(data))
        talk = _Talk(
            data,
            ctypes.addressof(heard),
            8 * len(data) if bits is None else bits,
            self.period,
            self.noise,
        )
        if not self._selected:
            self.select(True)
        self._calls.spi_transfer(self._handle, ctypes.byref(talk))
        if not keep:
            self.select(False)
        self._check()
        return heard.raw

    def listen(self, size=1 << 16, clocks=20_000):
        """Wait until an answer is ready, and read it; return the bytes."""
        while not self.ready and clocks > 0:
            self.wait(100)
            clocks -= 100
        came = b""
        while self.ready and len(came) < size:
            came += self.transfer(bytes([IDLE]), keep=True)
        if self._selected:
            self.select(False)
        return came

    def ask(self, kind, number, payload=b""):
        """Send a packet; return the packets that come."""
        came = self.transfer(pack(REQUEST, kind, number, payload))
        return self.parser.feed(came + self.listen())


class SpiRig(Rig):
    def master(self, **options):
        return Master(self.library, **options)


def make_spi_rig(network, *, edit=(), **options):
    """Return the board of a network; ``edit`` plants faults in the text of its shell."""
    made = generate(network, Options(family="generic", **options))
    shell = Shell(made.design, divisor=SPI_DIVISOR, clock_hz=CLOCK_HZ, leds=LEDS, link=SPI)
    text = to_verilog(shell, "shell")
    for pattern, fault in edit:
        text, found = re.subn(pattern, fault, text)
        assert found, f"nothing is like {pattern}"
    sources = {"primitives.v": primitives(), "top.v": made.verilog, "shell.v": text}
    return SpiRig(network, made.design, made.verilog, compile_master(sources))


def compile_master(sources):
    """Compile a board's Verilog to a library for :class:`Master`."""
    texts = {
        "sbnn_bench.v": _BENCH,
        "sbnn_bench.vlt": quiet_about(sources),
        "cpp/design.h": '#include "Vdesign.h"\n',
        "cpp/spi_master.cpp": (ROOT / "tests/spi_master.cpp").read_text(),
    }
    return compile_once(sources, texts, many=True, progress=None)
