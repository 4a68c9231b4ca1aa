"""Write the card of a shipped model: what it is, how it was made, what it reached.

python bench/card.py models/mnist_sfc_95.pt [--recipe mnist_sfc_95] [--seconds N] [--data-root DIR]
    [--beside OTHER_SEED.pt …]

What is not given, how long the training took and runs of other seeds, is kept from the card that is
there, if it is the same network's.
"""

import argparse
from pathlib import Path

from sbnn_hw.bops import NetworkCount, count, entropy
from sbnn_hw.data.find import find_data
from sbnn_hw.data.own import Known
from sbnn_hw.files import write_text
from sbnn_hw.netlist import Encode, Network
from sbnn_hw.rtl_gen.design import generate
from sbnn_hw.rtl_gen.estimate import estimate
from sbnn_hw.train import TrainConfig, fold_checkpoint, load_checkpoint
from sbnn_hw.train.method import budget_of
from sbnn_hw.train.models import ModelConfig
from sbnn_hw.train.recipes import load_recipe, recipe_needs
from sbnn_hw.yosys import Counts, synthesise
from sbnn_hw.zoo.dense import ALL, HEAVY
from sbnn_hw.zoo.hardware import plain_counts
from sbnn_hw.zoo.models import hardware_options
from sbnn_hw.zoo.setup import SYNTHESISED

#: What the domains are called beyond their names.
EXTENSIONS = {
    "signed": "signed taps {0, ±1}, an extension of the paper's domain",
    "zero": "zero: {0, β}, the paper's domain with ξ = 0",
    "bnn": "dense: every weight is −1 or +1; a baseline for comparison",
}

INTRODUCTION = (
    "What the model is and what it reached; the [glossary](../docs/glossary.md) explains the terms."
)


def _counts(path: Path, network: Network) -> Counts:
    text = generate(network, hardware_options(path)).verilog
    return synthesise(text, "xc7", light=network.connections > HEAVY).counts


def _cells(path: Path, network: Network) -> dict[str, str]:
    if network.connections > SYNTHESISED:
        luts = estimate(network, "xc7", searched=ALL).luts
        return {"xc7, computed from the heaps' costs": f"{luts:,} LUTs"}
    cells = plain_counts(_counts(path, network))
    luts, flip_flops = f"{cells['luts']:,} LUTs", f"{cells['flip_flops']:,} FFs"
    memory = f"{cells['brams']:g} BRAM, {cells['dsps']} DSP"
    return {"xc7 by Yosys": f"{luts}, {flip_flops}, {memory}"}


def _streams(config: ModelConfig) -> dict[str, str]:
    """Return how a residual network carries integers; nothing for others."""
    if not config.stream_bits:
        return {}
    shortcuts = {
        "duplicate": "shortcuts without weights (2×2 sums, channels twice)",
        "real": f"1×1 shortcuts with weights of {config.weight_bits} bits",
    }
    first = {
        "binary": "first convolution sparse and binary",
        "real": f"first convolution with weights of {config.weight_bits} bits",
    }
    said = (f"integers of {config.stream_bits} bits", shortcuts[config.shortcut])
    classes = f"classes with weights of {config.weight_bits} bits"
    more = []
    if config.multiplier_digits:
        more.append(f"multipliers of at most {config.multiplier_digits} powers of two")
    if config.sign_planes > 1:
        more.append(f"{config.sign_planes} bits of each value in front of a convolution")
    return {"streams": "; ".join((*said, first[config.first], classes, *more))}


def _work(counts: NetworkCount) -> dict[str, str]:
    """Return what stages with values of several bits do; nothing if nothing is multiplied."""
    additions, products = counts.total("additions"), counts.total("multiplications")
    if not products:
        return {}
    return {"additions, multiplications of integers per image": f"{additions:,}, {products:,}"}


def _require_recipe(path: Path, recipe: str) -> None:
    """Make sure that a model was trained with a recipe's options; its seed may be another one."""
    wanted = TrainConfig(**load_recipe(recipe)).to_dict()
    for key, value in load_checkpoint(path).training.items():
        value = tuple(value) if isinstance(value, list) else value
        # Files are named by whoever trains.
        if key in ("seed", "padding_value", *recipe_needs(recipe)):
            continue
        if value != wanted[key]:
            raise SystemExit(f"{path} has {key} = {value!r}, but recipe {recipe} {wanted[key]!r}")


def _kept(card: Path, row: str, digest: str) -> str:
    """Return what a row of a network's card says, if it has one; its name may have more words."""
    if not card.is_file():
        return ""
    lines = card.read_text(encoding="utf-8").splitlines()
    rows = [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in lines]
    if ["digest", digest] not in rows:
        return ""
    return next((cells[1] for cells in rows if len(cells) == 2 and cells[0].startswith(row)), "")


def main() -> None:
    """Measure the netlist on the whole test set and write the card beside the checkpoint."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--recipe", help="the model's name, if not given")
    parser.add_argument("--seconds", type=float, help="what the training took")
    parser.add_argument("--data-root", type=Path)
    parser.add_argument("--beside", type=Path, nargs="*", default=[], help="runs of other seeds")
    args = parser.parse_args()
    args.recipe = args.recipe or args.model.stem
    card = args.model.with_suffix(".md")
    checkpoint = load_checkpoint(args.model)
    for path in [args.model, *args.beside]:
        _require_recipe(path, args.recipe)
    network = fold_checkpoint(args.model).network
    training, metrics, counts = checkpoint.training, checkpoint.metrics, count(network)
    known = Known.of(network.meaning, network.input)
    dataset = find_data(training["data"], known=known, root=args.data_root)
    test = dataset.load("test", args.data_root)
    images = "images" if known is None else "rows"
    accuracy = network.accuracy(test.pixels, test.labels)
    ones, weights = metrics["ones"], metrics["weights"]
    xis = ", ".join(f"{layer.xi}/2^{layer.k}" for layer in counts.layers if layer.kind != "scores")
    domain = EXTENSIONS.get(
        training["domain"], f"{training['domain']}, ξ of the hidden layers {xis}"
    )
    caps = ", ".join(map(str, training.get("fan_in", ())))
    by = {
        "penalty": f"the paper's loss, γ = {training['gamma']}",
        "topk": "top-k",
        "luts": f"a budget of {training.get('luts', 0):,} tables, fan-in at most {caps}",
    }
    if training["method"] == "luts":
        config = TrainConfig(**load_recipe(args.recipe))
        channels = test.pixels.shape[-1]
        spent = budget_of(config, checkpoint.model, channels).luts()
        by["luts"] += f"; {spent:,.0f} are used, by the same count"
    encoder = network.stages[0].operation
    sees = "8-bit pixels"
    if isinstance(encoder, Encode):
        sees = f"{checkpoint.config.encoder or 'threshold'} encoder, "
        levels = encoder.thresholds
        if (levels == levels[0]).all():
            sees += f"thresholds {', '.join(map(str, levels[0]))}"
        else:
            sees += f"{levels.shape[1]} thresholds for each of {len(levels)} columns"
    dense = training["domain"] == "bnn"
    others = [load_checkpoint(path) for path in args.beside]
    networks = [fold_checkpoint(path).network for path in args.beside]
    root = "" if training["data"] == "digits" else " --data-root DIR"
    digest = f"`{network.digest[:16]}`"
    needs, threads = recipe_needs(args.recipe), training["threads"]
    given = "".join(f" --{name} {Path(training[name]).name}" for name in needs)
    command = f"sbnn-hw train --recipe {args.recipe}{root}{given} --out {args.model.name}"
    rows = {
        "data": f"{training['data']}, {len(test):,} test {images}",
        "topology": f"{training['model']}, {sees}",
        **_streams(checkpoint.config),
        "domain": domain,
        "sparsity by": "" if dense else by[training["method"]],
        "ones (U)": f"{ones:,} of {weights:,}",
        "U/N, bits per weight": f"{ones / weights:.4f}, {entropy(ones / weights):.4f}",
        "connections of the netlist": f"{network.connections:,}",
        "BOPs per image, sparse / dense": f"{counts.total('sparse'):,} / {counts.total('dense'):,}",
        **_work(counts),
        "test accuracy of the netlist": f"{accuracy:.2%}",
        "validation accuracy": f"{metrics['validation']:.2%}",
        "epoch, seed": f"{metrics['epoch']} of {training['epochs']}, {training['seed']}",
        "other seeds: validation, test, LUTs": _kept(card, "other seeds", digest)
        if not args.beside
        else "; ".join(
            f"{other.training['seed']}: {other.metrics['validation']:.2%}, "
            f"{found.accuracy(test.pixels, test.labels):.2%}, {_counts(path, found).luts:,}"
            for path, other, found in zip(args.beside, others, networks, strict=True)
        ),
        **_cells(args.model, network),
        "training time": _kept(card, "training time", digest)
        if args.seconds is None
        else f"{args.seconds:.0f} s with {threads} thread{'s' * (threads != 1)}",
        "digest": digest,
    }
    rows = {name: value for name, value in rows.items() if value}
    lines = [f"# {args.model.stem}", "", INTRODUCTION, "", "| | |", "|---|---|"]
    lines += [f"| {name} | {value} |" for name, value in rows.items()]
    lines += [
        "", f"The epoch was chosen on validation {images} held out from the training set, never on",
        f"test {images}. This command trained the model, with the versions of `constraints.txt`:",
        "",
        "```", command, "```", "",
        *(f"`{Path(training[name]).name}` is {what}." for name, what in needs.items()),
        "`bench/card.py` wrote this card.",
    ]  # fmt: skip
    text = "\n".join(lines) + "\n"
    write_text(card, text)
    print(text)


if __name__ == "__main__":
    main()
