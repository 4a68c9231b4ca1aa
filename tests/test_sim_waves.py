"""Waveforms say what the netlist says, and GTKWave is shown signals that are there, in order."""

import re
import subprocess
import zlib
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import pywellen
from conftest import ROOT
from designs import described
from random_networks import random_map_network, random_vector_network

from sbnn_hw import netlist
from sbnn_hw.cli import main
from sbnn_hw.errors import ToolFailed, ToolMissing, UsageError
from sbnn_hw.hardware import Folder
from sbnn_hw.images import random_images
from sbnn_hw.sim import build
from sbnn_hw.sim.build import WAVEFORMS, usable_waveform
from sbnn_hw.sim.library import View, compile_design, primitives
from sbnn_hw.sim.waves import MOST, find_waveform, save_file
from sbnn_hw.vectors import pack_images

IMAGES, SEED = 4, 3


def needs(ending):
    try:
        usable_waveform(WAVEFORMS[ending])
    except ToolMissing as error:
        pytest.skip(str(error))


class Waves:
    """A waveform, read by a program that has nothing to do with this one."""

    def __init__(self, path):
        self._file = pywellen.Waveform(str(path))
        self._vars = {var.full_name: var for var in self._file.all_vars()}
        self.timescale = str(self._file.timescale)
        clock = self._vars["TOP.sbnn_bench.clk"].signal
        # The clock rises every 10 ns; beyond the end it stays as it is.
        self.cycles = 0
        while (clock.value_at(10 * self.cycles), clock.value_at(10 * self.cycles + 5)) == (1, 0):
            self.cycles += 1

    def width(self, path):
        """Return the bits of a signal, or None if there is none."""
        return self._vars[path].bitwidth if path in self._vars else None

    def each(self, path):
        """Return a signal's value at the end of every cycle."""
        signal = self._vars[path].signal
        return [signal.value_at(10 * cycle + 9) for cycle in range(self.cycles)]

    def words(self, strobes, payload):
        """Return a signal's values in the cycles in which all the strobes are 1."""
        columns = zip(*map(self.each, (*strobes, payload)), strict=True)
        return [word for *high, word in columns if all(high)]


@dataclass
class Group:
    """What a save file puts under one heading: how each signal is drawn, and its path and bits."""

    title: str
    rows: list

    @property
    def paths(self):
        return [path for _, path, _ in self.rows]


def groups_of(text):
    found = []
    radix = None
    for line in text.splitlines():
        if line.startswith("@"):
            radix = line
        elif line.startswith("-"):
            if radix == "@800200":
                found.append(Group(line[1:], []))
        elif line.startswith("TOP."):
            path, bits = re.fullmatch(r"(.*?)(?:\[(\d+):0\])?", line).groups()
            found[-1].rows.append((radix, path, int(bits or 0) + 1))
    return found


@pytest.fixture(scope="module")
def vector_design(tmp_path_factory):
    return made(tmp_path_factory, random_vector_network(np.random.default_rng(7), layers=2))


@pytest.fixture(scope="module")
def map_design(tmp_path_factory):
    return made(tmp_path_factory, random_map_network(np.random.default_rng(1)))


def made(tmp_path_factory, network):
    folder = tmp_path_factory.mktemp("waves")
    netlist.save(network, folder / "network.sbnn")
    out = folder / "design"
    given = ["--model", str(folder / "network.sbnn"), "--out", str(out)]
    assert main(["generate", *given]) == 0
    return out


def simulate(design, path, *options):
    given = ["--design", str(design), "--seed", str(SEED), "--waves", str(path)]
    return main(["simulate", *given, "--images", str(IMAGES), *options])


def check(folder, path):
    """Compare a waveform, through the eyes of its save file, with the netlist."""
    network, _, design = Folder(folder).load()
    pixels = random_images(network, IMAGES, SEED)
    seen = [stage for stage in design.stages if stage.payload]
    outcome = network.compute(pixels, keep=[stage.name for stage in seen])
    waves, groups = Waves(path), groups_of(path.with_suffix(".gtkw").read_text())
    assert waves.timescale == "1ns"
    for group in groups:
        for _, name, width in group.rows:
            assert waves.width(name) == width, name

    # In the order of the data.
    watched = [stage for stage in design.stages if stage.strobes]
    assert [group.title for group in groups] == [
        *("clock and reset", "input stream"),
        *(f"{stage.name} ({stage.kind})" for stage in watched),
        *("output stream", "class and scores"),
    ]
    _, entry, *inner, leaving, results = groups
    beats = pack_images(pixels, design.input)
    *strobes, payload = entry.paths
    assert waves.words(strobes, payload) == [
        int.from_bytes(row.tobytes(), "little") for row in beats
    ]

    compared = 0
    for stage, group in zip(watched, inner, strict=True):
        if stage not in seen:
            assert [radix for radix, _, _ in group.rows] == ["@28"] * len(stage.strobes)
            continue
        *strobes, payload = group.paths
        bits = outcome.values[stage.name][..., None] >> np.arange(stage.value_bits) & 1
        rows = bits.reshape(-1, stage.width)
        read = np.repeat(
            ~np.isin(np.arange(stage.width // stage.value_bits), stage.unread), stage.value_bits
        )
        given = waves.words(strobes, payload)
        assert len(given) == len(rows)
        for word, row in zip(given, rows.tolist(), strict=True):
            shown = np.array([word >> place & 1 for place in range(stage.width)])
            assert (shown == row)[read].all(), stage.name
        compared += len(rows)
    assert compared >= IMAGES * len(seen) > 0

    strobes = leaving.paths[:2]
    first, *scores = results.rows
    assert first[0] == "@24"
    assert waves.words(strobes, first[1]) == outcome.classes.tolist()
    for number, (radix, name, width) in enumerate(scores):
        assert radix == "@420"
        words = [word - (word >> width - 1 << width) for word in waves.words(strobes, name)]
        assert words == outcome.scores[:, number].tolist()
    assert len(scores) == network.classes


@pytest.mark.parametrize("ending", list(WAVEFORMS))
def test_a_waveform_holds_what_the_netlist_computes(vector_design, tmp_path, capsys, ending):
    needs(ending)
    path = tmp_path / f"some waves{ending}"
    assert simulate(vector_design, path) == 0
    said = capsys.readouterr().out
    assert f"{IMAGES} of {IMAGES} equal in class and scores" in said
    assert f"gtkwave '{path}' '{path.with_suffix('.gtkw')}'\n" in said
    assert {each.name for each in tmp_path.iterdir()} == {path.name, "some waves.gtkw"}
    assert f'[dumpfile] "{path.name}"\n' in path.with_suffix(".gtkw").read_text()
    check(vector_design, path)


@pytest.mark.long
def test_fst_needs_no_library(vector_design, tmp_path, monkeypatch):
    """Where zlib and lz4 are missing, it is written without them, and says the same."""
    needs(".fst")
    there = usable_waveform(WAVEFORMS[".fst"])
    fst = replace(WAVEFORMS[".fst"], libraries=("-lno_such_library",))
    monkeypatch.setitem(build.WAVEFORMS, ".fst", fst)
    plain = usable_waveform(fst)
    assert plain.libraries == ()
    assert there.libraries == () or plain.definitions != there.definitions
    assert simulate(vector_design, tmp_path / "plain.fst") == 0
    check(vector_design, tmp_path / "plain.fst")


_PACK = """
#include <lz4.h>
#include <zlib.h>
#include <cstdio>
#include <cstdlib>
#include <vector>
int main(int, char** argv) {
    std::vector<unsigned char> in(std::strtoul(argv[1], nullptr, 10)), out;
    if (std::fread(in.data(), 1, in.size(), stdin) != in.size()) return 1;
    uLongf room = compressBound(in.size());
    out.resize(argv[2][0] == 'z' ? room : LZ4_compressBound(in.size()));
    if (argv[2][0] == 'z') {
        if (compress2(out.data(), &room, in.data(), in.size(), 9) != Z_OK) return 1;
    } else {
        room = LZ4_compress_default((const char*)in.data(), (char*)out.data(), in.size(),
                                    out.size());
    }
    if (room > out.size()) return 2;
    return std::fwrite(out.data(), 1, room, stdout) != room;
}
"""


def unpack_lz4(data):
    """Undo lz4 where there are only literals."""
    size, at = data[0] >> 4, 1
    assert data[0] & 15 == 0
    if size == 15:
        while True:
            size, at = size + data[at], at + 1
            if data[at - 1] < 255:
                break
    assert len(data) == at + size
    return data[at:]


def test_what_stands_in_for_the_libraries_is_in_their_format(tmp_path):
    (tmp_path / "pack.cpp").write_text(_PACK)
    flags = (
        "-Wall",
        "-Wextra",
        "-Werror",
        "-fsanitize=address,undefined",
        f"-I{ROOT / 'sim/plain'}",
    )
    program = tmp_path / "pack"
    subprocess.run(["c++", *flags, tmp_path / "pack.cpp", "-o", program], check=True)
    chance = np.random.default_rng(2)
    for size in (0, 1, 14, 15, 16, 269, 270, 271, 524, 525, 65534, 65535, 65536, 131070, 200_001):
        data = chance.bytes(size)

        def packed(kind, data=data):
            command = [program, str(len(data)), kind]
            return subprocess.run(command, input=data, capture_output=True, check=True).stdout

        # zlib checks lengths and Adler-32 itself.
        assert zlib.decompress(packed("z")) == data
        assert unpack_lz4(packed("4")) == data


def test_pixels_that_hesitate_are_in_a_waveform_too(map_design, tmp_path):
    path = tmp_path / "map.vcd"
    assert simulate(map_design, path, "--stalls", "--inside") == 0
    check(map_design, path)


def test_a_design_that_is_wrong_has_a_waveform(vector_design, tmp_path, capsys):
    """That is when one wants to look."""
    text = (vector_design / "top.v").read_text()
    start = text.index("module \\top.scores")
    found = list(re.finditer(r"\.INIT\((\d+)'h([0-9a-f]+)\)", text[start:]))[-1]
    flipped = int(found[2], 16) ^ (1 << int(found[1])) - 1
    at = start + found.start(2)
    try:
        (vector_design / "top.v").write_text(
            f"{text[:at]}{flipped:x}{text[start + found.end(2) :]}"
        )
        assert simulate(vector_design, tmp_path / "out.vcd") == 7
        assert "does not compute what its network computes" in capsys.readouterr().err
        with pytest.raises(AssertionError):
            check(vector_design, tmp_path / "out.vcd")
    finally:
        (vector_design / "top.v").write_text(text)


def test_compiled_with_and_without_a_waveform_are_two(vector_design, tmp_path):
    network, verilog, design = Folder(vector_design).load()
    sources = {"primitives.v": primitives(), "top.v": verilog}
    widths = {"in_width": design.input.width, "out_width": design.output.width}
    plain = compile_design(sources, **widths)
    traced = compile_design(sources, **widths, waveform=WAVEFORMS[".vcd"])
    assert plain.path != traced.path
    beats = pack_images(random_images(network, 2, SEED), design.input)
    both = [
        library.run(beats, expect=2, waves=waves).outputs.tolist()
        for library, waves in ((plain, None), (traced, None), (traced, tmp_path / "out.vcd"))
    ]
    assert both[0] == both[1] == both[2]
    with pytest.raises(
        ToolFailed, match=r"^There is no waveform: the design was compiled without$"
    ):
        plain.run(beats, expect=2, waves=tmp_path / "plain.vcd")
    with pytest.raises(ToolFailed, match=r"^There is no waveform: the file cannot be written$"):
        traced.run(beats, expect=2, waves=tmp_path / "nowhere" / "out.vcd")


def test_wrong_waves_are_one_sentence(vector_design, tmp_path, capsys, monkeypatch):
    def said(path, *options, code=2):
        before = (vector_design / "top.v").stat()
        assert main(["simulate", "--design", str(vector_design), "--waves", path, *options]) == code
        assert (vector_design / "top.v").stat() == before
        return capsys.readouterr().err.splitlines()[-1]

    assert said("out.lxt") == "E: Waves must be a file that ends in .fst or .vcd, not out.lxt"
    path = str(tmp_path / "out.vcd")
    assert said(path, "--images", str(MOST + 1)) == (
        f"E: Images must be {MOST} or fewer with --waves, not {MOST + 1}: a waveform has every "
        "signal in every cycle (omit --waves to simulate more)"
    )
    assert said(path, "--images", "0") == "E: Images must be 1 or more, not 0"
    (tmp_path / "folder.vcd").mkdir()
    assert said(str(tmp_path / "folder.vcd"), code=6).endswith("is a folder; name a file in it")
    (tmp_path / "out.gtkw").mkdir()
    assert said(path, code=6).endswith("out.gtkw is a folder; name a file in it")
    fst = replace(WAVEFORMS[".fst"], headers=("no_such_header.h",))
    monkeypatch.setitem(build.WAVEFORMS, ".fst", fst)
    assert said(str(tmp_path / "other.fst"), code=3) == (
        "E: FST waveforms need zlib and lz4 with their headers (`apt install zlib1g-dev "
        "liblz4-dev`); a file that ends in .vcd needs nothing more"
    )
    assert sorted(each.name for each in tmp_path.iterdir()) == ["folder.vcd", "out.gtkw"]


def test_names_cannot_give_orders_to_the_viewer():
    design = described((2, 2, 1))
    text = save_file(design, 'a"b.vcd', 10)
    assert "[dumpfile]" not in text
    text = save_file(design, "a\nb.vcd", 10)
    assert "[dumpfile]" not in text
    with pytest.raises(ValueError, match=r"^Name of a view must be words joined by _, not 'x;y'$"):
        View("x;y", 0, 1, signed=False)
    with pytest.raises(UsageError):
        find_waveform(Path("out.fst.txt"))


def test_a_stage_with_a_hostile_name_stays_on_its_line(vector_design):
    _, _, design = Folder(vector_design).load()
    stage = next(stage for stage in design.stages if stage.strobes)
    hostile = replace(stage, name="x\n@28\nTOP.clk", kind="y\r")
    text = save_file(replace(design, stages=(hostile,)), "out.vcd", 10)
    assert "-x?@28?TOP.clk (y?)" in text.splitlines()
    assert not any(line == "TOP.clk" for line in text.splitlines())
