"""The latent weights of a training state, for the figure of what two values cost."""

from pathlib import Path

import numpy as np
import numpy.typing as npt
from torch import Tensor

from sbnn_hw.errors import ModelRejected
from sbnn_hw.train.checkpoint import read_tensors
from sbnn_hw.train.state import STATE_FORMAT

__all__ = ["pooled_quantiles", "read_latents"]


def read_latents(path: Path) -> dict[str, npt.NDArray[np.float64]]:
    """Return the latent weights of each sparse binary layer of a training state."""
    state = read_tensors(path, "training state")
    values = state.get("model")
    if state.get("format") != STATE_FORMAT or not isinstance(values, dict):
        raise ModelRejected(
            f"{path} is not a training state; name the .state.pt that training writes next to a "
            f"checkpoint (the checkpoint itself has no latent weights)"
        )
    latents = {}
    for key, value in values.items():
        name = key.removesuffix(".weight")
        # Sparse binary layers alone have a cut.
        if key != name and f"{name}.cut" in values and isinstance(value, Tensor):
            latents[name] = value.detach().double().cpu().numpy().ravel()
    if not latents:
        raise ModelRejected(f"{path} has no sparse binary layers")
    for name, latent in latents.items():
        if not np.isfinite(latent).all() or latent.std() == 0:
            raise ModelRejected(
                f"{path}: layer {name} has latent weights that are not finite or all equal"
            )
    return latents


def pooled_quantiles(
    latents: dict[str, npt.NDArray[np.float64]], count: int = 1001
) -> npt.NDArray[np.float64]:
    """Return quantiles of all latent weights together, each layer standardised first."""
    pooled = np.concatenate([(w - w.mean()) / w.std() for w in latents.values()])
    return np.asarray(np.quantile(pooled, np.linspace(0, 1, count)), np.float64)
