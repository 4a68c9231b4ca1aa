"""The loop: same seed, same weights; stopped and resumed, the same; killed at any moment, too."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from test_files import disk_of
from torch import nn

from sbnn_hw import datasets
from sbnn_hw.cli import main
from sbnn_hw.errors import ModelRejected, OutputRefused, UsageError
from sbnn_hw.files import exclusive
from sbnn_hw.train import TrainConfig, load_checkpoint
from sbnn_hw.train.checkpoint import used_values
from sbnn_hw.train.loop import train
from sbnn_hw.train.progress import Progress
from sbnn_hw.train.trainer import Trainer

QUICK = TrainConfig(
    model="digits", data="digits", ec=0.1, xi_bits=6, epochs=4, batch=64, mixup=0.3, crop=1,
    flip=True, gradient="ede",
)  # fmt: skip


def same(a, b):
    """Tell whether two models hold the same values, bit for bit."""
    one, two = used_values(a), used_values(b)
    return one.keys() == two.keys() and all(torch.equal(one[k], two[k]) for k in one)


@pytest.mark.parametrize("method", ["penalty", "topk"])
def test_same_seed_same_weights(tmp_path, method):
    config = replace(QUICK, method=method)
    one = train(config, tmp_path / "one.pt")
    two = train(config, tmp_path / "two.pt")
    assert same(one.model, two.model)
    assert (tmp_path / "one.pt").read_bytes() == (tmp_path / "two.pt").read_bytes()
    other = train(replace(config, seed=1), tmp_path / "other.pt")
    assert not same(one.model, other.model)


class Stopped(Exception):
    pass


@pytest.mark.parametrize("method", ["penalty", "topk"])
def test_resumed_run_equals_one_that_was_never_stopped(tmp_path, monkeypatch, method):
    config = replace(QUICK, method=method, ec_schedule="cubic")
    whole = train(config, tmp_path / "whole.pt")
    for stop in (1, 3):
        run_epoch = Trainer.run_epoch

        def interrupted(self, progress, run_epoch=run_epoch, stop=stop):
            if self.epoch == stop:
                raise Stopped
            return run_epoch(self, progress)

        monkeypatch.setattr(Trainer, "run_epoch", interrupted)
        with pytest.raises(Stopped):
            train(config, tmp_path / "parts.pt", resume=True)
        monkeypatch.undo()
    parts = train(config, tmp_path / "parts.pt", resume=True)
    assert same(whole.model, parts.model)
    names = [tmp_path / f"{name}.log.jsonl" for name in ("whole", "parts")]
    assert names[0].read_text() == names[1].read_text()


def test_resume_refuses_other_options(tmp_path):
    train(replace(QUICK, epochs=1), tmp_path / "a.pt")
    with pytest.raises(ModelRejected, match=r"was trained with epochs = 1, not 4; resume with the"):
        train(QUICK, tmp_path / "a.pt", resume=True)


def test_a_resumed_run_tells_the_time_of_all_its_parts(tmp_path, monkeypatch):
    config, path = replace(QUICK, epochs=2), tmp_path / "a.pt"
    clock = iter(range(0, 10_000, 100))
    monkeypatch.setattr(
        "sbnn_hw.train.trainer.time", SimpleNamespace(monotonic=lambda: next(clock))
    )
    whole = Trainer.run_epoch

    def one_epoch(self, progress):
        if self.epoch:
            raise Stopped
        return whole(self, progress)

    with monkeypatch.context() as patched:
        patched.setattr(Trainer, "run_epoch", one_epoch)
        with pytest.raises(Stopped):
            train(config, path)
    said = []
    train(config, path, resume=True, talk=said.append)
    assert said[-1] == "trained for 200 s"
    # Resumed once more there is nothing to do, and no time passes.
    train(config, path, resume=True, talk=said.append)
    assert said[-1] == "trained for 200 s"


def test_a_state_without_seconds_is_taken(tmp_path):
    config, path = replace(QUICK, epochs=1), tmp_path / "a.pt"
    train(config, path)
    state_path = tmp_path / "a.state.pt"
    state = torch.load(state_path, weights_only=True)
    del state["seconds"]
    torch.save(state, state_path)
    said = []
    train(config, path, resume=True, talk=said.append)
    # Not known, rather than none.
    assert not any("trained for" in line for line in said)


def train_command(out, *more):
    return [
        sys.executable, "-m", "sbnn_hw", "train", "--model", "digits", "--data", "digits",
        "--sparsity", "0.9", "--xi-bits", "6", "--epochs", "80", "--batch", "32",
        "--out", str(out), *more,
    ]  # fmt: skip


def test_killed_at_any_moment_it_resumes_to_the_same_weights(tmp_path):
    """SIGKILL ten times; the last checkpoint always loads, and the end is the same."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    whole, killed = tmp_path / "whole.pt", tmp_path / "killed.pt"
    log = tmp_path / "killed.log.jsonl"
    subprocess.run(train_command(whole), check=True, capture_output=True, env=environment)
    rng = random.Random(0)
    loaded = 0
    for kill in range(10):
        before = log.read_text() if log.exists() else ""
        process = subprocess.Popen(
            train_command(killed, "--resume"),
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment,
        )  # fmt: skip
        if kill % 3 == 0:
            time.sleep(rng.uniform(0, 4))  # anywhere, from the first import on
        else:
            # While it trains: an epoch is done, and others, with their writes, follow quickly.
            while process.poll() is None and (log.read_text() if log.exists() else "") == before:
                time.sleep(0.01)
            time.sleep(rng.uniform(0, 0.4))
        process.send_signal(signal.SIGKILL)
        process.wait()
        if killed.exists():
            load_checkpoint(killed)
            loaded += 1
    assert loaded >= 6
    done = subprocess.run(
        train_command(killed, "--resume", "--json"), check=True, capture_output=True, text=True,
        env=environment,
    )  # fmt: skip
    assert json.loads(done.stdout)["weights"] > 0
    assert same(load_checkpoint(whole).model, load_checkpoint(killed).model)
    assert killed.read_bytes() == whole.read_bytes()
    assert not list(tmp_path.glob(".*"))  # nothing half-written is left


def test_epoch_is_chosen_by_validation_among_those_sparse_enough(tmp_path):
    config = replace(QUICK, epochs=12, gamma=0.9, lr=0.03, crop=0, flip=False)
    checkpoint = train(config, tmp_path / "a.pt")
    rows = [json.loads(line) for line in (tmp_path / "a.log.jsonl").read_text().splitlines()]
    assert [row["epoch"] for row in rows] == list(range(1, 13))
    met = [row for row in rows if row["ones"] <= config.ec + 1e-4]
    assert met
    best = max(met, key=lambda row: (row["validation"], row["epoch"]))
    assert checkpoint.metrics["epoch"] == best["epoch"]
    assert checkpoint.metrics["ones"] / checkpoint.metrics["weights"] == best["ones"]
    assert checkpoint.metrics["constraint_met"]


def test_a_constraint_that_is_never_met_is_said(tmp_path):
    said = []
    checkpoint = train(
        replace(QUICK, ec=0.001, gamma=0.01, epochs=2), tmp_path / "a.pt", talk=said.append
    )
    assert not checkpoint.metrics["constraint_met"]
    assert checkpoint.metrics["epoch"] == 2
    assert any("the share of ones never fell to 0.001" in line for line in said)


def test_top_k_meets_the_constraint_exactly(tmp_path):
    config = replace(QUICK, method="topk", ec_schedule="cubic", ec=0.05)
    metrics = train(config, tmp_path / "a.pt").metrics
    assert metrics["ones"] == int(0.05 * metrics["weights"])


def test_a_loss_that_is_all_the_teachers_needs_a_teacher(tmp_path):
    with pytest.raises(
        UsageError, match=r"^--distill 1, which takes the whole loss from the teacher, needs"
    ):
        train(replace(QUICK, distill=1.0), tmp_path / "a.pt")


def test_a_teacher_module_is_learned_from(tmp_path):
    class Stubborn(nn.Module):
        """Says class 7, whatever it sees."""

        def forward(self, x):
            return F.one_hot(torch.full((len(x),), 7), 10).float() * 50

    config = replace(QUICK, distill=1.0, epochs=3, method="none", validation=0)
    checkpoint = train(config, tmp_path / "a.pt", teacher=Stubborn())
    with torch.no_grad():
        said = checkpoint.model(torch.randint(0, 256, (50, 1, 8, 8)).float()).argmax(1)
    assert (said == 7).float().mean() > 0.9


class Turned(nn.Module):
    """Says class 3 where the left half is brighter, else class 5."""

    def forward(self, x):
        left = x[..., :4].sum((1, 2, 3)) > x[..., 4:].sum((1, 2, 3))
        return F.one_hot(torch.where(left, 3, 5), 10).float() * 4


def test_a_teacher_that_is_asked_once_gives_lessons(digits):
    config = replace(QUICK, teach_once=True, distill=0.25, temperature=2.0, mixup=0.0)
    trainer = Trainer(config, digits, classes=10, teacher=Turned())
    assert trainer.teacher is None
    images = trainer.images
    for turned, pixels in enumerate((images.pixels, images.pixels.flip(3))):
        soft = (Turned()(pixels.float()) / 2).softmax(1)
        wanted = 0.75 * F.one_hot(images.labels, 10) + 0.25 * soft
        assert torch.allclose(images.lessons[:, turned], wanted)
    assert trainer.step(0, *next(iter(images.batches(
        8, classes=10, seed=0, epoch=0, augmentation=config.augmentation)))
    )["loss"] > 0  # fmt: skip


def test_lessons_need_a_teacher(tmp_path):
    with pytest.raises(UsageError, match=r"^--teach-once, which asks .* needs a --teacher$"):
        train(replace(QUICK, teach_once=True), tmp_path / "a.pt")


def test_windows_are_for_the_first_part_of_a_run(digits, monkeypatch):
    config = TrainConfig(
        model="resnet:4x1", data="digits", ec=0.3, method="topk", epochs=4, batch=256,
        stream_bits=6, shortcut="duplicate", recalibrate=100, validation=100, window=5,
        window_until=0.5,
    )  # fmt: skip
    trainer, sizes = Trainer(config, digits, classes=10), []
    monkeypatch.setattr(
        Trainer, "step",
        lambda self, step, pixels, targets, inner=Trainer.step: (
            sizes.append(tuple(pixels.shape[2:])) or inner(self, step, pixels, targets)),
    )  # fmt: skip
    with Progress(16, quiet=True, stream=sys.stderr) as progress:
        for _ in range(4):
            trainer.run_epoch(progress)
    assert list(dict.fromkeys(sizes)) == [(5, 5), (8, 8)]
    assert sizes.count((5, 5)) == sizes.count((8, 8))
    # Evaluation is that of whole images, whatever training saw last.
    checkpoint = trainer.checkpoint()
    checkpoint.model(torch.zeros(1, 1, 8, 8))


def test_early_epochs_need_not_be_measured(tmp_path, monkeypatch):
    measured = []
    monkeypatch.setattr(
        Trainer, "_recalibrate", lambda self: measured.append(self.epoch + 1), raising=True
    )
    config = replace(QUICK, epochs=5, measure_from=0.5, method="none")
    checkpoint = train(config, tmp_path / "a.pt", quiet=True)
    rows = [json.loads(line) for line in (tmp_path / "a.log.jsonl").read_text().splitlines()]
    assert measured == [3, 4, 5]
    assert [row["validation"] is not None for row in rows] == [False, False, True, True, True]
    best = max(rows[2:], key=lambda row: row["validation"])
    assert checkpoint.metrics["epoch"] == best["epoch"]
    assert (tmp_path / "a.log.png").exists()


def test_windows_are_refused_where_they_cannot_be(digits):
    with pytest.raises(ModelRejected, match=r"^Windows \(--window\) need a network that takes"):
        replace(QUICK, window=4)
    config = TrainConfig(model="resnet:4x1", data="digits", window=9)
    with pytest.raises(ModelRejected, match=r"must be at most 8 pixels a side, not 9$"):
        Trainer(config, digits, classes=10)


def test_log_is_drawn(tmp_path):
    train(replace(QUICK, epochs=2), tmp_path / "a.pt")
    assert (tmp_path / "a.log.png").read_bytes().startswith(b"\x89PNG")


def test_a_loss_that_is_not_a_number_ends_the_run(tmp_path):
    class Broken(nn.Module):
        def forward(self, x):
            return torch.full((len(x), 10), torch.nan)

    with pytest.raises(ModelRejected, match=r"^The loss is nan at step 0 of epoch 1; train with a"):
        train(QUICK, tmp_path / "a.pt", teacher=Broken())
    assert not (tmp_path / "a.pt").exists()


def test_two_runs_cannot_write_one_checkpoint(tmp_path):
    out = tmp_path / "a.pt"
    with (
        exclusive(out),
        pytest.raises(OutputRefused, match=r"^Another process is writing \S+a\.pt; wait for it"),
    ):
        train(QUICK, out)
    train(replace(QUICK, epochs=1), out)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "a.log.jsonl", "a.log.png", "a.pt", "a.state.pt",
    ]  # fmt: skip


def test_a_finished_checkpoint_is_not_overwritten_unasked(tmp_path):
    config, out = replace(QUICK, epochs=1), tmp_path / "a.pt"
    train(config, out)
    files = {path: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(
        OutputRefused,
        match=r"^\S+a\.pt already exists; add --replace to overwrite it, or choose another --out$",
    ):
        train(replace(config, seed=1), out)
    train(config, out, resume=True)
    assert files == {path: path.read_bytes() for path in tmp_path.iterdir()}
    train(replace(config, seed=1), str(out), replace=True)
    assert files[out] != out.read_bytes()
    # Without its state, --resume would start over.
    (tmp_path / "a.state.pt").unlink()
    with pytest.raises(
        OutputRefused, match=r"there is no state at \S+a\.state\.pt to resume from; "
    ):
        train(config, out, resume=True)


def test_a_run_that_was_stopped_says_how_to_go_on(tmp_path, monkeypatch):
    whole = Trainer.run_epoch
    out = tmp_path / "a.pt"

    def one_epoch(self, progress):
        if self.epoch:
            raise Stopped
        return whole(self, progress)

    with monkeypatch.context() as patched:
        patched.setattr(Trainer, "run_epoch", one_epoch)
        with pytest.raises(Stopped):
            train(replace(QUICK, epochs=2), out)
    for _ in range(2):
        with pytest.raises(
            OutputRefused,
            match=r"^The run of \S+a\.pt was stopped after epoch 1 of 2; add --resume to continue it, "
            r"--replace to start over, or choose another --out$",
        ):
            train(replace(QUICK, epochs=2), out)
        out.unlink(missing_ok=True)  # killed before the first checkpoint, it is stopped as well
    train(replace(QUICK, epochs=2), out, resume=True)


@pytest.mark.parametrize("size", [4 << 10, 40 << 10, 100 << 10])
def test_a_full_disk_ends_the_run_in_one_sentence(tmp_path, size, capsys):
    out = tmp_path / "a.pt"
    arguments = [
        "train",
        "--model",
        "digits",
        "--data",
        "digits",
        "--epochs",
        "1",
        "--out",
        str(out),
    ]
    assert main(arguments) == 0
    files = {path: path.read_bytes() for path in tmp_path.iterdir()}
    capsys.readouterr()
    with disk_of(size):
        assert main([*arguments, "--seed", "1", "--replace"]) == 6
    errors = [line for line in capsys.readouterr().err.splitlines() if line.startswith("E: ")]
    assert errors == [f"E: Cannot write {tmp_path / 'a.state.pt'}: File too large"]
    assert files == {path: path.read_bytes() for path in tmp_path.iterdir()}


def test_memory_that_runs_out_is_one_sentence(tmp_path, monkeypatch):
    text = "[enforce fail at alloc_cpu.cpp:124] . DefaultCPUAllocator: can't allocate memory: you"

    def exhausted(self, progress):
        raise RuntimeError(text)

    monkeypatch.setattr(Trainer, "run_epoch", exhausted)
    with pytest.raises(UsageError, match=r"^Memory ran out during training; use a smaller --batch"):
        train(QUICK, tmp_path / "a.pt")
    text = "another thing"
    with pytest.raises(RuntimeError, match="another thing"):
        train(QUICK, tmp_path / "a.pt")


def test_a_model_is_weighed_before_it_is_made(digits, monkeypatch):
    """By what training must hold, and by no more: a model that just fits is trained."""
    weights = sum(p.numel() for p in Trainer(QUICK, digits, classes=10).model.parameters())
    monkeypatch.setattr("sbnn_hw.train.memory.memory_of", lambda device: 16 * weights)
    Trainer(QUICK, digits, classes=10)
    monkeypatch.setattr("sbnn_hw.train.memory.memory_of", lambda device: 16 * weights - 1)
    with pytest.raises(
        UsageError, match=rf"^Model digits has {weights:,} weights, and training it n"
    ):
        Trainer(QUICK, digits, classes=10)


def test_what_a_kill_left_half_written_is_cleaned_up(tmp_path):
    (tmp_path / ".a.state.pt.xyz.part").write_bytes(b"half")
    (tmp_path / ".other.pt.xyz.part").write_bytes(b"somebody else's")
    train(replace(QUICK, epochs=1), tmp_path / "a.pt")
    assert [path.name for path in tmp_path.glob(".*.part")] == [".other.pt.xyz.part"]


@pytest.mark.parametrize("damage", ["cut", "config", "model"])
def test_a_damaged_state_is_refused_in_one_sentence(tmp_path, damage):
    config = replace(QUICK, epochs=1)
    train(config, tmp_path / "a.pt")
    path = tmp_path / "a.state.pt"
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:-100])
    else:
        state = torch.load(path, weights_only=True)
        state[damage] = {}
        if damage == "config":
            del state["config"]
        torch.save(state, path)
    with pytest.raises(ModelRejected, match=r"a\.state\.pt is (damaged|not a training state)"):
        train(config, tmp_path / "a.pt", resume=True)


def _history(change):
    def damage(state):
        change(state["history"])

    return damage


@pytest.mark.parametrize(
    ("damage", "what"),
    [
        (lambda state: state.update(epoch="x"), "its epoch is 'x'"),
        (lambda state: state.update(epoch=True), "its epoch is True"),
        (lambda state: state.update(epoch=99), "its epoch is 99 of 2"),
        (lambda state: state.update(epoch=1), "its history has 2 epochs, not 1"),
        (lambda state: state.update(history=[]), "its history has 0 epochs, not 2"),
        (lambda state: state.update(history=7), "its history is not a list"),
        (_history(lambda rows: rows.reverse()), "its history is out of order"),
        (_history(lambda rows: rows[0].pop("validation")), "its history is incomplete"),
        (lambda state: state.update(seconds="x"), "its seconds are 'x'"),
        (lambda state: state.update(seconds=float("nan")), "its seconds are nan"),
        (lambda state: state.update(seconds=-1.0), "its seconds are -1.0"),
        (lambda state: state["best"].update(epoch=3), "its best epoch is 3 of 2"),
        (lambda state: state["best"].update(epoch=0), "its best epoch is 0 of 2"),
        (lambda state: state["best"].update(epoch="x"), "its best epoch is 'x'"),
        (lambda state: state["best"].update(met="no"), "its best epoch is incomplete"),
        (lambda state: state["best"].update(accuracy=None), "its best epoch is incomplete"),
        (lambda state: state["best"].update(state={}), "in its best epoch it lacks 2.cut"),
        (lambda state: state["best"].update(state=3), "its best epoch is incomplete"),
    ],
)
def test_a_state_that_contradicts_itself_is_refused(tmp_path, damage, what):
    config = replace(QUICK, epochs=2)
    train(config, tmp_path / "a.pt")
    path = tmp_path / "a.state.pt"
    state = torch.load(path, weights_only=True)
    damage(state)
    torch.save(state, path)
    with pytest.raises(ModelRejected) as refused:
        train(config, tmp_path / "a.pt", resume=True)
    assert str(refused.value) == f"{path} is damaged ({what}); use --replace to start over"


def test_refusals(digits):
    with pytest.raises(ModelRejected, match=r"^The sparsity penalty is not defined for signed"):
        TrainConfig(model="digits", data="digits", domain="signed")
    with pytest.raises(ModelRejected, match=r"^Batch must be at most the 1150 training images"):
        Trainer(replace(QUICK, batch=5000), digits, classes=10)
    with pytest.raises(
        ModelRejected,
        match=r"^EC \(the share of ones, 1 − sparsity\) must be between 1e-09 and 1, not 0$",
    ):
        replace(QUICK, ec=0)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_few_bits_are_for_the_steps_alone(precision):
    """Statistics, validation and latent weights have all their bits, whatever a step computes in."""
    images, classes = datasets.find("digits").open("train", None)
    trainer = Trainer(
        replace(QUICK, epochs=1, precision=precision, domain="signed", xi_bits=None,
                method="luts", luts=900, gradient="identity", mixup=0.0),
        images, classes=classes,
    )  # fmt: skip
    seen: dict[bool, set[torch.dtype]] = {True: set(), False: set()}
    for layer in trainer.layers:
        layer.register_forward_hook(lambda module, _, y: seen[module.training].add(y.dtype))
    row = trainer.run_epoch(Progress(1, quiet=True, stream=sys.stderr))
    assert torch.float32 in seen[False]
    assert len(seen[False]) == 1
    assert getattr(torch, precision) in seen[True]
    assert {value.dtype for value in trainer.model.parameters()} == {torch.float32}
    assert row["validation"] > 0.2


def test_precision_is_one_of_two():
    with pytest.raises(
        ModelRejected, match=r"^Precision must be one of float32, bfloat16, not 'half'$"
    ):
        replace(QUICK, precision="half")
