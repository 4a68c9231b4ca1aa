"""A new operation is a file in netlist/ and one in rtl_gen/: nothing else has to know of it."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from sbnn_hw import netlist
from sbnn_hw.cli import main
from sbnn_hw.errors import ModelRejected
from sbnn_hw.netlist import Edge, Encode, Flatten, Linear, Network, Operation, Scores, Stage, Taps
from sbnn_hw.netlist.view import from_view, to_view
from sbnn_hw.rtl_gen.candidate import Candidate, realises
from sbnn_hw.rtl_gen.design import generate
from sbnn_hw.rtl_gen.lower import Options, lower
from sbnn_hw.sim.agreement import check_agreement


@dataclass(frozen=True, eq=False)
class Invert(Operation):
    """Hand on the complement of every bit."""

    kind: ClassVar[str] = "invert"

    def infer(self, edge):
        if (edge.low, edge.high) != (0, 1):
            raise ModelRejected(
                f"It takes bits, but receives values from {edge.low} to {edge.high}"
            )
        return edge

    def compute(self, x, edge):
        return 1 - x

    def reads(self, wanted, edge):
        return (wanted,)


@realises("invert")
def invert(place):
    """Yield inverters, which vanish into the tables behind them."""
    yield Candidate({place.name: place.tables(place.width, lambda _, bits: [b ^ 1 for b in bits])})


@dataclass(frozen=True, eq=False)
class Either(Operation):
    """The OR of two sources: no hardware is entered for it."""

    kind: ClassVar[str] = "either"
    arity: ClassVar[int] = 2

    def infer(self, left, right):
        if left != right:
            raise ModelRejected(f"It takes two equal edges, but receives {left} and {right}")
        return left

    def compute(self, x, y, left, right):
        return x | y


def linear(rng, inputs, neurons):
    taps = Taps.from_dense((rng.random((neurons, inputs)) < 0.4).astype(int))
    return Linear(
        taps=taps,
        xi=0,
        k=0,
        thresholds=np.maximum(1, taps.fan_in // 2)[None],
        flips=np.zeros(neurons, bool),
        fixed=np.zeros(0, int),
    )


def scores(rng, inputs, classes=3):
    taps = Taps.from_dense((rng.random((classes, inputs)) < 0.5).astype(int))
    return Scores(taps=taps, negative=False, shift=0, offsets=np.zeros(classes, int))


def inverted(rng):
    """Return a network with a toy operation in its middle."""
    stages = (
        Stage("encode", Encode(np.array([[128]])), (-1,)),
        Stage("flatten", Flatten(), (0,)),
        Stage("turn", Invert(), (1,)),
        Stage("linear0", linear(rng, 16, 6), (2,)),
        Stage("scores", scores(rng, 6), (3,)),
    )
    return Network(Edge.of_bits((4, 4, 1), 8, scan="raster"), stages)


def test_a_new_operation_computes_and_is_kept():
    network = inverted(np.random.default_rng(0))
    pixels = np.random.default_rng(1).integers(0, 256, (20, 4, 4, 1))
    values = network.compute(pixels, keep=["flatten", "turn"]).values
    assert (values["turn"] == 1 - values["flatten"]).all()
    assert from_view(to_view(network)).digest == network.digest


def test_a_new_operation_is_written_and_read(tmp_path):
    network = inverted(np.random.default_rng(0))
    netlist.save(network, tmp_path / "net.sbnn")
    assert netlist.load(tmp_path / "net.sbnn").digest == network.digest


@pytest.mark.parametrize("how", ["image", "pixel"])
def test_a_new_operation_becomes_hardware(how):
    network = inverted(np.random.default_rng(2))
    pixels = np.random.default_rng(3).integers(0, 256, (50, 4, 4, 1))
    design = generate(network, Options(input=how))
    agreement = check_agreement(network, design.verilog, design.description, pixels, inside=True)
    assert agreement.equal
    assert agreement.values > 0


def test_a_new_operation_is_shown(tmp_path, capsys):
    netlist.save(inverted(np.random.default_rng(0)), tmp_path / "net.sbnn")
    assert main(["info", "--model", str(tmp_path / "net.sbnn")]) == 0
    assert "turn (invert)" in capsys.readouterr().out


def test_an_operation_without_hardware_is_refused():
    from sbnn_hw.rtl_gen import candidate

    network = inverted(np.random.default_rng(0))
    entered = candidate._REALISATIONS.pop("invert")
    try:
        with pytest.raises(ModelRejected, match=r"^Stage turn: no hardware is generated for the "):
            lower(network, Options())
    finally:
        candidate._REALISATIONS["invert"] = entered


def joined(rng):
    """Return a network in which one stage has two sources."""
    stages = (
        Stage("encode", Encode(np.array([[128]])), (-1,)),
        Stage("flatten", Flatten(), (0,)),
        Stage("left", linear(rng, 16, 6), (1,)),
        Stage("right", linear(rng, 16, 6), (1,)),
        Stage("join", Either(), (2, 3)),
        Stage("scores", scores(rng, 6), (4,)),
    )
    return Network(Edge.of_bits((4, 4, 1), 8, scan="raster"), stages)


def test_a_stage_may_have_two_sources(tmp_path):
    network = joined(np.random.default_rng(4))
    netlist.save(network, tmp_path / "net.sbnn")
    loaded = netlist.load(tmp_path / "net.sbnn")
    assert loaded.digest == network.digest
    assert loaded.stages[4].sources == (2, 3)
    pixels = np.random.default_rng(5).integers(0, 256, (20, 4, 4, 1))
    values = loaded.compute(pixels, keep=["left", "right", "join"]).values
    assert (values["join"] == (values["left"] | values["right"])).all()
    assert (values["join"] != values["left"]).any()


def test_what_is_no_chain_is_refused_by_lowering():
    network = joined(np.random.default_rng(4))
    with pytest.raises(ModelRejected, match=r"^Stage right does not read the stage in front of it"):
        lower(network, Options())


def test_a_stage_has_as_many_sources_as_its_operation_takes():
    with pytest.raises(ModelRejected, match=r"^Stage join must have 2 sources, not \(1,\)$"):
        Stage("join", Either(), (1,))


def test_a_kind_names_one_operation():
    with pytest.raises(ValueError, match=r"^Kind 'invert' must name one operation"):
        type("Other", (Operation,), {"kind": "invert"})
