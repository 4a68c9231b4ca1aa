"""Run the command line as ``python -m sbnn_hw`` (what ``torchrun -m sbnn_hw train …`` calls)."""

import sys

from sbnn_hw.cli import main

if __name__ == "__main__":
    sys.exit(main())
