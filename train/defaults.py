"""What a run takes for data of one's own where nobody says: a model, an encoder, a budget.

Loads no torch, so that the command line can show what was chosen.
"""

import math
from typing import Any

from sbnn_hw.cost.by_taps import CLASS
from sbnn_hw.data.own import OwnData

__all__ = ["choose_defaults"]

#: The budget in look-up tables, by what the data are.
_LUTS = {"images": 2000, "signals": 2000, "table": 1000}
#: … and for each class at least.
_EACH = 100
#: Steps of the optimiser that a run takes, about; an epoch is never shorter than one.
_STEPS = {"images": 6000, "signals": 6000, "table": 9000}
#: Shares of the tables for neurons and for scores of a table's network; comparisons take the rest.
_NEURONS, _SCORES = 0.5, 0.35
#: Tables of a tap of a score, about.
_TAP = 0.75


def choose_defaults(data: OwnData, given: dict[str, Any]) -> dict[str, Any]:
    """Return the choices that were not made, for these data and those that were."""
    kind, rows = data.meaning.kind, len(data.load("train"))
    chosen: dict[str, Any] = {}
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


def _table(data: OwnData, luts: int) -> dict[str, Any]:
    """Neurons of one table each, and scores that tap some of them."""
    # The search for the largest score takes its tables whatever is trained.
    room = max(luts - CLASS * data.classes, luts / 3)
    width = max(8, round(_NEURONS * room))
    taps = round(_SCORES * room / (_TAP * data.classes))
    planes = {"encoder": "quantile"} if data.bits > 1 else {}
    return {"model": f"mlp:{width}", "fan_in": (6, max(6, min(width, taps))), **planes}


def _images(data: OwnData, luts: int) -> dict[str, Any]:
    """Convolutions over pixels that come one by one, or for tiny images as for a table."""
    height, width, _ = data.shape
    if min(height, width) < 12:
        return {**_table(data, luts), "encoder": "learned"}
    size = math.sqrt(luts / 1650)
    first, second, third = (max(4, round(size * n)) for n in (24, 48, 64))
    model = f"conv:{first}k5s2,{second}p,{third}"
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
