"""Accuracy over look-up tables: the front of networks, what others published, the picture."""
