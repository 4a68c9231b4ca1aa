"""``sbnn-hw info``: show what a model has."""

import argparse
import json
from typing import Any

from sbnn_hw.bops import summarise
from sbnn_hw.commands.common import add_json, add_model
from sbnn_hw.models import open_network


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    add_model(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> None:
    """Count and show."""
    summary: dict[str, Any] = {"model": str(args.model), **summarise(open_network(args.model))}
    if args.json:
        print(json.dumps(summary))
        return
    bops = summary["bops"]
    print(f"model        {summary['model']}")
    print(f"digest       {summary['digest']}")
    print(
        f"images       {'×'.join(map(str, summary['input']['shape']))}, "
        f"{summary['classes']} classes"
    )
    print(
        f"ones         {summary['ones']:,} of {summary['weights']:,} weights "
        f"({summary['density']:.2%}, {summary['entropy']:.4f} bits a weight)"
    )
    print(f"connections  {summary['connections']:,}")
    saved = f" ({bops['dense'] / bops['sparse']:.1f} times fewer)" if bops["sparse"] else ""
    print(
        f"BOPs         {bops['sparse']:,} an image, of which {bops['q']:,} for q; "
        f"dense {bops['dense']:,}{saved}"
    )
    if bops["additions"]:
        print(f"additions    {bops['additions']:,} of 8-bit pixels an image")
    if kernels := summary["kernels"]:
        print(
            f"3×3 kernels  K0 {kernels['k0']:.2%}, K1 {kernels['k1']:.2%}, BOPs PR "
            f"{kernels['bops_pr']:.2%} (all zeros skipped: {kernels['sparse_pr']:.2%}), "
            f"BParams PR {kernels['bparams_pr']:.2%}"
        )
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
