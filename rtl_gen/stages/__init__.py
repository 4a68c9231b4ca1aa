"""The hardware of each operation, a file each: functions that yield candidates."""

from sbnn_hw.rtl_gen.stages import conv, encode, flatten, max_pool, recode, vector

__all__ = ["conv", "encode", "flatten", "max_pool", "recode", "vector"]
