"""The hardware of each operation, a file each: functions that yield candidates."""

from sbnn_hw.rtl_gen.stages import (
    affine,
    concat,
    conv,
    encode,
    flatten,
    max_pool,
    recode,
    sum_pool,
    sums,
    vector,
)

__all__ = [
    "affine",
    "concat",
    "conv",
    "encode",
    "flatten",
    "max_pool",
    "recode",
    "sum_pool",
    "sums",
    "vector",
]
