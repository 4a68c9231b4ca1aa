"""Networks that are shipped stay what they are: their digests, and the bytes of their Verilog.

A change that is meant to change one of them changes ``tests/data/pins.json`` too, and says so.
"""

import hashlib
import json

import pytest
from conftest import ROOT

PINS = json.loads((ROOT / "tests/data/pins.json").read_text(encoding="utf-8"))

#: One for each way that inputs come, and each family; all others take up to a few minutes each.
QUICK = (*(("digits", family) for family in ("xc7", "ecp5")), ("mnist_pixel_2k", "ice40"))


def model(name):
    return next(p for p in (ROOT / "models").glob(f"{name}.*") if p.suffix in (".pt", ".onnx"))


def test_every_model_is_pinned():
    shipped = {path.stem for path in (ROOT / "models").iterdir() if path.suffix in (".pt", ".onnx")}
    assert set(PINS) == shipped


@pytest.mark.parametrize("name", PINS)
def test_networks_are_the_same(name):
    from sbnn_hw.models import open_network

    assert open_network(model(name)).digest == PINS[name]["network"]


@pytest.mark.parametrize(
    ("name", "family"),
    [
        pytest.param(name, family, marks=() if (name, family) in QUICK else pytest.mark.long)
        for name, pins in PINS.items()
        for family in pins
        if family != "network"
    ],
)
def test_hardware_is_the_same(name, family):
    from sbnn_hw.models import open_network
    from sbnn_hw.rtl_gen.design import generate
    from sbnn_hw.rtl_gen.lower import Options

    how = "pixel" if name == "tfc_brevitas" else "auto"
    design = generate(open_network(model(name)), Options(family=family, input=how))
    assert hashlib.sha256(design.verilog.encode()).hexdigest() == PINS[name][family]
