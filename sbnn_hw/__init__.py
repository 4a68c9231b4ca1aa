"""Sparse binary neural networks on FPGAs: train, fold exactly, generate, verify, build."""

__version__ = "0.1.0"
