"""Copies that change dtype, order or position, on the CPU."""
