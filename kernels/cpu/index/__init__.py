"""Reads and writes that indices select, on the CPU."""
