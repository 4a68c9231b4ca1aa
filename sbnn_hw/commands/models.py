"""``sbnn-hw models``: list the models and recipes that can be trained."""

import argparse
import json

from sbnn_hw.commands.common import add_json
from sbnn_hw.train.catalogue import BACKBONES, FORMS, MODELS
from sbnn_hw.train.recipes import describe_recipes


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this command."""
    add_json(parser)


def run(args: argparse.Namespace) -> None:
    """List them."""
    models = {name: topology.description for name, topology in MODELS.items()}
    recipes = describe_recipes()
    if args.json:
        listed = {"models": models, "forms": FORMS, "backbones": BACKBONES, "recipes": recipes}
        print(json.dumps(listed))
        return
    for title, entries in (
        ("Models", models),
        ("Your own, for example", FORMS),
        (
            "Backbones, which are built from integer streams only (--stream-bits, or `quantise`)",
            BACKBONES,
        ),
        ("Recipes", recipes),
    ):
        print(f"{title}:")
        for name, text in entries.items():
            print(f"  {name:<30} {text}")
