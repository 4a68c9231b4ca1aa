"""What bench/fuzz.py is made of: random cases, what is compared, faults to plant, and the tally."""

import sys
from pathlib import Path

# Random networks are those of the tests.
sys.path.append(str(Path(__file__).parents[2] / "tests"))
