"""Embedding: a table of vectors, looked up by number."""

from __future__ import annotations

from typing import Any

from ..core.dtypes import DType
from ..core.errors import ShapeError
from ..graph.modes import no_grad
from ..ops.creation import empty
from ..tensor.parameter import Parameter
from ..tensor.tensor import Tensor
from . import functional, init
from .module import Module


class Embedding(Module):
    """Returns the rows of its weight that integers name.

    Shape   (...) -> (..., embedding_dim); weight is (num_embeddings, embedding_dim)
    Note    the row at padding_idx begins as zeros and gets no gradient
    """

    weight: Parameter

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        _weight: Tensor | None = None,
        _freeze: bool = False,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        if padding_idx is not None:
            if not -num_embeddings <= padding_idx < num_embeddings:
                raise ValueError(
                    f"padding_idx must be within num_embeddings: got {padding_idx} for "
                    f"{num_embeddings} rows"
                )
            padding_idx %= num_embeddings
        self.padding_idx = padding_idx
        shape = (num_embeddings, embedding_dim)
        if _weight is None:
            _weight = empty(shape, device=device, dtype=dtype)
            self.weight = Parameter(_weight, requires_grad=not _freeze)
            self.reset_parameters()
        elif tuple(_weight.shape) != shape:
            raise ShapeError(f"Embedding: weight is {_weight.shape}, expected {shape}")
        else:
            self.weight = Parameter(_weight, requires_grad=not _freeze)

    @classmethod
    def from_pretrained(
        cls, embeddings: Tensor, freeze: bool = True, padding_idx: int | None = None
    ) -> Embedding:
        """Return an Embedding with these rows, which do not learn unless freeze is False.

        Raises  ValueError for what is no matrix
        """
        if embeddings.ndim != 2:
            raise ValueError(
                "Embeddings parameter is expected to be 2-dimensional, got shape "
                f"{embeddings.shape}"
            )
        rows, columns = embeddings.shape
        return cls(rows, columns, padding_idx, _weight=embeddings, _freeze=freeze)

    def reset_parameters(self) -> None:
        """Draw all rows anew, from normal numbers."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx].zero_()

    def forward(self, input: Tensor) -> Tensor:
        """Return the rows that input names."""
        return functional.embedding(input, self.weight, self.padding_idx)

    def extra_repr(self) -> str:
        """Return the sizes."""
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"{self.num_embeddings}, {self.embedding_dim}{padding}"
