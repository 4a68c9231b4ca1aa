"""Measure the zoo: accuracy, agreement, look-up tables, speed, next to dense and published ones."""
