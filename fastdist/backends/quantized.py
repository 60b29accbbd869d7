"""Engines of quantized kernels: there are none."""

from __future__ import annotations

from ..core.missing import explain_missing

engine = "none"
supported_engines: list[str] = ["none"]

explain_missing(__name__)
