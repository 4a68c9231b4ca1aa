"""From trained layers to the integer network: exact thresholds, constants, and what nothing reads.

Imports neither torch nor amaranth; the fold of a checkpoint and the importer of ONNX both use it.
"""
