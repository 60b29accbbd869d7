"""Embedding and EmbeddingBag: tables of vectors that are looked up by index."""

from __future__ import annotations

from typing import Any

from ..core.dtypes import DType
from ..core.short_repr import short_repr
from ..graph.modes import no_grad
from ..ops.create.creation import empty
from ..tensor.parameter import Parameter
from ..tensor.tensor import Tensor
from . import functional, init
from .module import Module


class _Table(Module):
    """Base of Embedding and EmbeddingBag: the table and its initial values."""

    weight: Parameter

    def _set(self, num_embeddings: int, embedding_dim: int, padding_idx: int | None) -> None:
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        if padding_idx is not None:
            if not -num_embeddings <= padding_idx < num_embeddings:
                raise AssertionError(
                    f"{self._padding_word} must be within num_embeddings: it is {padding_idx}, of "
                    f"{num_embeddings} rows"
                )
            padding_idx %= num_embeddings
        self.padding_idx = padding_idx

    _padding_word = "Padding_idx"

    def _set_rules(
        self, max_norm: float | None, norm_type: float, scale_grad_by_freq: bool, sparse: bool
    ) -> None:
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.sparse = sparse

    def _set_weight(
        self, given: Tensor | None, device: Any, dtype: DType | None, freeze: bool = False
    ) -> None:
        shape = (self.num_embeddings, self.embedding_dim)
        if given is None:
            made = empty(shape, device=device, dtype=dtype)
            self.weight = Parameter(made, requires_grad=not freeze)
            self.reset_parameters()
            return
        if tuple(given.shape) != shape:
            raise AssertionError(
                "Shape of weight does not match num_embeddings and embedding_dim: it is "
                f"{tuple(given.shape)}, expected {shape}"
            )
        self.weight = Parameter(given, requires_grad=not freeze)

    def reset_parameters(self) -> None:
        """Draw new normal values for all rows, and set the row of padding_idx to zeros."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx].zero_()

    def _shown(self, **more: tuple[Any, Any]) -> str:
        """Return the sizes, and the options in `more` that differ from their defaults.

        `more` maps a name to a pair of value and default.
        """
        shown = [f"{self.num_embeddings}, {self.embedding_dim}"]
        for name, (value, usual) in more.items():
            if value != usual:
                shown.append(f"{name}={short_repr(value)}")
        return ", ".join(shown)


def _require_matrix(embeddings: Tensor) -> None:
    if embeddings.ndim != 2:
        raise AssertionError(
            f"Embeddings parameter is expected to be 2-dimensional, got shape {embeddings.shape}"
        )


class Embedding(_Table):
    """Looks up rows of its weight by index.

    Shape   (...) -> (..., embedding_dim); weight is (num_embeddings, embedding_dim)
    Note    the row at padding_idx starts as zeros and gets no gradient; rows with a norm above
            max_norm are scaled down when they are looked up
    Raises  AssertionError if padding_idx is out of range; IndexError in a call, if an index is out
            of range

    Args:
        num_embeddings: The number of rows.
        embedding_dim: The length of a row.
        padding_idx: The index of a row that gets no gradient; None if there is no such row.
        max_norm: The largest norm of a row; a row with a larger norm is scaled down to max_norm. No
            limit if None.
        norm_type: The order p of the norm for max_norm.
        scale_grad_by_freq: Whether to divide the gradient of a row by the number of times that the
            row's index occurs in the batch.
        sparse: Whether the gradient of the weight is sparse.
        device: The device of the weight; the default device if None.
        dtype: The dtype of the weight; the default dtype if None.

    Example:
        >>> layer = nn.Embedding(10, 4)
        >>> layer(torch.tensor([[1, 2, 3]])).shape
        fastdist.Size([1, 3, 4])
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Tensor | None = None,
        _freeze: bool = False,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        self._set(num_embeddings, embedding_dim, padding_idx)
        self._set_rules(max_norm, norm_type, scale_grad_by_freq, sparse)
        self._set_weight(_weight, device, dtype, _freeze)

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> Embedding:
        """Return an Embedding whose weight is `embeddings`; it is trained only if freeze is False.

        Raises  AssertionError for a tensor that is not a matrix
        """
        _require_matrix(embeddings)
        rows, columns = embeddings.shape
        rules = padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse
        return cls(rows, columns, *rules, _weight=embeddings, _freeze=freeze)

    def forward(self, input: Tensor) -> Tensor:
        """Return the rows at the indices in input."""
        return functional.embedding(
            input,
            self.weight,
            self.padding_idx,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.sparse,
        )

    def extra_repr(self) -> str:
        """Return the sizes, and options that differ from their defaults."""
        return self._shown(
            padding_idx=(self.padding_idx, None),
            max_norm=(self.max_norm, None),
            norm_type=(self.norm_type, 2),
            scale_grad_by_freq=(self.scale_grad_by_freq, False),
            sparse=(self.sparse, False),
        )


class EmbeddingBag(_Table):
    """Looks up the rows of each bag of indices, and returns the sum, mean or max of these rows.

    Shape   indices (bags, n), or indices (n,) and offsets (bags,) -> (bags, embedding_dim)
    Note    the row at padding_idx is left out of the reduction and gets no gradient
    """

    _padding_word = "padding_idx"

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: Tensor | None = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        self._set(num_embeddings, embedding_dim, padding_idx)
        self._set_rules(max_norm, norm_type, scale_grad_by_freq, sparse)
        self._set_weight(_weight, device, dtype)
        self.mode = mode
        self.include_last_offset = include_last_offset

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
    ) -> EmbeddingBag:
        """Return an EmbeddingBag whose weight is `embeddings`, trained only if freeze is False.

        Raises  AssertionError for a tensor that is not a matrix
        """
        _require_matrix(embeddings)
        rows, columns = embeddings.shape
        rules = max_norm, norm_type, scale_grad_by_freq, mode, sparse
        made = cls(rows, columns, *rules, embeddings, include_last_offset, padding_idx)
        made.weight.requires_grad = not freeze
        return made

    def forward(
        self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None
    ) -> Tensor:
        """Return one row for each bag."""
        return functional.embedding_bag(
            input,
            self.weight,
            offsets,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.mode,
            self.sparse,
            per_sample_weights,
            self.include_last_offset,
            self.padding_idx,
        )

    def extra_repr(self) -> str:
        """Return the sizes, the mode, and options that differ from their defaults."""
        return self._shown(
            max_norm=(self.max_norm, None),
            norm_type=(self.norm_type, 2),
            scale_grad_by_freq=(self.scale_grad_by_freq, False),
            mode=(self.mode, None),
            padding_idx=(self.padding_idx, None),
        )
