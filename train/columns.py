"""The encoder of tables and signals: each column has thresholds where its values are."""

import numpy as np
import torch
from torch import Tensor, nn

from sbnn_hw.train.layers import InputEncoder, LearnedBits, pushed_apart

__all__ = ["ColumnEncoder"]


class ColumnEncoder(InputEncoder):
    """The encoder of tables and signals: a thermometer with thresholds for each column.

    They begin evenly over the range; training puts them where the training values are parted evenly
    (:meth:`place`).

    Parameters
    ----------
    channels : int
        Columns of a table, or channels of a signal or image.
    planes : int
        Thresholds of each.
    most : int
        The largest value of the input.
    learn : bool
        Move the thresholds during training.
    """

    levels: nn.Parameter | Tensor

    def __init__(self, channels: int, planes: int, *, most: int = 255, learn: bool = False) -> None:
        if not 1 <= planes <= most:
            raise ValueError(f"Thresholds of a column must be between 1 and {most}, not {planes}")
        even = np.linspace(0, most, planes + 2)[1:-1].round().astype(int).tolist()
        super().__init__("thermometer", pushed_apart(even, most), most=most)
        levels = torch.tensor([self._thresholds] * channels) / most
        self.learn = learn
        if learn:
            self.levels = nn.Parameter(levels)
        else:
            self.register_buffer("levels", levels)

    @torch.no_grad()
    def place(self, values: Tensor) -> None:
        """Put the thresholds of each column where its values (count, channels, …) are parted."""
        for channel in range(len(self.levels)):
            column = np.sort(values[:, channel].flatten().cpu().numpy())
            found = _thresholds(column, self.planes, self.most)
            self.levels[channel] = torch.tensor(found) / self.most

    def table(self, channels: int) -> list[list[int]]:
        """The thresholds of each channel."""
        if channels != len(self.levels):
            raise ValueError(f"Channels must be {len(self.levels)}, not {channels}")
        rounded = (self.levels.detach() * self.most).round().int().tolist()
        return [pushed_apart(row, self.most) for row in rounded]

    @property
    def planes(self) -> int:
        """Number of outputs for each input channel."""
        return self.levels.shape[1]

    def forward(self, x: Tensor) -> Tensor:  # (batch, channels, …) -> (batch, channels·planes, …)
        if not x.is_floating_point():
            x = x.to(torch.get_default_dtype())
        table = self.table(x.shape[1])
        return LearnedBits.apply(x, self.levels, table, self.most).flatten(1, 2)  # type: ignore[no-any-return,no-untyped-call]

    def extra_repr(self) -> str:
        return f"{len(self.levels)} columns, {self.planes} thresholds each"


def _thresholds(column: np.ndarray, planes: int, most: int) -> list[int]:
    """Return thresholds that part sorted values evenly; what is left over is where no value is."""
    different = np.unique(column)[1:].tolist()
    if len(different) > planes:
        places = np.round(np.arange(1, planes + 1) * len(column) / (planes + 1)).astype(int)
        chosen = {int(value) for value in column[places] if value > column[0]}
        # Values that are frequent take several quantiles: the rest goes to the others, evenly.
        others = [value for value in different if value not in chosen]
        step = max(1, len(others) // max(1, planes - len(chosen)))
        chosen |= set(others[::step][: planes - len(chosen)])
        different = sorted(int(value) for value in chosen)
    unused = (value for value in range(most, 0, -1) if value not in set(different))
    return sorted([*map(int, different), *(next(unused) for _ in range(planes - len(different)))])
