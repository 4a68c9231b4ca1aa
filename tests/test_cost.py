"""What the shipped models may cost: the generator's own count here, Yosys's in the long tests."""

from pathlib import Path

import pytest

from sbnn_hw.cost.heap import lut_cost
from sbnn_hw.families import FAMILIES
from sbnn_hw.models import open_network
from sbnn_hw.netlist import Linear
from sbnn_hw.rtl_gen.design import generate
from sbnn_hw.rtl_gen.lower import Options, lower
from sbnn_hw.yosys import synthesise

MODELS = Path(__file__).parents[1] / "models"


@pytest.fixture(scope="module")
def sfc_95():
    return open_network(MODELS / "mnist_sfc_95.pt")


@pytest.mark.parametrize(("family", "most"), [("xc7", 0.62), ("ecp5", 1.55), ("ice40", 1.55)])
def test_hidden_neurons_without_q_are_cheap_whatever_their_constants(sfc_95, family, most):
    """The dearest constant for each neuron: no choice of q can make it worse."""
    cost = connections = 0
    for _, _, layer in sfc_95.layers():
        if isinstance(layer, Linear):
            for fan_in in layer.taps.fan_in[layer.taps.fan_in > 0].tolist():
                cost += max(lut_cost((fan_in,), c, FAMILIES[family]) for c in range(1, fan_in + 1))
                connections += fan_in
    assert connections == 15_492
    assert cost / connections <= most


def test_the_whole_model_is_cheap_and_sharing_pays(sfc_95):
    plain, shared = (
        lower(sfc_95, Options(family="xc7", share=share)).cost.tables for share in (0, 300)
    )
    assert plain / sfc_95.connections <= 0.80
    assert shared < 0.95 * plain


@pytest.mark.long
def test_yosys_counts_what_the_generator_does_but_for_a_few(sfc_95):
    made = generate(sfc_95, Options(family="xc7"))
    counts = synthesise(made.verilog, "xc7").counts
    own = made.design.cost.tables
    # Yosys finds a few tables equal, and adds some for control.
    assert own - 40 <= counts.luts <= own + 20
    assert counts.luts / sfc_95.connections <= 0.80
    assert counts.srls == 0


@pytest.mark.long
def test_heaps_of_shipped_models_are_proved():
    from proofs import prove_network

    proved = prove_network(open_network(MODELS / "digits.pt"), "xc7")
    assert len(proved) > 20
    assert all(proved.values())


def test_taps_that_fit_one_table_take_one():
    for fan_in in range(2, 7):
        for threshold in range(1, fan_in + 1):
            assert lut_cost((fan_in,), threshold, FAMILIES["xc7"]) == 1
