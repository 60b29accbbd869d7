"""PyTorch's mode for tracing with tensors: never active here."""

from __future__ import annotations

from ...core.missing import NO_GRAPHS, explain_missing, refusing

__all__ = ["get_proxy_mode", "make_fx"]

make_fx = refusing(__name__, "make_fx", NO_GRAPHS)


def get_proxy_mode() -> None:
    """Return None: the mode is never active."""
    return


explain_missing(__name__)
