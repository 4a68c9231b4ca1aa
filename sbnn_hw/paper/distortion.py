"""What two values cost: the error of weights in {α, β} and in {−β, +β} over sparsity.

Training for sparsity shifts the weights until a share p of them is at or above zero. Here they are
shifted by their (1 − p)-quantile, then replaced by the two values of least squared error: the
means of either side for {α, β}, which is the paper's closed form, and ±mean |w| for {−β, +β}. All
errors are mean squares over the variance of the weights.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

__all__ = ["Errors", "gaussian_errors", "sample_errors"]

_NORMAL = NormalDist()


@dataclass(frozen=True)
class Errors:
    """Errors over the variance, with weights in {α, β} and in {−β, +β}."""

    general: float
    symmetric: float


def gaussian_errors(p: float) -> Errors:
    """Return the errors for Gaussian weights of which a share ``p`` is at or above zero, exactly.

    Examples
    --------
    >>> errors = gaussian_errors(0.5)
    >>> round(errors.general, 6) == round(errors.symmetric, 6) == 0.36338
    True
    """
    if not 0 < p < 1:
        raise ValueError(f"A share of ones must be between 0 and 1, not {p!r}")
    shift = _NORMAL.inv_cdf(1 - p)
    density = _NORMAL.pdf(shift)
    # E|x − t| of a standard Gaussian x.
    size = 2 * density + shift * (1 - 2 * p)
    return Errors(1 - density**2 / (p * (1 - p)), 1 + shift**2 - size**2)


def sample_errors(weights: npt.ArrayLike, shares: Sequence[float]) -> list[Errors]:
    """Return the errors for given weights, for each share of ones.

    A share is rounded to a number of weights, at least one and not all.
    """
    ordered = np.sort(np.asarray(weights, np.float64).ravel())
    count = len(ordered)
    if count < 2 or not np.isfinite(ordered).all() or ordered[0] == ordered[-1]:
        raise ValueError("Weights must be finite, and not all equal")
    ordered -= ordered.mean()
    variance = float(np.mean(ordered**2))
    # below[k] is the sum of the k smallest; all of them sum to zero.
    below = np.concatenate([[0.0], np.cumsum(ordered)])
    errors = []
    for share in shares:
        ones = min(max(round(share * count), 1), count - 1)
        zeros = count - ones
        low, high = below[zeros] / zeros, (below[-1] - below[zeros]) / ones
        between = (zeros * low**2 + ones * high**2) / count
        shift = ordered[zeros]
        # Σ|x − t| on either side of t.
        size = (zeros * (shift - low) + ones * (high - shift)) / count
        symmetric = variance + shift**2 - size**2
        errors.append(Errors(float(1 - between / variance), float(symmetric / variance)))
    return errors
