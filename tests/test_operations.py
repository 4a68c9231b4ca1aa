"""A new operation is a file in netlist/ and one in rtl_gen/: nothing else has to know of it."""

import numpy as np
import pytest
from toys import Either, Invert

from sbnn_hw import bops, netlist
from sbnn_hw.cli import main
from sbnn_hw.errors import ModelRejected
from sbnn_hw.fold.assemble import Assembler
from sbnn_hw.fold.unread import drop_unread
from sbnn_hw.netlist import (
    Edge,
    Encode,
    Flatten,
    Linear,
    Network,
    Operation,
    Scores,
    Stage,
    Taps,
    Work,
)
from sbnn_hw.netlist.view import from_view, to_view, view_schema
from sbnn_hw.qonnx import export_network
from sbnn_hw.rtl_gen.design import generate
from sbnn_hw.rtl_gen.estimate import estimate
from sbnn_hw.rtl_gen.lower import Options, lower
from sbnn_hw.sim.agreement import check_agreement
from sbnn_hw.zoo.densify import densify


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
    made = generate(network, Options(input=how))
    agreement = check_agreement(network, made.verilog, made.design, pixels, inside=True)
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
        with pytest.raises(ModelRejected, match=r"^Stage turn: no hardware is generated for the "):
            estimate(network, "xc7")
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


@pytest.mark.parametrize("how", ["image", "pixel"])
def test_a_stage_of_two_sources_becomes_hardware(how):
    network = joined(np.random.default_rng(4))
    pixels = np.random.default_rng(5).integers(0, 256, (50, 4, 4, 1))
    made = generate(network, Options(input=how))
    (join,) = (stage for stage in made.design.stages if stage.name == "join")
    assert join.sources == ("left", "right")
    assert [queue.source for queue in join.queues] == ["left", "right"]
    assert check_agreement(network, made.verilog, made.design, pixels, inside=True).equal


def test_a_stage_has_as_many_sources_as_its_operation_takes():
    with pytest.raises(ModelRejected, match=r"^Stage join must have 2 sources, not \(1,\)$"):
        Stage("join", Either(), (1,))


def test_a_kind_names_one_operation():
    with pytest.raises(ValueError, match=r"^Kind 'invert' must name one operation"):
        type("Other", (Operation,), {"kind": "invert"})


@pytest.mark.filterwarnings("ignore:Please use rfc3986:DeprecationWarning")
def test_the_schema_has_new_operations():
    jschon = pytest.importorskip("jschon", reason="needs jschon (pip install 'sbnn-hw[dev]')")
    jschon.create_catalog("2020-12")
    schema = jschon.JSONSchema(view_schema())
    for make in (inverted, joined):
        view = to_view(make(np.random.default_rng(4)))
        assert schema.evaluate(jschon.JSON(view)).valid
    view["stages"][4]["sources"] = [2]
    assert not schema.evaluate(jschon.JSON(view)).valid


def test_work_without_taps_is_counted_and_shown(tmp_path, capsys):
    network = joined(np.random.default_rng(4))
    counts = bops.count(network)
    assert counts.others["join"] == Work(additions=6, multiplications=2)
    assert [layer.name for layer in counts.layers] == ["left", "right", "scores"]
    netlist.save(network, tmp_path / "net.sbnn")
    assert main(["info", "--model", str(tmp_path / "net.sbnn")]) == 0
    said = capsys.readouterr().out
    rows = {line.split()[0]: line.split() for line in said.splitlines() if line}
    assert rows["join"] == ["join", "either", "left,", "right", "6", "–", "–", "6", "2"]
    # Without a join they are told in one line, and nothing but layers has a table.
    netlist.save(inverted(np.random.default_rng(0)), tmp_path / "net.sbnn")
    assert main(["info", "--model", str(tmp_path / "net.sbnn")]) == 0
    assert " → turn (invert) → " in capsys.readouterr().out
    assert bops.summarise(network)["bops"]["additions"] == 6


@pytest.mark.parametrize(("make", "stage"), [(inverted, "turn"), (joined, "join")])
def test_an_operation_without_export_is_refused(make, stage):
    pytest.importorskip("onnx")
    with pytest.raises(
        ModelRejected, match=rf"^Stage {stage}: the operation '\w+' cannot be exported to ONNX$"
    ):
        export_network(make(np.random.default_rng(0)))


def test_an_operation_without_a_dense_form_is_refused(monkeypatch):
    network = inverted(np.random.default_rng(0))
    assert densify(network).stages[2].operation is network.stages[2].operation
    monkeypatch.setattr(Invert, "connections", 3)
    with pytest.raises(
        ModelRejected, match=r"^Stage turn: no dense form of the operation 'invert' is known$"
    ):
        densify(network)


def diamond(rng):
    """Return a network of a fan-out and a join, of which the scores read channels 0 to 3 of 6."""
    taps = np.zeros((3, 6), int)
    taps[0, :2] = taps[1, 1:3] = taps[2, 2:4] = 1
    assembler = Assembler(Edge.of_bits((4, 4, 1), 8, scan="raster"))
    bits = assembler.add("encode", Encode(np.array([[128]])), assembler.input)
    flat = assembler.add("flatten", Flatten(), bits)
    left = assembler.add("left", linear(rng, 16, 6), flat)
    right = assembler.add("right", linear(rng, 16, 6), flat)
    behind = assembler.add("behind", linear(rng, 6, 6), left)
    join = assembler.add("join", Either(), behind, right)
    last = Scores(taps=Taps.from_dense(taps), negative=False, shift=0, offsets=np.zeros(3, int))
    assembler.add("scores", last, join)
    return assembler.finish(drop=False)


def test_dropping_follows_sources():
    """What one way round the diamond reads is kept, whatever the order of the list."""
    network = diamond(np.random.default_rng(6))
    assert [stage.sources for stage in network.stages[2:]] == [(1,), (1,), (2,), (4, 3), (5,)]
    read = np.array([True] * 4 + [False] * 2)
    tapped = np.zeros(6, bool)
    behind = network.stages[4].operation.taps
    tapped[np.concatenate([behind.indices[behind.of(n)] for n in range(4)])] = True
    dropped = drop_unread(network)
    assert (network.read[5] == read).all()
    assert (dropped.read[3] == read).all()
    assert (dropped.read[4] == read).all()
    assert (dropped.read[2] == tapped).all()
    for number, kept in ((2, tapped), (3, read), (4, read)):
        before, after = (net.stages[number].operation.taps.fan_in for net in (network, dropped))
        assert (after == np.where(kept, before, 0)).all()
        assert (
            dropped.stages[number].absent.tolist() == np.flatnonzero(~kept & (before > 0)).tolist()
        )
    pixels = np.random.default_rng(7).integers(0, 256, (50, 4, 4, 1))
    assert (network.compute(pixels).scores == dropped.compute(pixels).scores).all()
    # A planted fault: a neuron that is read loses its taps, and the scores show it.
    gone = np.arange(6) == 0
    stages = list(network.stages)
    stages[3] = Stage("right", stages[3].operation.without(gone, network.edge_into(3)), (1,))
    stages[4] = Stage("behind", stages[4].operation.without(gone, network.edge_into(4)), (2,))
    wrong = Network(network.input, tuple(stages))
    assert (network.compute(pixels).scores != wrong.compute(pixels).scores).any()


def test_a_new_operation_is_exported_by_its_own_function(monkeypatch):
    """Bits are −1 and 1 in ONNX, so that the complement is the negative."""
    onnx = pytest.importorskip("onnx")
    from sbnn_hw.qonnx import export

    monkeypatch.setattr(export, "EXPORTS", dict(export.EXPORTS))

    @export.exports("invert")
    def negate(place):
        return export.Exported(lambda writer: writer.node(place.name, "Neg"))

    model = onnx.load_from_string(export_network(inverted(np.random.default_rng(0))))
    assert [node.op_type for node in model.graph.node].count("Neg") == 1


def test_a_map_is_read_where_its_vector_is():
    edge = Edge((2, 3, 2))
    wanted = np.random.default_rng(0).random(12) < 0.5
    (read,) = Flatten().reads(wanted, edge)
    assert (read.reshape(-1) == wanted).all()
    assert not read.all()
