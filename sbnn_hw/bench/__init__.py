"""Measure the zoo: accuracy, agreement, look-up tables, speed, beside dense and published ones."""
