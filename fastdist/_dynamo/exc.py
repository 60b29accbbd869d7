"""Errors of PyTorch's compiler, for `except` clauses; nothing here raises them."""

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
    """The compiler met code that it does not support."""


class UserError(Unsupported):
    """The program asked for something that cannot be compiled."""


class RecompileError(TorchDynamoException):
    """A function was compiled again although that was forbidden."""


class FailOnRecompileLimitHit(Exception):
    """A function was compiled too often."""


class TorchRuntimeError(TorchDynamoException):
    """Code failed while it was compiled."""


class TensorifyScalarRestartAnalysis(TorchDynamoException):
    """The compiler starts again with a number as a tensor."""


explain_missing(__name__)
