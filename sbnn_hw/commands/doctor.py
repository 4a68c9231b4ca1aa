"""``sbnn-hw doctor``: show which tools were found and how to get the others, and what is set."""

import argparse
import json

from sbnn_hw.commands.common import add_json
from sbnn_hw.tools import VARIABLES, look_around, variables_set


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    add_json(parser)


def run(args: argparse.Namespace) -> None:
    """Look for every tool and say what was found; native programs are asked for their version."""
    findings, variables = look_around(), variables_set()
    if args.json:
        tools = [finding.to_dict() for finding in findings]
        print(json.dumps({"tools": tools, "environment": variables}))
        return
    for finding in findings:
        mark = "ok " if finding.found else "–  "
        what = (finding.version or finding.path or "found") if finding.found else "missing"
        print(f"{mark} {finding.name:<15}  {what:<18}  {finding.purpose}")
        # Below: why this one of several, or how to get it.
        note = finding.note or (None if finding.found else finding.cure)
        if note is not None:
            print(f"{'':<21}{note}")
    for name, value in variables.items():
        print(f"set {name:<15}  {value:<18}  {VARIABLES[name]}")
