"""The names of ``__init__.py``, as type checkers and editors see them."""

from sbnn_hw.train.brevitas import from_brevitas as from_brevitas
from sbnn_hw.train.checkpoint import Checkpoint as Checkpoint
from sbnn_hw.train.checkpoint import load_checkpoint as load_checkpoint
from sbnn_hw.train.checkpoint import save_checkpoint as save_checkpoint
from sbnn_hw.train.columns import ColumnEncoder as ColumnEncoder
from sbnn_hw.train.config import TrainConfig as TrainConfig
from sbnn_hw.train.fitting import fit as fit
from sbnn_hw.train.fold import Folded as Folded
from sbnn_hw.train.fold import fold_checkpoint as fold_checkpoint
from sbnn_hw.train.fold import fold_model as fold_model
from sbnn_hw.train.layers import InputEncoder as InputEncoder
from sbnn_hw.train.layers import LearnedEncoder as LearnedEncoder
from sbnn_hw.train.layers import SignActivation as SignActivation
from sbnn_hw.train.layers import SparseBinaryConv2d as SparseBinaryConv2d
from sbnn_hw.train.layers import SparseBinaryLinear as SparseBinaryLinear
from sbnn_hw.train.layers import SparseBinaryScores as SparseBinaryScores
from sbnn_hw.train.models import ModelConfig as ModelConfig
from sbnn_hw.train.models import build_model as build_model
from sbnn_hw.train.norm import BatchNorm as BatchNorm
from sbnn_hw.train.norm import recompute_statistics as recompute_statistics
from sbnn_hw.train.sparsity import SparsityPenalty as SparsityPenalty
from sbnn_hw.train.sparsity import TopK as TopK

__all__: list[str]
