"""Names of PyTorch's ONNX exporter, which is not supported: `export` always raises."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..core.missing import refusing, show_public
from ..core.refused import offer_refused

__all__ = [
    "OnnxExporterError", "OperatorExportTypes", "TrainingMode", "dynamo_export", "export",
    "is_in_onnx_export", "is_onnxrt_backend_supported", "register_custom_op_symbolic",
    "unregister_custom_op_symbolic",
]  # fmt: skip

_NO_EXPORT = (
    "programs are not captured as graphs here, so there is none to export: export from PyTorch, "
    "which reads this model's state_dict()"
)
export = refusing(__name__, "export", _NO_EXPORT)
dynamo_export = refusing(__name__, "dynamo_export", _NO_EXPORT)


class OnnxExporterError(RuntimeError):
    """The error of PyTorch's exporter."""


class OperatorExportTypes(enum.Enum):
    """The operators that an export may use."""

    ONNX = 0
    ONNX_ATEN = 1
    ONNX_ATEN_FALLBACK = 2
    ONNX_FALLTHROUGH = 3


class TrainingMode(enum.Enum):
    """The mode of a model in an export."""

    EVAL = 0
    PRESERVE = 1
    TRAINING = 2


def is_in_onnx_export() -> bool:
    """Return False: exporting is not supported."""
    return False


def is_onnxrt_backend_supported() -> bool:
    """Return False: exporting is not supported."""
    return False


def register_custom_op_symbolic(
    symbolic_name: str, symbolic_fn: Callable[..., Any], opset_version: int
) -> None:
    """Do nothing: packages call this function on import, but `export` always raises."""


def unregister_custom_op_symbolic(symbolic_name: str, opset_version: int) -> None:
    """Do nothing: no operators are registered."""


if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...
else:
    offer_refused(globals())

show_public(__name__)
