"""Counts by their definitions: BOPs, entropy, and the measures of 3×3 kernels."""

import json

import numpy as np
import pytest
import torch

from sbnn_hw.bops import bparams_pr, count, count_kernels, entropy, inverse_entropy, summarise
from sbnn_hw.train import ModelConfig, build_model, fold_model
from sbnn_hw.train.sparsity import TopK, layers_of


def network_of(name, shape=(8, 8, 1), ec=0.2, recount=False, **options):
    torch.manual_seed(0)
    config = ModelConfig(name, shape, 4, **options)
    model = build_model(config).eval()
    TopK().project(layers_of(model), ec)
    for module in model.modules():
        if hasattr(module, "running_var"):
            module.running_mean.normal_()
    return fold_model(model, shape, drop_unread=False).network, model


@pytest.mark.parametrize("p", [0.001, 0.05, 0.2, 0.5])
def test_entropy_and_its_inverse(p):
    assert entropy(p) == pytest.approx(-p * np.log2(p) - (1 - p) * np.log2(1 - p))
    assert inverse_entropy(entropy(p)) == pytest.approx(p, abs=1e-9)


def test_entropy_at_the_ends():
    assert entropy(0) == entropy(1) == 0
    assert entropy(0.5) == 1
    with pytest.raises(ValueError, match=r"^Bits per weight must be between 0 and 1, not 2$"):
        inverse_entropy(2)


@pytest.mark.parametrize("domain", ["bnn", "zero", "learned"])
def test_linear_layers(domain):
    network, model = network_of("mlp:10,6", domain=domain)
    counts = count(network)
    ones = [int((layer.signs() > 0).sum()) for layer in layers_of(model)]
    assert [layer.ones for layer in counts.layers] == ones
    assert [layer.weights for layer in counts.layers] == [640, 60, 24]
    assert [layer.binary_macs for layer in counts.layers] == [640, 60, 24]
    assert [layer.dense for layer in counts.layers] == [1280, 120, 48]
    for layer, (_, _, operation) in zip(counts.layers, network.layers(), strict=True):
        # Counted tap by tap, not read back.
        assert layer.connections == sum(
            operation.taps.of(n).stop - operation.taps.of(n).start for n in range(layer.neurons)
        )
        assert layer.sparse == layer.connections + layer.q
    q = [layer.q for layer in counts.layers]
    assert q[2] == 0  # the scores drop what is common to all classes
    assert (q[0] == 0) == (domain == "zero")
    assert counts.density == sum(ones) / 724


def test_convolutions_are_counted_at_every_position_padding_included():
    network, _ = network_of(
        "conv:4,6/8", encoder="threshold", padding=1, padding_value=0, domain="bnn"
    )
    first, second, *_ = count(network).layers
    assert (first.windows, second.windows) == (64, 64)
    assert (first.inputs, second.inputs) == (9, 36)
    assert first.binary_macs == 9 * 4 * 64
    assert second.sparse == second.connections * 64 + 36 * 64
    assert second.q == 36 * 64


def test_pixels_of_eight_bits_are_additions_not_binary_operations():
    network, _ = network_of("conv:4/8", encoder="integer", domain="zero")
    first = count(network).layers[0]
    assert (first.binary_macs, first.dense, first.sparse) == (0, 0, 0)
    assert first.additions == first.connections * 36


def test_constants_lower_connections_but_not_ones():
    torch.manual_seed(0)
    model = build_model(ModelConfig("mlp:6,5", (2, 2, 1), 3, domain="bnn")).eval()
    with torch.no_grad():
        model[3].weight[0] = 0.0  # a constant neuron
    layers = count(fold_model(model, (2, 2, 1), drop_unread=False).network).layers
    ones = [int((layer.signs() > 0).sum()) for layer in layers_of(model)]
    assert [layer.ones for layer in layers] == ones
    # Of ± the sign with fewer taps is tapped; what is constant is not tapped at all.
    first = (layers_of(model)[0].signs() > 0).sum(1)
    assert layers[0].connections == sum(min(int(n), 4 - int(n)) for n in first[1:])
    second = (layers_of(model)[1].signs()[:, 1:] > 0).sum(1)
    assert layers[1].connections == sum(min(int(n), 5 - int(n)) for n in second)
    assert layers[1].q == 6  # N, whatever circuit computes it


def test_kernels():
    kernels = count_kernels(
        [((2, 1, 0, 0, 0, 0, 0, 0, 0, 1), 100), ((0, 1, 0, 0, 0, 1, 0, 0, 0, 0), 10)]
    )
    assert kernels.histogram == (2, 2, 0, 0, 0, 1, 0, 0, 0, 1)
    assert (kernels.k0, kernels.k1) == (2 / 6, 2 / 6)
    operations = 9 * (4 * 100 + 2 * 10)
    assert kernels.bops_pr == 9 * (3 * 100 + 1 * 10) / operations
    assert kernels.sparse_pr == (26 * 100 + 12 * 10) / operations
    # 2 bits each; 4 more for two kernels; 9 more for two.
    assert kernels.bparams_pr == pytest.approx(1 - (6 * 2 + 2 * 4 + 2 * 9) / 54)
    assert bparams_pr(1.0, 0.0) == pytest.approx(7 / 9)


def test_kernels_of_a_network_are_those_of_its_weights():
    network, model = network_of("conv:4,6/8", encoder="threshold", domain="bnn", ec=0.1)
    weights = [(layer.signs() > 0).flatten(2).sum(2).flatten() for layer in layers_of(model)[:2]]
    histogram = torch.bincount(torch.cat(weights), minlength=10)
    assert count(network).kernels.histogram == tuple(histogram.tolist())


def test_kernels_are_those_that_were_trained_even_if_nobody_reads_them():
    """Unread channels lose their taps, but the paper's measures are of the weights."""
    torch.manual_seed(0)
    model = build_model(ModelConfig("conv:8,8/4", (8, 8, 1), 4, domain="zero", encoder="threshold"))
    TopK().project(layers_of(model), 0.02)
    dropped = fold_model(model.eval(), (8, 8, 1)).network
    weights = [(layer.signs() > 0).flatten(2).sum(2).flatten() for layer in layers_of(model)[:2]]
    histogram = torch.bincount(torch.cat(weights), minlength=10)
    assert sum(len(stage.absent) for stage in dropped.stages) > 0
    assert count(dropped).kernels.histogram == tuple(histogram.tolist())


def test_summary_is_plain_json():
    network, _ = network_of("conv:4,6/8", domain="learned")
    summary = json.loads(json.dumps(summarise(network)))
    assert {"connections", "weights", "density", "layers", "bops", "entropy"} <= summary.keys()
    layer = summary["layers"][1]
    assert sum(int(n) * c for n, c in layer["fan_in"]["histogram"].items()) == layer["connections"]
