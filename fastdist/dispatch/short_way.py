"""What the short ways of pointwise ops read off an op, and the names that their texts share."""

from __future__ import annotations

from typing import Any, Final, Protocol

from ..graph.modes import modes, tls
from ..tensor.tensor import Tensor
from .constants import NUMBERS, constant
from .op import PLAIN

SHORT_WAY_NAMES: Final[dict[str, Any]] = {
    "_PLAIN": PLAIN,
    "_NUMBERS": NUMBERS,
    "_constant": constant,
    "_modes": modes,
    "_tls": tls,
    "_Tensor": Tensor,
}


class Pointwise(Protocol):
    """What the short ways read off a pointwise op."""

    name: str
    tensors: tuple[str, ...]
    tensors_only: frozenset[str]
    number_names: tuple[str, ...]
    body_names: tuple[str, ...]
    plain: Any
    dtype: str
    differentiable: bool
    is_quick: bool
    written: Any

    @property
    def parameters(self) -> tuple[Any, ...]:
        """The user's parameters."""

    @property
    def run_body(self) -> Any:
        """The body over what it uses."""

    @property
    def gradient_bodies(self) -> tuple[Any, ...]:
        """Per input, what its gradient is; None where it has none."""

    @property
    def nodes(self) -> tuple[Any, ...]:
        """The tiny, the general, the plain and the spread Node class."""

    def general(
        self, operands: tuple[Any, ...], attributes: tuple[Any, ...], out: Any = None
    ) -> Any:
        """Run the op the general way."""
