"""Recipes: the paper's runs as files, whose models build and whose commands run when shrunken."""

import json
from pathlib import Path

import pytest
import torch
from made_up import cifar10, cifar100, image_folder, state_dict

from sbnn_hw import datasets
from sbnn_hw.cli import main
from sbnn_hw.data.known import KNOWN
from sbnn_hw.errors import ModelRejected
from sbnn_hw.train import TrainConfig, load_checkpoint
from sbnn_hw.train.blocks import RealConv2d
from sbnn_hw.train.checkpoint import Checkpoint, begin_from, save_checkpoint, used_values
from sbnn_hw.train.models import ModelConfig, build_model
from sbnn_hw.train.recipes import describe_recipes, list_recipes, load_recipe, recipe_needs
from sbnn_hw.train.sparsity import count_weights, layers_of
from sbnn_hw.train.trainer import Trainer

#: EC and γ as the authors list them.
CIFAR10 = {
    50: (0.5, 0.0), 75: (0.25, 0.02), 90: (0.10, 0.04), 95: (0.05, 0.07), 96: (0.04, 0.07),
    97: (0.03, 0.08), 98: (0.02, 0.08), 99: (0.01, 0.10),
}  # fmt: skip
CIFAR100 = {
    50: (0.5, 0.0), 95: (0.05, 0.05), 96: (0.04, 0.05), 97: (0.03, 0.05), 98: (0.02, 0.06),
    99: (0.01, 0.07),
}  # fmt: skip
IMAGENET = {75: (0.25, 0.02), 90: (0.10, 0.02)}
SPARSE = {
    **{f"cifar10_resnet18_sbnn{s}": row for s, row in CIFAR10.items()},
    **{f"cifar100_reactnet18_sbnn{s}": row for s, row in CIFAR100.items()},
    **{f"imagenet_reactnet_a_sbnn{s}": row for s, row in IMAGENET.items()},
    **{f"domain_ablation_{d}95": (0.05, 0.07) for d in ("symmetric", "closed_form", "learned")},
}
DENSE = ("cifar10_resnet18_bnn", "cifar100_reactnet18_bnn", "imagenet_reactnet_a_bnn")
PAPER = [*SPARSE, *DENSE, "domain_ablation_baseline", "imagenet_reactnet_a_step1"]
#: Recipes of CIFAR-10 that are not the paper's.
OURS = ("cifar10_pixel_", "cifar10_residual_", "cifar10_teacher")
MODELS = Path(__file__).parents[1] / "models"
#: Binary weights, by hand: 3×3 kernels of four stages; and Σ 9·i² + i·o over the blocks.
WEIGHTS = {"resnet18": 10_985_472, "reactnet18": 10_985_472, "reactnet_a": 28_253_184}


def config_of(name):
    return TrainConfig(**load_recipe(name))


def test_the_papers_rows_are_all_there():
    zoo = ("digits", "mnist_", "fashion_", *OURS, *KNOWN)
    assert {name for name in list_recipes() if not name.startswith(zoo)} == set(PAPER)
    assert len(PAPER) == 24
    assert all(len(line) <= 110 and line for line in describe_recipes().values())


def test_dense_networks_are_trained_without_a_bound_on_their_ones():
    """With the paper's loss a network that others are measured against would be worse."""
    dense = [config for config in map(config_of, list_recipes()) if config.domain == "bnn"]
    assert len(dense) >= 6
    assert {config.method for config in dense} == {"none"}


@pytest.mark.parametrize("path", sorted(MODELS.glob("*.pt")), ids=lambda path: path.stem)
def test_shipped_models_were_made_with_the_options_of_their_recipes(path):
    made = load_checkpoint(path).training
    wanted = config_of(path.stem).to_dict()
    # Files that a recipe needs are named by whoever trains.
    for name in recipe_needs(path.stem):
        assert made.pop(name)
    # No choice of the padding is −1 where no layer is real-valued.
    assert made.pop("padding_value") in (wanted["padding_value"], -1)
    assert wanted["padding_value"] in (None, -1)
    # Options that came later have no say in what was trained without them.
    assert {key: wanted[key] for key in made} == {
        key: tuple(value) if isinstance(value, list) else value for key, value in made.items()
    }


@pytest.mark.parametrize("name", PAPER)
def test_models_build_with_the_right_number_of_binary_weights(name):
    config = config_of(name)
    dataset = datasets.find(config.data)
    with torch.device("meta"):
        model = build_model(config.model_config(dataset.shape, dataset.classes or 1000))
    real = [m.weight.numel() for m in model.modules() if isinstance(m, RealConv2d)]
    counted = sum(real) if config.domain == "real" else count_weights(layers_of(model))
    assert counted == WEIGHTS[config.model]
    assert bool(real) == name.endswith("step1")


@pytest.mark.parametrize("name", SPARSE)
def test_constraint_and_gamma_are_the_authors(name):
    config = config_of(name)
    assert (config.ec, config.gamma) == SPARSE[name]
    assert config.method == ("none" if config.ec == 0.5 else "penalty")
    assert config.ec_schedule == "constant"
    if "sbnn" in name:
        assert config.domain == "learned"
        assert config.init == "unit"
    else:
        assert name == f"domain_ablation_{config.domain}95"


@pytest.mark.parametrize("name", [*DENSE, "domain_ablation_baseline"])
def test_baselines_have_no_constraint(name):
    config = config_of(name)
    assert (config.domain, config.method) == ("bnn", "none")


@pytest.mark.parametrize("name", PAPER)
def test_hyper_parameters_are_the_authors(name):
    config = config_of(name)
    family = name.split("_")[0]
    expected = {
        "cifar10": {
            "model": "resnet18", "data": "cifar10", "epochs": 500, "batch": 512, "lr": 1e-3,
            "lr_schedule": "cosine", "mixup": 1.0, "clamp": 1.5, "crop": 4, "rotate": 0.0,
            "gradient": "ede", "activation": "ede",
        },
        "cifar100": {
            "model": "reactnet18", "data": "cifar100", "epochs": 300, "batch": 512, "lr": 1e-3,
            "lr_schedule": "cosine", "mixup": 1.0, "clamp": 1.5, "crop": 4, "rotate": 15.0,
            "gradient": "identity", "activation": "polynomial",
        },
        "imagenet": {
            "model": "reactnet_a", "data": "imagenet", "epochs": 128, "batch": 64, "lr": 1.25e-3,
            "lr_schedule": "linear", "mixup": 0.0, "clamp": 0.0, "crop": 0, "rotate": 0.0,
            "gradient": "clipped", "activation": "polynomial", "distill": 1.0, "temperature": 1.0,
            "workers": 8,
        },
        "domain": {
            "model": "resnet18", "data": "cifar10", "epochs": 300, "batch": 512, "lr": 1e-3,
            "lr_schedule": "cosine", "mixup": 0.0, "clamp": 1.5, "crop": 4, "rotate": 15.0,
            "gradient": "ede", "activation": "ede",
        },
    }[family]  # fmt: skip
    same = {
        "beta2": 0.999, "flip": True, "padding_value": 0, "validation": 0, "recalibrate": 0,
        "width": 1.0, "normalise": config.data,
        "weight_decay": 1e-5 if name.endswith("step1") else 0.0,
    }  # fmt: skip
    assert {key: getattr(config, key) for key in expected | same} == expected | same


# Shrunken, from end to end


def command(capsys, *words):
    assert main([str(word) for word in words]) == 0, capsys.readouterr().err
    return json.loads(capsys.readouterr().out)


def shrunken(recipe, root, out, *more):
    return (
        "train", "--recipe", recipe, "--width", 0.125, "--epochs", 2, "--batch", 12, "--threads",
        1, "--data-root", root, "--out", out, "--json", *more,
    )  # fmt: skip


@pytest.mark.parametrize(
    "recipe",
    [
        "cifar10_resnet18_sbnn95", "cifar10_resnet18_bnn", "cifar100_reactnet18_sbnn99",
        "domain_ablation_closed_form95", "domain_ablation_symmetric95",
    ],
)  # fmt: skip
def test_a_recipe_runs_and_resumes(tmp_path, capsys, monkeypatch, recipe):
    """Stopped after the first of two epochs, it goes on to the weights of a run that was not."""
    cifar10(tmp_path, count=6)
    cifar100(tmp_path, count=30)
    whole = command(capsys, *shrunken(recipe, tmp_path, tmp_path / "whole.pt"))
    assert whole["epoch"] == 2
    run_epoch = Trainer.run_epoch

    def interrupted(self, progress):
        if self.epoch == 1:
            raise KeyboardInterrupt
        return run_epoch(self, progress)

    monkeypatch.setattr(Trainer, "run_epoch", interrupted)
    out = tmp_path / "parts.pt"
    assert main([str(word) for word in shrunken(recipe, tmp_path, out)]) != 0
    monkeypatch.undo()
    capsys.readouterr()
    command(capsys, *shrunken(recipe, tmp_path, out, "--resume"))
    one, two = (
        used_values(load_checkpoint(tmp_path / f"{n}.pt").model) for n in ("whole", "parts")
    )
    assert all(torch.equal(one[key], two[key]) for key in one)
    answer = command(
        capsys, "eval", "--model", out, "--using", "torch", "--data",
        load_recipe(recipe)["data"], "--data-root", tmp_path, "--json",
    )  # fmt: skip
    assert answer["images"] in (6, 30)


def test_imagenet_in_two_steps(tmp_path, capsys):
    """Real weights first; the second step begins from them, with a teacher in either."""
    root = image_folder(tmp_path)
    torch.save(state_dict(classes=3), tmp_path / "resnet34.pth")
    teacher = ("--teacher", tmp_path / "resnet34.pth", "--workers", 1)
    step1, step2 = tmp_path / "step1.pt", tmp_path / "step2.pt"
    words = shrunken("imagenet_reactnet_a_step1", root, step1, *teacher, "--epochs", 1)
    first = command(capsys, *words)
    assert (first["weights"], first["ones"]) == (0, 0)
    real = load_checkpoint(step1)
    assert (real.config.domain, real.config.classes) == ("real", 3)

    # Another seed: with the same one, the weights would begin alike without --start.
    words = shrunken("imagenet_reactnet_a_sbnn75", root, step2, *teacher, "--seed", 1)
    words = (*words, "--start", step1)
    second = command(capsys, *words)
    assert second["weights"] > 400_000
    binary = load_checkpoint(step2)
    assert binary.training["start"] == str(step1)
    again = command(capsys, *words, "--resume")
    assert again == second

    # The binary layers are the signs of the real weights, but for what the epochs changed.
    model = build_model(binary.config)
    begin_from(model, step1)
    convs = [m for m in real.model.modules() if isinstance(m, RealConv2d)]
    layers = layers_of(model)
    assert all(torch.equal(c.weight, x.weight) for c, x in zip(convs, layers, strict=True))
    kept = [
        (x.signs() == y.signs()).float().mean()
        for x, y in zip(layers, layers_of(binary.model), strict=True)
    ]
    assert min(kept) > 0.75


@pytest.mark.parametrize(
    "given",
    [
        ModelConfig("resnet18", (32, 32, 3), 10, width=0.05),
        ModelConfig("reactnet_a", (64, 64, 3), 3, width=0.2),
    ],
)
def test_what_is_started_from_must_be_the_same_model(tmp_path, given):
    path = tmp_path / "other.pt"
    save_checkpoint(path, Checkpoint(given, build_model(given)))
    model = build_model(ModelConfig("reactnet_a", (64, 64, 3), 3, width=0.1))
    before = {k: v.clone() for k, v in model.state_dict().items()}
    with pytest.raises(ModelRejected, match="give a checkpoint of the same model and width"):
        begin_from(model, path)
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())


def test_a_run_with_real_weights_says_nothing_of_ones(tmp_path, capsys):
    cifar10(tmp_path, count=6)
    words = (
        "train", "--model", "reactnet18", "--data", "cifar10", "--domain", "real", "--width", 0.125,
        "--method", "none", "--epochs", 1, "--batch", 10, "--data-root", tmp_path, "--out",
        tmp_path / "a.pt",
    )  # fmt: skip
    assert main([str(word) for word in words]) == 0
    assert "ones" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("recipe", "given", "message"),
    [
        (
            "imagenet_reactnet_a_sbnn75", ["--teacher", "resnet34.pth"],
            "needs --start FILE: the checkpoint of the recipe imagenet_reactnet_a_step1",
        ),
        (
            "imagenet_reactnet_a_bnn", ["--start", "step1.pt"],
            "needs --teacher FILE: torchvision's state dict of resnet34",
        ),
        (
            "imagenet_reactnet_a_step1", [],
            "needs --teacher FILE: torchvision's state dict of resnet34",
        ),
    ],
)  # fmt: skip
def test_what_a_recipe_cannot_know_must_be_given(tmp_path, capsys, recipe, given, message):
    words = ["train", "--recipe", recipe, "--out", str(tmp_path / "a.pt"), *given]
    assert main(words) == 2
    assert f"Recipe {recipe} {message}" in capsys.readouterr().err


def test_every_recipe_of_imagenet_says_what_it_needs():
    for name in PAPER:
        needs = {"start", "teacher"} if name.startswith("imagenet") else set()
        assert set(recipe_needs(name)) == (needs - {"start"} if name.endswith("step1") else needs)
        described = describe_recipes()[name]
        assert all(f"--{option}" in described for option in recipe_needs(name))
