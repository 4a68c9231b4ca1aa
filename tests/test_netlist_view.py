"""The JSON view: the same network, by a schema, and nothing else is taken."""

import copy
import json

import numpy as np
import pytest
from conftest import ROOT
from random_networks import random_level_network, random_map_network, random_vector_network

from sbnn_hw.errors import ModelRejected
from sbnn_hw.netlist.view import from_view, load_view, save_view, to_view, view_schema
from sbnn_hw.train import fold_checkpoint

# The validator uses an old name of a library's.
pytestmark = pytest.mark.filterwarnings("ignore:Please use rfc3986:DeprecationWarning")


@pytest.fixture(scope="module")
def view():
    return to_view(fold_checkpoint(ROOT / "models/digits.pt").network)


@pytest.fixture(scope="module")
def schema():
    jschon = pytest.importorskip("jschon", reason="needs jschon (pip install 'sbnn-hw[dev]')")
    jschon.create_catalog("2020-12")
    return jschon.JSONSchema(view_schema())


def fits(schema, view):
    import jschon

    return schema.evaluate(jschon.JSON(json.loads(json.dumps(view)))).valid


@pytest.mark.parametrize("seed", range(20))
def test_a_view_is_the_network_and_fits_the_schema(seed, schema):
    make = (random_map_network, random_vector_network, random_level_network)[seed % 3]
    network = make(np.random.default_rng(seed))
    text = json.dumps(to_view(network))
    assert from_view(json.loads(text)).digest == network.digest
    assert fits(schema, to_view(network))


def test_a_view_is_readable_by_hand(view):
    """Two inputs, a neuron that wants both, and the class that it makes."""
    network = from_view(
        {
            "format": "sbnn-hw netlist view",
            "version": 1,
            "input": {"shape": [2], "bits": 1, "signed": False, "scan": "vector"},
            "stages": [
                {
                    "name": "linear0", "sources": [-1], "ones": None, "kernels": None, "absent": [],
                    "operation": {
                        "kind": "linear", "xi": 0, "k": 0, "thresholds": [[2]], "flips": [False],
                        "fixed": [], "taps": {"width": 2, "inputs": [[0, 1]], "inverted": None},
                    },
                },
                {
                    "name": "scores", "sources": [0], "ones": None, "kernels": None, "absent": [],
                    "operation": {
                        "kind": "scores", "negative": False, "shift": 0, "offsets": [0, 0],
                        "taps": {"width": 1, "inputs": [[], [0]], "inverted": None},
                    },
                },
            ],
        }
    )  # fmt: skip
    images = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    assert network.compute(images).classes.tolist() == [0, 0, 0, 1]


def changed(view, path, value):
    view = copy.deepcopy(view)
    *parents, last = path
    place = view
    for key in parents:
        place = place[key]
    place[last] = value
    return view


TAPS = ("stages", 2, "operation", "taps")
BY_SCHEMA = [
    (("format",), "something", "its format is not"),
    (("version",), 3, "it has version 3, but this sbnn-hw reads 1 to 2"),
    (("input", "bits"), 0.5, "bits must not be 0.5"),
    (("input", "shape"), [8, 8], "must be (length,) or (height, width, channels)"),
    (("stages",), {}, "stages must not be {}"),
    (("stages", 2, "name"), "Linear 0", "name must be up to 63 lower-case letters"),
    (("stages", 2, "sources"), ["encode"], "sources are not numbers"),
    (("stages", 2, "operation", "kind"), "relu", "no operation is called 'relu'"),
    (("stages", 2, "operation", "xi"), True, "xi must not be True"),
    (("stages", 2, "operation", "flips"), "none", "flips must not be 'none'"),
    ((*TAPS, "inputs"), [1, 2], "inputs must have one list per neuron"),
    ((*TAPS, "inputs", 0), [1.5], "must hold integers"),
]
BY_READING = [
    (("digest",), "0" * 64, "its digest does not match its content"),
    (("stages", 2, "operation", "thresholds", 0, 0), 1 << 61, "must be between"),
    (("stages", 2, "operation", "thresholds", 0, 0), 1 << 80, "a number needs more than 62 bits"),
    ((*TAPS, "inputs", 0), [5, 3], "Taps of a neuron must increase"),
    ((*TAPS, "inputs", 0), [1 << 30], "Taps must be below"),
    ((*TAPS, "inverted"), [[True]], "inverted must have one value per input"),
    (("stages", 2, "sources"), [7], "must receive from an earlier stage"),
]


@pytest.mark.parametrize(("path", "value", "message"), BY_SCHEMA + BY_READING)
def test_what_is_wrong_is_refused_by_name(tmp_path, view, path, value, message):
    wrong = changed(view, path, value)
    if path != ("digest",):
        del wrong["digest"]
    with pytest.raises(ModelRejected) as refused:
        from_view(wrong)
    assert message in str(refused.value)


@pytest.mark.parametrize(("path", "value", "message"), BY_SCHEMA)
def test_the_schema_refuses_it_too(view, schema, path, value, message):
    assert fits(schema, view)
    assert not fits(schema, changed(view, path, value))


def test_what_is_missing_is_refused(view, schema):
    for key in ("format", "version", "input", "stages"):
        short = {name: value for name, value in view.items() if name != key}
        assert not fits(schema, short)
        with pytest.raises(ModelRejected):
            from_view(short)


def test_files(tmp_path, view):
    network = from_view(view)
    save_view(network, tmp_path / "net.json")
    assert load_view(tmp_path / "net.json").digest == network.digest
    save_view(network, tmp_path / "again.json")
    assert (tmp_path / "net.json").read_bytes() == (tmp_path / "again.json").read_bytes()
    for content, message in (
        (b"{", "is not JSON"),
        (b"\xff\xfe", "is not text (byte 0)"),
        (b"[" * 100_000, "is not JSON"),
        (b"[]", "its format is not"),
    ):
        (tmp_path / "bad.json").write_bytes(content)
        with pytest.raises(ModelRejected) as refused:
            load_view(tmp_path / "bad.json")
        assert message in str(refused.value)
    with pytest.raises(ModelRejected, match="No view of a netlist at"):
        load_view(tmp_path / "nope.json")
