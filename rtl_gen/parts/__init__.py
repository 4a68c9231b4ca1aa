"""Parts of a pipeline as values: how wide, how late, and what they take. No Amaranth here.

:mod:`sbnn_hw.rtl_gen.cores` has the component of each.
"""
