"""``sbnn-hw info``: show what a model has."""

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sbnn_hw.bops import summarise
from sbnn_hw.commands.columns import print_columns
from sbnn_hw.commands.common import add_json, add_model
from sbnn_hw.models import open_network, require_torch
from sbnn_hw.train.config import STREAMS

if TYPE_CHECKING:
    from sbnn_hw.train.checkpoint import Checkpoint


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    add_model(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> None:
    """Count and show the netlist that a model becomes; one of real values is counted as it is."""
    checkpoint = _read_backbone(args.model) if args.model.suffix == ".pt" else None
    summary: dict[str, Any] = {"model": str(args.model)}
    folded = None
    if checkpoint:
        folded = _summarise_streams(checkpoint, args.model, args.pixels)
        summary |= folded or _count_backbone(checkpoint)
    elif args.model.suffix.lower() == ".onnx":
        from sbnn_hw.qonnx.importer import import_network

        imported = import_network(args.model, pixels=args.pixels)
        summary |= {**summarise(imported.network), "pixels": imported.pixels}
    else:
        summary |= summarise(open_network(args.model, args.pixels))
    if args.json:
        print(json.dumps(summary))
    elif checkpoint and not folded:
        _print_backbone(summary)
    else:
        _print_network(summary)


def _read_backbone(path: Path) -> "Checkpoint | None":
    """Return the checkpoint of a backbone; None of all others."""
    require_torch()
    from sbnn_hw.train.checkpoint import load_checkpoint

    checkpoint = load_checkpoint(path)
    return checkpoint if checkpoint.config.is_backbone else None


def _summarise_streams(
    checkpoint: "Checkpoint", path: Path, pixels: str | None
) -> dict[str, Any] | None:
    """Return the counts of the netlist of integer streams; None if the streams are floats."""
    config = checkpoint.config
    if not config.stream_bits:
        return None
    own = ("name", "domain", *STREAMS)
    return {key: getattr(config, key) for key in own} | summarise(open_network(path, pixels))


def _count_backbone(checkpoint: "Checkpoint") -> dict[str, Any]:
    """Return the counts of a checkpoint that no netlist can be made of."""
    from sbnn_hw.train.metrics import count_model

    config = checkpoint.config
    counts = count_model(checkpoint.model, config.shape).to_dict()
    return {
        "name": config.name,
        "domain": config.domain,
        "input": {"shape": list(config.shape), "bits": 8},
        "classes": config.classes,
        # No netlist leaves any out.
        "connections": counts["ones"],
        **counts,
    }


def _print_backbone(summary: dict[str, Any]) -> None:
    bops = summary["bops"]
    print(f"model        {summary['model']} ({summary['name']}, domain {summary['domain']})")
    _print_images(summary)
    if summary["weights"]:
        _print_ones(summary)
        print(
            f"BOPs         {bops['binary_macs']:,} binary MACs per image; {bops['sparse']:,} with "
            f"all zeros skipped (PR {summary['sparse_pr']:.2%})"
        )
    print(f"FLOPs        {summary['flops']:,} real-valued MACs per image")
    print(f"OPs          {summary['ops']:,.0f} = FLOPs + binary MACs/64")
    _print_kernels(summary)
    if summary["signed"]:
        print("             ones and Hamming weights count taps of either sign")
    print(
        "hardware     none: real-valued layers cannot be folded; `sbnn-hw quantise` makes integers "
        "of them"
    )
    print()
    rows = []
    for layer in summary["layers"]:
        ones = "–" if layer["ones"] is None else f"{layer['ones']:,}"
        histogram = layer["histogram"]
        k0, k1 = (f"{n / sum(histogram):.1%}" for n in histogram[:2]) if histogram else "––"
        counts = [f"{layer[key]:,}" for key in ("positions", "weights", "binary_macs", "flops")]
        shape = "×".join(map(str, layer["shape"]))
        rows.append((layer["name"], layer["kind"], shape, *counts[:2], ones, *counts[2:], k0, k1))
    head = ("layer", "weights are", "shape", "positions", "weights", "ones", "binary MACs", "FLOPs")
    print_columns((*head, "K0", "K1"), rows, left=2)


def _print_images(summary: dict[str, Any]) -> None:
    shape = "×".join(map(str, summary["input"]["shape"]))
    print(f"images       {shape}, {summary['classes']} classes")


def _print_ones(summary: dict[str, Any]) -> None:
    print(
        f"ones         {summary['ones']:,} of {summary['weights']:,} weights "
        f"({summary['density']:.2%}, {summary['entropy']:.4f} bits per weight)"
    )


def _print_kernels(summary: dict[str, Any]) -> None:
    if kernels := summary["kernels"]:
        print(
            f"3×3 kernels  K0 {kernels['k0']:.2%}, K1 {kernels['k1']:.2%}, BOPs PR "
            f"{kernels['bops_pr']:.2%} (all zeros skipped: {kernels['sparse_pr']:.2%}), "
            f"BParams PR {kernels['bparams_pr']:.2%}"
        )


def _stage(stage: dict[str, Any]) -> str:
    """Return a stage's name, and what it is where the name does not tell."""
    name, kind = stage["name"], stage["kind"]
    plain = kind.removesuffix("2d").removeprefix("max_")
    return name if name.rstrip("0123456789") == plain else f"{name} ({kind})"


def _is_chain(stages: list[dict[str, Any]]) -> bool:
    return all(stage["sources"] == [number - 1] for number, stage in enumerate(stages))


def _values(output: dict[str, Any]) -> str:
    """Return what a stage hands on: its shape, and the range of values where they are no bits."""
    shape = "×".join(map(str, output["shape"]))
    low, high = output["low"], output["high"]
    return shape if low >= 0 and high <= 1 else f"{shape}, {low:,} to {high:,}".replace("-", "−")


def _print_stages(stages: list[dict[str, Any]]) -> None:
    """Print all stages with what they read, hand on and do for one image."""
    names = [*(stage["name"] for stage in stages), "input"]
    keys = ("sparse", "additions", "multiplications")
    rows = []
    for stage in stages:
        counts = (stage["connections"], *(stage["work"][key] for key in keys))
        read = ", ".join(names[source] for source in stage["sources"])
        shown = (f"{number:,}" if number else "–" for number in counts)
        rows.append((stage["name"], stage["kind"], read, _values(stage["output"]), *shown))
    head = ("stage", "kind", "reads", "hands on", "connections", "BOPs", "additions", "products")
    print_columns(head, rows, left=4)


def _print_network(summary: dict[str, Any]) -> None:
    bops = summary["bops"]
    stages = summary["stages"]
    chain = _is_chain(stages)
    of = f" ({summary['name']}, domain {summary['domain']})" if "name" in summary else ""
    print(f"model        {summary['model']}{of}")
    print(f"digest       {summary['digest']}")
    _print_images(summary)
    if "pixels" in summary:
        from sbnn_hw.qonnx.pixels import PIXELS

        print(f"pixels       {summary['pixels']}: {PIXELS[summary['pixels']]}")
    if "stream_bits" in summary:
        print(
            f"streams      {summary['stream_bits']} bits, {summary['shortcut']} shortcuts, "
            f"{summary['first']} first layer; weights that are real in the paper are integers of "
            f"{summary['weight_bits'] or 8} bits"
        )
    if chain:
        print(f"stages       {' → '.join(map(_stage, stages))}")
    else:
        joins = sum(len(set(stage["sources"])) > 1 for stage in stages)
        print(f"stages       {len(stages)}, of which {joins} join several ways")
    _print_ones(summary)
    print(f"connections  {summary['connections']:,}")
    saved = f" ({bops['dense'] / bops['sparse']:.1f} times fewer)" if bops["sparse"] else ""
    print(
        f"BOPs         {bops['sparse']:,} per image, of which {bops['q']:,} for q; "
        f"dense {bops['dense']:,}{saved}"
    )
    if bops["additions"]:
        print(f"additions    {bops['additions']:,} of values of several bits per image")
    if bops["multiplications"]:
        print(f"products     {bops['multiplications']:,} of values of several bits per image")
    _print_kernels(summary)
    # What stages without binary weights do is in no other table.
    if not chain or summary["others"]:
        print()
        _print_stages(stages)
    print()
    rows = []
    for layer in summary["layers"]:
        fan_in = f"{layer['fan_in']['least']}–{layer['fan_in']['most']}"
        xi = f"{layer['xi']}/2^{layer['k']}" if layer["xi"] else "0"
        if layer["kind"] == "scores":
            xi = "–"
        keys = ("inputs", "neurons", "windows", "ones", "connections")
        counts = (f"{layer[key]:,}" for key in keys)
        operations = (f"{layer['bops'][key]:,}" for key in ("sparse", "dense"))
        rows.append((layer["name"], *counts, fan_in, xi, *operations))
    head = ("layer", "inputs", "neurons", "windows", "ones", "connections", "fan-in", "ξ", "BOPs")
    print_columns((*head, "dense"), rows)
