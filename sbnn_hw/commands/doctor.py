"""``sbnn-hw doctor``: show which tools were found and how to get the others."""

import argparse
import json

from sbnn_hw.commands.common import add_json
from sbnn_hw.tools import look_around


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    add_json(parser)


def run(args: argparse.Namespace) -> None:
    """Look for every tool and say what was found; runs none of them."""
    findings = look_around()
    if args.json:
        print(json.dumps([finding.to_dict() for finding in findings]))
        return
    for finding in findings:
        mark = "ok " if finding.found else "–  "
        what = finding.version or finding.path or "found"
        text = what if finding.found else f"missing: {finding.cure}"
        print(f"{mark} {finding.name:<15} {text:<24}  {finding.purpose}")
