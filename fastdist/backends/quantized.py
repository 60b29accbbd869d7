"""Engines for quantized kernels: none are supported."""

from __future__ import annotations

from ..core.missing import explain_missing

engine = "none"
supported_engines: list[str] = ["none"]

explain_missing(__name__)
