"""Exported networks: other tools compute the same, and the way back gives the same netlist."""

import json

import numpy as np
import pytest

pytest.importorskip("onnx", reason="needs onnx (pip install 'sbnn-hw[qonnx]')")

import onnx
from conftest import ROOT
from random_models import random_convnet, random_mlp, random_pixels
from random_networks import (
    random_images,
    random_level_network,
    random_map_network,
    random_vector_network,
)

from sbnn_hw.cli import main
from sbnn_hw.errors import ModelRejected
from sbnn_hw.models import open_network
from sbnn_hw.netlist import (
    Conv2d,
    Edge,
    Encode,
    Flatten,
    Network,
    Scores,
    Stage,
    Taps,
    Window,
    save,
)
from sbnn_hw.qonnx import export_network, import_network
from sbnn_hw.qonnx.export import save_network
from sbnn_hw.train import fold_checkpoint, fold_model

DOMAINS = ("learned", "closed_form", "symmetric", "bnn", "zero", "signed")


def folded(seed):
    """Return the network of a random model, and its images' shape."""
    rng = np.random.default_rng(seed)
    make = random_mlp if seed // len(DOMAINS) % 2 else random_convnet
    model, shape = make(rng, DOMAINS[seed % len(DOMAINS)])
    return fold_model(model, shape).network, random_pixels(rng, shape, 100)


def way_back(network, folder):
    """Return the netlist that the file of a network means."""
    save_network(network, folder / "net.onnx")
    return import_network(folder / "net.onnx").network


@pytest.mark.parametrize("seed", range(36))
def test_the_way_back_gives_the_same_netlist(tmp_path, seed):
    network, _ = folded(seed)
    assert way_back(network, tmp_path).digest == network.digest


def test_scores_that_tap_everything_with_an_offset_come_back(tmp_path):
    conv = Conv2d(
        taps=Taps.from_dense(np.array([[0, 1, 0, 0, 0, 0, 0, 1], [0, 0, 0, 0, 1, 1, 1, 0]])),
        xi=3,
        k=1,
        thresholds=[[10, 15]],
        flips=[True, True],
        fixed=[],
        channels=2,
        window=Window((2, 2), (2, 2)),
    )
    scores = Scores(
        taps=Taps.from_dense(np.array([[1, 1], [1, 1]])), negative=False, shift=0, offsets=[1, 0]
    )
    stages = (
        Stage("encode", Encode([[100], [100]]), (-1,)),
        Stage("conv0", conv, (0,)),
        Stage("flatten0", Flatten(), (1,)),
        Stage("scores", scores, (2,)),
    )
    network = Network(Edge.of_bits((2, 2, 2), 8, scan="raster"), stages)
    assert way_back(network, tmp_path).digest == network.digest


def test_scores_whose_weights_are_all_there_come_back(tmp_path):
    import torch

    from sbnn_hw.train.layers import (
        InputEncoder,
        SignActivation,
        SparseBinaryLinear,
        SparseBinaryScores,
    )

    torch.manual_seed(0)
    model = torch.nn.Sequential(
        InputEncoder("threshold", [100]),
        torch.nn.Flatten(),
        SparseBinaryLinear(4, 6, domain="bnn"),
        torch.nn.BatchNorm1d(6),
        SignActivation(),
        SparseBinaryScores(6, 3, domain="signed"),
    )
    with torch.no_grad():
        model[5].weight.copy_(torch.randn(3, 6).sign())
    network = fold_model(model.eval(), (2, 2, 1)).network
    assert len(network.stages[-1].operation.taps.indices) == 18
    assert way_back(network, tmp_path).digest == network.digest


@pytest.mark.parametrize("seed", range(0, 36, 3))
def test_other_tools_compute_the_same_scores(tmp_path, seed):
    executor = pytest.importorskip("executor", reason="needs qonnx's executor")
    network, pixels = folded(seed)
    save_network(network, tmp_path / "net.onnx")
    tensors = executor.evaluate(tmp_path / "net.onnx", executor.feed(pixels, "raw"))
    assert np.array_equal(list(tensors.values())[-1], network.compute(pixels).scores)


@pytest.mark.parametrize("name", ["digits", "mnist_sfc_98", "mnist_sfc_95"])
def test_shipped_models_survive_the_round_trip(tmp_path, name):
    network = fold_checkpoint(ROOT / f"models/{name}.pt").network
    save_network(network, tmp_path / "net.onnx")
    assert open_network(tmp_path / "net.onnx").digest == network.digest


def leaves_out(network):
    return any(len(getattr(stage.operation, "fixed", ())) for stage in network.stages)


@pytest.mark.parametrize("seed", range(24))
def test_any_integer_network_is_exported(tmp_path, seed):
    """Networks that no training made: thresholds of borders may belong to no neuron."""
    rng = np.random.default_rng(seed)
    make = (random_map_network, random_vector_network, random_level_network)[seed % 3]
    network = make(rng)
    while network.input.bits != 8 or leaves_out(network):
        network = make(rng)
    save_network(network, tmp_path / "net.onnx")
    back = import_network(tmp_path / "net.onnx").network
    pixels = random_images(rng, network, 200)
    assert np.array_equal(back.compute(pixels).classes, network.compute(pixels).classes)


def test_inputs_that_are_left_out_must_be_constant():
    networks = map(random_vector_network, map(np.random.default_rng, range(99)))
    network = next(n for n in networks if n.input.bits == 8 and leaves_out(n))
    with pytest.raises(
        ModelRejected, match=r"^Stage linear2 does not count some inputs that are not constant"
    ):
        export_network(network)


def test_pixels_of_other_than_8_bits_are_refused():
    network = random_vector_network(np.random.default_rng(0))
    with pytest.raises(ModelRejected, match=r"^Pixels must have 8 bits to be exported, not 4$"):
        export_network(network)


def test_the_same_network_gives_the_same_bytes():
    network, _ = folded(0)
    assert export_network(network) == export_network(network)


def test_the_file_is_a_valid_model_with_its_types(tmp_path):
    network = fold_checkpoint(ROOT / "models/digits.pt").network
    model = onnx.ModelProto.FromString(export_network(network))
    onnx.checker.check_model(model)
    kinds = {
        item.tensor_name: item.quant_parameter_tensor_names[0].value
        for item in model.graph.quantization_annotation
    }
    assert kinds["image"] == "UINT8"
    assert kinds["encode_sign_out"] == "BIPOLAR"
    layers = json.loads({p.key: p.value for p in model.metadata_props}["sbnn_hw.layers"])
    stages = {s.name: s.operation for s in network.stages}
    assert layers["linear0"] == [stages["linear0"].xi, stages["linear0"].k]


def test_sums_that_floats_would_round_are_doubles(tmp_path):
    """A ξ off the grid needs many bits; float32 holds 24 of them."""
    network, _ = folded(18)
    assert network.stages[1].operation.k > 13
    model = onnx.ModelProto.FromString(export_network(network))
    assert model.graph.input[0].type.tensor_type.elem_type == onnx.TensorProto.DOUBLE
    (tmp_path / "net.onnx").write_bytes(model.SerializeToString())
    assert import_network(tmp_path / "net.onnx").network.digest == network.digest


def test_commands_take_and_give_every_form(tmp_path, capsys):
    """checkpoint → .onnx → .json → .sbnn, all the same network."""
    digests = set()
    source = ROOT / "models/digits.pt"
    for name in ("a.onnx", "b.json", "c.sbnn", "d.onnx"):
        assert (
            main(["export", "--model", str(source), "--out", str(tmp_path / name), "--json"]) == 0
        )
        answer = json.loads(capsys.readouterr().out)
        assert answer["file"] == str(tmp_path / name)
        digests.add(answer["digest"])
        source = tmp_path / name
    assert len(digests) == 1
    for name in ("a.onnx", "b.json"):
        assert main(["eval", "--model", str(tmp_path / name), "--data", "digits", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["correct"] == 335
    fold = ["fold", "--model", str(tmp_path / "a.onnx"), "--out", str(tmp_path / "e.sbnn")]
    assert main(fold) == 0
    assert "pixels       raw: p itself" in capsys.readouterr().out
    assert main([*fold, "--data", "digits"]) == 2
    assert "omit --data for ONNX" in capsys.readouterr().err
    assert main(["export", "--model", str(source), "--out", "a.txt"]) == 2
    assert "must end in .onnx, .sbnn or .json, not 'a.txt'" in capsys.readouterr().err


def test_without_onnx_it_says_what_to_install(tmp_path, monkeypatch, capsys):
    network, _ = folded(1)
    save(network, tmp_path / "net.sbnn")
    monkeypatch.setattr("importlib.util.find_spec", lambda name, *rest: None)
    for arguments in (
        ["export", "--model", str(tmp_path / "net.sbnn"), "--out", str(tmp_path / "net.onnx")],
        ["info", "--model", str(tmp_path / "any.onnx")],
    ):
        assert main(arguments) == 3
        assert capsys.readouterr().err == (
            "E: ONNX files need the onnx package (pip install 'sbnn-hw[qonnx]')\n"
        )
