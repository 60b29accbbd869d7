"""Indexed reads and writes on the CPU."""
