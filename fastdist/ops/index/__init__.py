"""Ops that read and write elements that indices or masks select, and that look up positions."""
