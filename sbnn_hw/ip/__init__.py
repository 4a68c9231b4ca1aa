"""A network as an IP core: AXI ports, registers, and the files that tools find it by."""
