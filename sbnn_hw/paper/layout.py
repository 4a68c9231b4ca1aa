"""The four tables: their rows and columns, as plain data."""

from dataclasses import dataclass

__all__ = ["LAYOUTS", "Column", "Layout"]


@dataclass(frozen=True)
class Column:
    """A column; ``published`` says whether the paper has it, and ``unit`` is % or ×10⁸."""

    key: str
    title: str
    unit: str = "%"
    published: bool = True


@dataclass(frozen=True)
class Layout:
    """The rows (with their labels) and columns of a table."""

    number: int
    key: str
    title: str
    rows: dict[str, str]
    columns: tuple[Column, ...]

    def column(self, key: str) -> Column | None:
        """Return the column of a key, if there is one."""
        return next((column for column in self.columns if column.key == key), None)


_KERNELS = (
    Column("top1", "top-1"),
    Column("bparams_pr", "BParams PR"),
    Column("bops_pr", "BOPs PR"),
    Column("k0", "K0"),
    Column("k1", "K1"),
)


def _sparsities(*percents: int) -> dict[str, str]:
    return {str(percent): f"{percent} % sparse" for percent in percents}


LAYOUTS = (
    Layout(
        1,
        "ablation",
        "Ablation of the binary domain at 95 % sparsity, ResNet-18, CIFAR-10",
        {
            "baseline": "baseline: {−1, +1}, no constraint",
            "bnn": "{−1, +1}",
            "symmetric": "{−β, +β}",
            "closed_form": "{α, β}, closed form",
            "learned": "{α, β}, learned",
        },
        (
            Column("top1", "top-1"),
            Column("ones", "ones", published=False),
            Column("top1_topk", "top-1 by top-k", published=False),
            Column("ones_topk", "ones by top-k", published=False),
        ),
    ),
    Layout(
        2,
        "cifar10",
        "CIFAR-10, ResNet-18",
        _sparsities(50, 75, 90, 95, 96, 97, 98, 99),
        _KERNELS,
    ),
    Layout(
        3,
        "cifar100",
        "CIFAR-100, ReActNet-18",
        _sparsities(50, 95, 96, 97, 98, 99),
        _KERNELS,
    ),
    Layout(
        4,
        "imagenet",
        "ImageNet, operations for one image",
        {
            "xnor_resnet18": "XNOR-Net ResNet-18",
            "birealnet18": "Bi-RealNet-18",
            "reactnet18": "ReActNet-18",
            "reactnet_a": "ReActNet-A",
            "sbnn75": "SBNN 75 % (ReActNet-A)",
            "sbnn90": "SBNN 90 % (ReActNet-A)",
        },
        (
            Column("bops", "BOPs", "×10⁸"),
            Column("flops", "FLOPs", "×10⁸"),
            Column("ops", "OPs", "×10⁸"),
            Column("top1", "top-1"),
        ),
    ),
)
