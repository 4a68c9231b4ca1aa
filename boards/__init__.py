"""Boards: pins, clocks, shells, synthesis flows, and the host's side of the wire."""
