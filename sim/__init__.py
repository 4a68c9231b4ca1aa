"""Simulate generated Verilog with Verilator: whole batches through a compiled library."""
