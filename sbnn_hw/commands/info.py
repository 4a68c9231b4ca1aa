"""``sbnn-hw info``: show what a model has."""

import argparse
import json
from pathlib import Path
from typing import Any

from sbnn_hw.bops import summarise
from sbnn_hw.commands.common import add_json, add_model
from sbnn_hw.models import open_network, require_torch


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    add_model(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> None:
    """Count and show; a backbone is counted as it is, all else as the netlist that it becomes."""
    backbone = _count_backbone(args.model) if args.model.suffix == ".pt" else None
    summary: dict[str, Any] = {"model": str(args.model)}
    if backbone:
        summary |= backbone
    elif args.model.suffix.lower() == ".onnx":
        from sbnn_hw.qonnx.importer import import_network

        imported = import_network(args.model, pixels=args.pixels)
        summary |= {**summarise(imported.network), "pixels": imported.pixels}
    else:
        summary |= summarise(open_network(args.model, args.pixels))
    if args.json:
        print(json.dumps(summary))
    elif backbone:
        _print_backbone(summary)
    else:
        _print_network(summary)


def _count_backbone(path: Path) -> dict[str, Any] | None:
    """Return the counts of a checkpoint that no netlist can be made of; None of all others."""
    require_torch()
    from sbnn_hw.train.checkpoint import load_checkpoint
    from sbnn_hw.train.metrics import count_model

    checkpoint = load_checkpoint(path)
    config = checkpoint.config
    if not config.is_backbone:
        return None
    counts = count_model(checkpoint.model, config.shape).to_dict()
    return {
        "name": config.name,
        "domain": config.domain,
        "stream_bits": config.stream_bits,
        "weight_bits": config.weight_bits,
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
    if summary["stream_bits"]:
        print(
            f"integers     streams of {summary['stream_bits']} bits; what is called real has "
            f"integer weights of {summary['weight_bits'] or 8}"
        )
        print("hardware     none yet; the netlist that `sbnn-hw fold` writes has its own counts")
    else:
        print("hardware     none yet: real-valued layers cannot be folded")
    print()
    print(
        f"{'layer':<28} {'weights are':<11} {'shape':>14} {'positions':>9} {'weights':>10} "
        f"{'ones':>10} {'binary MACs':>13} {'FLOPs':>12} {'K0':>7} {'K1':>7}"
    )
    for layer in summary["layers"]:
        ones = "–" if layer["ones"] is None else f"{layer['ones']:,}"
        histogram = layer["histogram"]
        k0, k1 = (f"{n / sum(histogram):.1%}" for n in histogram[:2]) if histogram else "––"
        print(
            f"{layer['name']:<28} {layer['kind']:<11} {'×'.join(map(str, layer['shape'])):>14} "
            f"{layer['positions']:>9,} {layer['weights']:>10,} {ones:>10} "
            f"{layer['binary_macs']:>13,} {layer['flops']:>12,} {k0:>7} {k1:>7}"
        )


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


def _graph(stages: list[dict[str, Any]]) -> str:
    """Return the stages in a chain, or each with what it reads where they are none."""
    if all(stage["sources"] == [number - 1] for number, stage in enumerate(stages)):
        return " → ".join(map(_stage, stages))
    names = [*(stage["name"] for stage in stages), "input"]
    return ", ".join(
        f"{' + '.join(names[source] for source in stage['sources'])} → {_stage(stage)}"
        for stage in stages
    )


def _print_network(summary: dict[str, Any]) -> None:
    bops = summary["bops"]
    print(f"model        {summary['model']}")
    print(f"digest       {summary['digest']}")
    _print_images(summary)
    if "pixels" in summary:
        from sbnn_hw.qonnx.pixels import PIXELS

        print(f"pixels       {summary['pixels']}: {PIXELS[summary['pixels']]}")
    print(f"stages       {_graph(summary['stages'])}")
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
    for name, work in summary["others"].items():
        done = (f"{number:,} {what.replace('_', ' ')}" for what, number in work.items() if number)
        print(f"{name:<12} {', '.join(done)} per image")
    _print_kernels(summary)
    print()
    print(
        f"{'layer':<10} {'inputs':>8} {'neurons':>8} {'windows':>8} {'ones':>9} "
        f"{'connections':>12} {'fan-in':>9} {'ξ':>10} {'BOPs':>12} {'dense':>13}"
    )
    for layer in summary["layers"]:
        fan_in = f"{layer['fan_in']['least']}–{layer['fan_in']['most']}"
        xi = f"{layer['xi']}/2^{layer['k']}" if layer["xi"] else "0"
        if layer["kind"] == "scores":
            xi = "–"
        print(
            f"{layer['name']:<10} {layer['inputs']:>8,} {layer['neurons']:>8,} "
            f"{layer['windows']:>8,} {layer['ones']:>9,} {layer['connections']:>12,} "
            f"{fan_in:>9} {xi:>10} {layer['bops']['sparse']:>12,} "
            f"{layer['bops']['dense']:>13,}"
        )
