"""The four tables: their rows and columns, as plain data."""

from dataclasses import dataclass

__all__ = ["LAYOUTS", "Column", "Layout"]


@dataclass(frozen=True)
class Column:
    """A column; ``published`` says whether the paper has it, and ``unit`` is %, points or ×10⁸."""

    key: str
    title: str
    unit: str = "%"
    published: bool = True


@dataclass(frozen=True)
class Layout:
    """The rows (with their labels) and columns of a table.

    ``baseline`` is the row that differences of top-1 accuracies are taken to, if there are any.
    """

    number: int
    key: str
    title: str
    rows: dict[str, str]
    columns: tuple[Column, ...]
    baseline: str = ""

    def column(self, key: str) -> Column | None:
        """Return the column of a key, if there is one."""
        return next((column for column in self.columns if column.key == key), None)


_TOP1, _DELTA = Column("top1", "top-1"), Column("delta", "Δ", "points")
_K0, _K1 = Column("k0", "K0"), Column("k1", "K1")

_SUBBIT = {f"subbit_{bits}": f"Subbit {bits[0]}.{bits[1:]}" for bits in ("067", "056", "044")}


def _sparsities(*percents: int) -> dict[str, str]:
    return {str(percent): f"SBNN {percent} %" for percent in percents}


LAYOUTS = (
    Layout(
        1,
        "ablation",
        "Which two values: ablation at 95 % sparsity, ResNet-18, CIFAR-10",
        {
            "baseline": "{−β, +β} of XNOR-Net, no constraint",
            "symmetric": "{−β, +β}",
            "closed_form": "{α, β}, closed form",
            "learned": "{α, β}, learned",
            "free": "{−1, +1}, no constraint (not in the paper)",
            "bnn": "{−1, +1} (not in the paper)",
        },
        (
            _TOP1,
            _DELTA,
            Column("ones", "ones", published=False),
            Column("top1_topk", "top-1 by top-k", published=False),
            Column("ones_topk", "ones by top-k", published=False),
        ),
        "baseline",
    ),
    Layout(
        2,
        "cifar10",
        "Removal of kernels, ResNet-18, CIFAR-10",
        {
            "irnet": "IR-Net",
            "stq": "STQ",
            "slimming": "Slimming",
            **{f"dual_p_{n}to1": f"Dual-P {n}to1" for n in (2, 3, 4)},
            **_SUBBIT,
            **_sparsities(50, 75, 90, 95, 96, 97, 98, 99),
        },
        (
            _TOP1,
            _DELTA,
            Column("bops_pr", "BOPs PR"),
            Column("sparse_pr", "BOPs PR, sparse"),
            Column("bparams_pr", "BParams PR", published=False),
            _K0,
            _K1,
        ),
        "irnet",
    ),
    Layout(
        3,
        "cifar100",
        "Removal of kernels, ReActNet-18, CIFAR-100",
        {
            "reactnet18": "ReActNet-18*",
            "stq": "STQ",
            **{key: f"{label}*" for key, label in _SUBBIT.items()},
            **_sparsities(50, 95, 96, 97, 98, 99),
        },
        (_TOP1, _DELTA, Column("bops_pr", "BOPs PR"), Column("bparams_pr", "BParams PR"), _K0, _K1),
        "reactnet18",
    ),
    Layout(
        4,
        "imagenet",
        "ImageNet, operations for one image",
        {
            "mobilenet_v1": "MobileNetV1, full precision",
            "resnet18": "ResNet-18, full precision",
            "xnor_resnet18": "XNOR-Net ResNet-18",
            "birealnet18": "Bi-RealNet-18",
            "reactnet18": "ReActNet-18",
            "reactnet_a": "ReActNet-A*",
            **{key: f"{label} ReActNet-18" for key, label in _SUBBIT.items()},
            "sbnn75": "SBNN 75 % ReActNet-A",
            "sbnn90": "SBNN 90 % ReActNet-A",
        },
        (
            Column("bops", "BOPs", "×10⁸"),
            Column("flops", "FLOPs", "×10⁸"),
            Column("ops", "OPs", "×10⁸"),
            _TOP1,
        ),
    ),
)
