"""Two processes train the network that one process with the same global batch trains."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

WORKER = Path(__file__).with_name("parallel_worker.py")


def run(processes, *args):
    launcher = [sys.executable]
    if processes > 1:
        launcher += [
            "-m", "torch.distributed.run", "--nproc-per-node", str(processes), "--master-addr",
            "127.0.0.1", "--master-port", "0", "--rdzv-backend", "c10d", "--rdzv-endpoint",
            "127.0.0.1:0",
        ]  # fmt: skip
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*launcher, *args], capture_output=True, text=True, env=environment, timeout=300
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done


@pytest.mark.parametrize(
    ("method", "model", "precision"),
    [
        pytest.param("penalty", "digits", "float32", marks=pytest.mark.long),
        pytest.param("topk", "digits", "float32", marks=pytest.mark.long),
        # A sign has no tolerance: on maps, with thousands of activations, the rounding of floats
        # flips one within a few steps, in one process or in two. Doubles show the arithmetic.
        ("penalty", "conv:4p,6/16", "float64"),
        pytest.param("topk", "resnet:4,8x1", "float64", marks=pytest.mark.long),
    ],
)
def test_two_processes_train_as_one(tmp_path, method, model, precision):
    for processes in (1, 2):
        out = str(tmp_path / f"{processes}.pt")
        run(processes, str(WORKER), out, method, "20", model, precision)
    one, two = (torch.load(tmp_path / f"{n}.pt", weights_only=True) for n in (1, 2))
    assert one["gradients"].keys() == two["gradients"].keys()
    for name, gradient in one["gradients"].items():
        assert torch.allclose(gradient, two["gradients"][name], atol=1e-5, rtol=0), name
    assert len(one["losses"]) == 20
    assert one["losses"] == pytest.approx(two["losses"], abs=1e-3)
    # Batch norm takes the scale τ out again, so τ's gradient is but rounding, which Adam makes a
    # step of: in floats the moments themselves agree only as well as τ does.
    tolerance = 1e-2 if precision == "float32" else 1e-6
    for name, value in one["norms"].items():
        assert torch.allclose(value, two["norms"][name], atol=tolerance, rtol=tolerance), name


def test_the_penalty_reaches_every_replica(tmp_path):
    """Without the sparsity loss the first gradients differ: it is really in them."""
    for method in ("penalty", "none"):
        run(2, str(WORKER), str(tmp_path / f"{method}.pt"), method, "1", "digits", "float32")
    with_it, without = (
        torch.load(tmp_path / f"{m}.pt", weights_only=True)["gradients"]
        for m in ("penalty", "none")
    )
    moved = with_it["2.weight"] - without["2.weight"]
    assert moved.min() > 0
    assert torch.allclose(moved, moved.mean(), rtol=1e-2)


def test_the_command_line_trains_under_torchrun(tmp_path):
    out = tmp_path / "ckpt.pt"
    options = {"model": "digits", "data": "digits", "sparsity": 0.9, "epochs": 2, "out": out}
    given = [str(word) for name, value in options.items() for word in (f"--{name}", value)]
    done = run(2, "-m", "sbnn_hw", "train", *given)
    assert done.stdout.count("checkpoint  ") == 1  # only the first process talks
    assert "Warning" not in done.stderr
    assert out.exists()
