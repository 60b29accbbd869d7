"""PyTorch's exporter, which is not here: its names say what to do instead."""

from __future__ import annotations

from .core.missing import explain_missing, refusing

__all__ = ["dynamo_export", "export", "is_in_onnx_export"]

_NO_EXPORT = (
    "programs are not captured as graphs here, so there is none to export: export from PyTorch, "
    "which reads this model's state_dict()"
)
export = refusing(__name__, "export", _NO_EXPORT)
dynamo_export = refusing(__name__, "dynamo_export", _NO_EXPORT)


def is_in_onnx_export() -> bool:
    """Return False."""
    return False


explain_missing(__name__)
