# amaranth: UnusedElaboratable=no
"""Names in generated text are those of the source, whichever Python writes it.

Amaranth names a signal after the variable it is assigned to, by the byte code around the call. Only
the plain form, one call and one variable, is read the same way by every Python.
"""

import ast
import functools
import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import numpy as np
import pytest

from sbnn_hw import netlist
from sbnn_hw.cost.memory import SHORT
from sbnn_hw.netlist import Conv2d, Edge, Flatten, Scores, Stage, Taps, Window
from sbnn_hw.rtl_gen.lower import Options
from sbnn_hw.rtl_gen.outline import outline
from sbnn_hw.yosys import find_yosys

ROOT = Path(__file__).parents[1]

#: Calls that ask for the name of a variable, and what tells it to them otherwise.
NAMED = {"Signal": "name", "like": "name", "ClockDomain": "name"}
NAMED |= {"write_port": "path", "read_port": "path", "WritePort": "path", "ReadPort": "path"}


def called(node):
    return getattr(node.func, "attr", getattr(node.func, "id", ""))


def nameless(text):
    """Return the lines of calls that are neither given a name nor assigned by themselves."""
    tree = ast.parse(text)
    plain = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        # `a.b = c = Signal()` is stored as an attribute first.
        and (len(node.targets) == 1 or isinstance(node.targets[0], ast.Attribute))
        and isinstance(node.targets[0], ast.Name | ast.Attribute)
    }
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and called(node) in NAMED
        and id(node) not in plain
        and NAMED[called(node)] not in {keyword.arg for keyword in node.keywords}
    ]


@pytest.mark.parametrize("folder", ["boards", "rtl_gen"])
def test_every_signal_has_a_name_that_each_python_finds(folder):
    found = {str(path): nameless(path.read_text()) for path in (ROOT / folder).rglob("*.py")}
    assert len(found) > 10
    assert {name: lines for name, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    ("text", "good"),
    [
        ("a = Signal()", True),
        ("a.b = c = ClockDomain()", True),
        ("a = [Signal(name=n) for n in names]", True),
        ("a, b = Signal(), Signal()", False),
        ("a = b = Signal.like(c)", False),
        ("a = [memory.read_port()]", False),
    ],
)
def test_names_that_only_some_pythons_find_are_found_out(text, good):
    assert (nameless(text) == []) == good


#: Writes the texts of a shell, of the AXI4-Stream face and of a board with a PLL. This much of the
#: project does without numpy, which is built for one Python; where there is one, of a network too.
WRITE = """
import json, pathlib, site, sys
site.addsitedir(sys.argv[1])
from amaranth.back import rtlil
from sbnn_hw.boards.clocks import plan_clock
from sbnn_hw.boards.platform import prepare_board
from sbnn_hw.boards.shell import Shell
from sbnn_hw.boards.table import BOARDS
from sbnn_hw.design import load_design
from sbnn_hw.rtl_gen.axi import AxiStream, Boxed
design = load_design(pathlib.Path(sys.argv[2]))
board = BOARDS["ulx3s_85f"]
shell = lambda divisor, leds: Shell(design, divisor=divisor, clock_hz=10**8, leds=leds)
texts = {
    "shell": rtlil.convert(shell(8, 4), emit_src=False),
    "face": rtlil.convert(AxiStream(Boxed(design), 64), emit_src=False),
    "board": prepare_board(board, shell, plan_clock(board, 80_000_000), {}).files["shell.il"],
}
try:
    import numpy
except ImportError:
    pass
else:
    from sbnn_hw import netlist
    from sbnn_hw.rtl_gen.lower import Options
    from sbnn_hw.rtl_gen.datapath import Datapath
    network = netlist.load(pathlib.Path(sys.argv[3]))
    texts["network"] = rtlil.convert(Datapath(network, Options(family="ecp5")), emit_src=False)
print(json.dumps(texts))
"""


def long_lines():
    """Return a network whose lines are so long that they lie in memories."""
    window = Window((2, 3))
    conv = Conv2d(
        taps=Taps.from_dense(np.ones((2, window.size), int)), xi=0, k=0, thresholds=[[2, 4]],
        flips=[False, True], fixed=[], channels=1, window=window,
    )  # fmt: skip
    taps = Taps.from_dense(np.ones((2, 2 * (SHORT - 1)), int))
    scores = Scores(taps=taps, negative=False, shift=0, offsets=[0, 1])
    operations = (conv, Flatten(), scores)
    stages = tuple(Stage(f"s{n}", operation, (n - 1,)) for n, operation in enumerate(operations))
    return netlist.Network(Edge((2, SHORT + 1, 1), scan="raster"), stages)


@pytest.fixture(scope="module")
def write(tmp_path_factory):
    """Return a function that lets a Python write all texts; it returns None if it cannot."""
    place = tmp_path_factory.mktemp("names")
    network = long_lines()
    design = outline(network, Options(family="ecp5"))
    (place / "design.json").write_text(design.to_json())
    netlist.save(network, place / "network.sbnn")
    files = [str(place / "design.json"), str(place / "network.sbnn")]

    @functools.cache
    def written(python):
        done = subprocess.run(
            [python, "-c", WRITE, sysconfig.get_path("purelib"), *files],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "YOSYS": find_yosys()},
        )
        return json.loads(done.stdout) if done.returncode == 0 else None

    return written


def test_no_name_of_a_shell_is_made_up(write):
    texts = write(sys.executable)
    assert set(texts) == {"shell", "face", "board", "network"}
    assert "cell $memrd" in texts["network"]
    for name in ("shell", "face", "board"):
        assert "$signal" not in texts[name], name
        assert "$signature" not in texts[name], name


def pythons(version):
    """Return the Pythons of a version: the one on PATH, and those that pyenv has installed."""
    found = [shutil.which(f"python{version}")]
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    found += map(str, sorted(pyenv.glob(f"versions/{version}.*/bin/python")))
    return list(filter(None, found))


@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13"])
def test_every_python_writes_the_same_text(version, write):
    texts = next(filter(None, map(write, pythons(version))), None)
    if texts is None:
        pytest.skip(f"no Python {version} is here that can import Amaranth")
    expected = write(sys.executable)
    for name, text in texts.items():
        assert text == expected[name], name
