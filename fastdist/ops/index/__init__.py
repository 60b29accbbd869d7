"""Ops that read and write elements selected by indices or masks, and ops that find positions."""
