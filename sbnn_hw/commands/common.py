"""Arguments that several commands have."""

import argparse
from pathlib import Path

__all__ = ["add_data_root", "add_json", "add_model"]


def add_model(parser: argparse.ArgumentParser) -> None:
    """Add the model to read."""
    parser.add_argument(
        "--model",
        metavar="FILE",
        type=Path,
        required=True,
        help="checkpoint (.pt) or netlist (.sbnn)",
    )


def add_data_root(parser: argparse.ArgumentParser) -> None:
    """Add the folder of the data sets."""
    parser.add_argument(
        "--data-root",
        metavar="DIR",
        type=Path,
        help="folder of the data sets (default: $SBNN_DATA, then data/)",
    )


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add the switch for programs that read the answer."""
    parser.add_argument("--json", action="store_true", help="print the answer as JSON")
