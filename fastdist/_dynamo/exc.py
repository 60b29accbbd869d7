"""Errors of PyTorch's compiler, for `except` clauses; fastdist never raises them."""

from __future__ import annotations

from ..core.missing import explain_missing

__all__ = [
    "BackendCompilerFailed", "FailOnRecompileLimitHit", "InternalTorchDynamoError",
    "RecompileError", "TensorifyScalarRestartAnalysis", "TorchDynamoException", "TorchRuntimeError",
    "Unsupported", "UserError",
]  # fmt: skip


class TorchDynamoException(RuntimeError):
    """The base class of the compiler's errors."""


class InternalTorchDynamoError(TorchDynamoException):
    """The compiler failed."""


class BackendCompilerFailed(TorchDynamoException):
    """A backend failed to compile a graph."""


class Unsupported(TorchDynamoException):
    """The compiler found code that it does not support."""


class UserError(Unsupported):
    """The program uses something that cannot be compiled."""


class RecompileError(TorchDynamoException):
    """A function was recompiled although that was forbidden."""


class FailOnRecompileLimitHit(Exception):
    """A function was recompiled too often."""


class TorchRuntimeError(TorchDynamoException):
    """Code failed during compilation."""


class TensorifyScalarRestartAnalysis(TorchDynamoException):
    """The compiler restarts and treats a number as a tensor."""


explain_missing(__name__)
