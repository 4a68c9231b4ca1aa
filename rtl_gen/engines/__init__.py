"""Engines that compute layers in turn, by programs in block RAM."""
