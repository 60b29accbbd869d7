"""Ranges and random numbers, written into arrays of the CPU."""
