"""The names of ``__init__.py``, as type checkers and editors see them."""

from sbnn_hw import train as train
from sbnn_hw.api import build as build
from sbnn_hw.api import simulate_board as simulate_board
from sbnn_hw.boards.driver import Answers as Answers
from sbnn_hw.boards.driver import Link as Link
from sbnn_hw.boards.driver import open_board as open_board
from sbnn_hw.data.find import open_data as open_data
from sbnn_hw.data.options import DataOptions as DataOptions
from sbnn_hw.data.own import OwnData as OwnData
from sbnn_hw.data.own import from_arrays as from_arrays
from sbnn_hw.datasets import Dataset as Dataset
from sbnn_hw.errors import SbnnError as SbnnError
from sbnn_hw.images import read_images as read_images
from sbnn_hw.models import open_network as open_network
from sbnn_hw.netlist import Network as Network
from sbnn_hw.netlist import Outcome as Outcome
from sbnn_hw.report import Report as Report

__version__: str
__all__: list[str]
