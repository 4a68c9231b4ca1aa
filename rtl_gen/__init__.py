"""From the integer network to streaming hardware; with `boards`, the only user of amaranth."""
