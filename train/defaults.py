"""What a run takes where nobody says: a model, an encoder, a budget, a method.

Loads no torch, so that the command line can show what was chosen.
"""

import math
from typing import Any

from sbnn_hw.cost.by_taps import CLASS
from sbnn_hw.data.own import OwnData
from sbnn_hw.errors import UsageError

__all__ = ["cap_of_scores", "choose_defaults", "choose_method", "share_of_ones", "tell"]

#: The budget in look-up tables, by what the data are.
_LUTS = {"images": 2000, "signals": 2000, "table": 1000}
#: … and for each class at least.
_EACH = 100
#: Values of all training rows below which several threads wait for each other more than they help.
_SMALL = 1 << 24
#: Steps of the optimiser that a run takes, about; an epoch is never shorter than one.
_STEPS = {"images": 6000, "signals": 6000, "table": 9000}
#: Shares of the tables for neurons and for scores of a table's network; comparisons take the rest.
_NEURONS, _SCORES = 0.5, 0.35
#: Tables of a tap of a score, about.
_TAP = 0.75


def share_of_ones(sparsity: float) -> float:
    """Return the constraint on the share of ones, of the share of zeros to reach."""
    if not 0 <= sparsity < 1:
        meant = f" (did you mean {sparsity / 100:g}?)" if 50 <= sparsity < 100 else ""
        raise UsageError(f"--sparsity must be at least 0 and below 1, not {sparsity:g}{meant}")
    # Rounded, so that 0.95 is the constraint 0.05 and not 0.05000000000000004.
    return round(1 - sparsity, 12)


def choose_method(given: dict[str, Any]) -> dict[str, Any]:
    """Return the method, if it was not chosen: without a constraint, ones are not counted."""
    return {"method": "none"} if "ec" not in given and "method" not in given else {}


def tell(chosen: dict[str, Any]) -> str:
    """Return in a line what was chosen."""
    texts = {
        name: " ".join(map(str, value)) if isinstance(value, tuple) else str(value)
        for name, value in chosen.items()
    }
    return f"{', '.join(f'{name} {text}' for name, text in texts.items())} (options change this)"


def choose_defaults(data: OwnData, given: dict[str, Any]) -> dict[str, Any]:
    """Return the choices that were not made, for these data and those that were."""
    kind, rows = data.meaning.kind, len(data.load("train"))
    if int(given.get("luts", 1)) < 1:
        raise UsageError(f"--luts must be 1 or more, not {given['luts']}")
    chosen: dict[str, Any] = {}
    if rows * math.prod(data.shape) < _SMALL:
        chosen["threads"] = 1
    if "method" not in given and "ec" not in given:
        chosen["method"] = "luts"
    method = {**chosen, **given}.get("method", "penalty")
    if method == "luts":
        most = max(_LUTS[kind], _EACH * data.classes)
        chosen |= {"luts": most, "domain": "signed", "ec_schedule": "cubic", "ec_until": 0.4}
    luts = int({**chosen, **given}.get("luts") or _LUTS[kind])
    chosen["batch"] = max(8, min(128, 1 << int(math.log2(max(8, rows / 16)))))
    batch = int(given.get("batch", chosen["batch"]))
    chosen["epochs"] = max(20, min(400, round(_STEPS[kind] / max(1, rows // batch))))
    if data.validation is None:
        chosen["validation"] = rows // 5 if rows < 25_000 else 5000
    chosen |= {"images": _images, "signals": _signals, "table": _table}[kind](data, luts)
    if "model" in given:
        # The caps belong to the model that was not taken.
        chosen.pop("fan_in", None)
    if method != "luts":
        chosen.pop("fan_in", None)
    return {name: value for name, value in chosen.items() if name not in given}


def cap_of_scores(luts: int, classes: int) -> int:
    """Return the most taps of a class's score, so that a budget has tables left for neurons."""
    return max(6, round(_SCORES * _room(luts, classes) / (_TAP * classes)))


def _room(luts: int, classes: int) -> float:
    """Return the tables of a budget that neurons and scores share."""
    # The search for the largest score takes its tables whatever is trained.
    return max(luts - CLASS * classes, luts / 3)


def _table(data: OwnData, luts: int) -> dict[str, Any]:
    """Neurons of one table each, and scores that tap some of them."""
    width = max(8, round(_NEURONS * _room(luts, data.classes)))
    scores = min(width, cap_of_scores(luts, data.classes))
    planes = {"encoder": "quantile"} if data.bits > 1 else {}
    return {"model": f"mlp:{width}", "fan_in": (6, scores), **planes}


def _images(data: OwnData, luts: int) -> dict[str, Any]:
    """Convolutions over pixels that come one by one, or for tiny images as for a table."""
    height, width, _ = data.shape
    if min(height, width) < 14:
        return {**_table(data, luts), "encoder": "learned"}
    size = math.sqrt(luts / 1650)
    first, second, third = (max(4, round(size * n)) for n in (24, 48, 64))
    # A pool leaves nothing of small images.
    pooled = "p" if min(height, width) >= 19 else ""
    model = f"conv:{first}k5s2,{second}{pooled},{third}"
    if min(height, width) >= 40:
        model = f"conv:{first}k5s2,{second}k3s2,{second}p,{third}"
    caps = (12, 14, 12, 576) if model.count(",") == 2 else (12, 12, 14, 12, 576)
    return {"model": model, "fan_in": caps, "encoder": "learned"}


def _signals(data: OwnData, luts: int) -> dict[str, Any]:
    """Convolutions along the signal."""
    size = math.sqrt(luts / 1650)
    first, second, third = (max(4, round(size * n)) for n in (24, 48, 64))
    if data.shape[1] < 24:
        return _table(data, luts)
    pooled = "p" if data.shape[1] >= 48 else ""
    return {
        "model": f"conv:{first}k5s2,{second}k3{pooled},{third}k3",
        "fan_in": (12, 14, 12, 576),
        "encoder": "quantile",
    }
