"""The integer network of a model, the images that it is tested on, and its accuracy."""

import hashlib
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from sbnn_hw import __version__
from sbnn_hw.datasets import Images
from sbnn_hw.errors import ModelRejected
from sbnn_hw.flow.network_steps import choose_images, fold
from sbnn_hw.flow.plan import Flow
from sbnn_hw.flow.steps import code_digest, file_digest, value_digest
from sbnn_hw.netlist import Network
from sbnn_hw.zoo.models import Facts, read_facts
from sbnn_hw.zoo.numbers import Number, number
from sbnn_hw.zoo.setup import Setup, keep

__all__ = ["bytes_digest", "measure_accuracy", "model_facts", "open_model"]


def model_facts(path: Path, setup: Setup) -> Facts:
    """Return what a model says of itself; other data than its own may be measured on."""
    if not path.is_file():
        raise ModelRejected(f"No model at {path} (train one with `sbnn-hw train`)")
    reads = {
        "model": file_digest(path),
        "code": code_digest("sbnn_hw.train.checkpoint", "sbnn_hw.zoo.models"),
    }
    found = keep(setup.flow(path).steps, "facts", reads, lambda: asdict(read_facts(path)))
    return Facts(**{**found, "data": setup.data or found["data"]})


def open_model(path: Path, setup: Setup) -> tuple[Flow, Facts, Network, Images]:
    """Fold a model, and read the test images that it is measured on."""
    facts = model_facts(path, setup)
    flow = setup.flow(path, facts.data)
    network, _ = fold(flow)
    images, _ = choose_images(flow, network, facts.data)
    most = setup.images
    return flow, facts, network, Images(images.pixels[:most], images.labels[:most])


def measure_accuracy(flow: Flow, network: Network, images: Images) -> Number:
    """Measure how many test images the integer network puts in the right class."""
    reads = {
        "network": network.digest,
        "images": _images_digest(images),
        "code": code_digest("sbnn_hw.netlist"),
        "numpy": flow.tools["numpy"],
    }

    def find() -> dict[str, Any]:
        classes = network.compute(images.pixels).classes
        return {"correct": int((classes == images.labels).sum()), "images": len(images)}

    found = keep(flow.steps, "accuracy", reads, find)
    return number(
        found["correct"] / found["images"],
        "share of test images",
        f"sbnn-hw {__version__} netlist, numpy {flow.tools['numpy']}",
    )


def _images_digest(images: Images) -> str:
    arrays = (images.pixels, images.labels)
    return value_digest([[list(a.shape), bytes_digest(a)] for a in arrays])


def bytes_digest(array: Any) -> str:
    """Return the digest of an array's values."""
    return hashlib.sha256(np.ascontiguousarray(array).data).hexdigest()
