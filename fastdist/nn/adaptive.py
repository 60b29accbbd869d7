"""Adaptive softmax, for many classes of which only a few are frequent."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from ..core.dtypes import DType
from ..ops.shape.joining import cat
from ..tensor.tensor import Tensor
from . import functional
from .container import ModuleList, Sequential
from .linear import Linear
from .module import Module


class _ASMoutput(NamedTuple):
    output: Tensor
    loss: Tensor


class AdaptiveLogSoftmaxWithLoss(Module):
    """Computes the log probability of each target, and the loss, which is the negative mean of
    these log probabilities.

    The head computes one score for each frequent class (its index is below the first cutoff), and
    one score for each cluster of other classes. Each cluster has smaller layers, which compute the
    scores of the classes in the cluster.

    Shape   (N, in_features) and (N,) -> (N,) and (); without a batch, (in_features,) and () ->
            () and ()
    Source  Grave et al. 2017, "Efficient softmax approximation for GPUs"
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        cutoffs = list(cutoffs)
        if not cutoffs:
            raise ValueError("cutoffs should be a sequence of length larger than 0")
        is_whole = all(int(one) == one for one in cutoffs)
        if (
            cutoffs != sorted({*cutoffs})
            or not is_whole
            or cutoffs[0] <= 0
            or cutoffs[-1] >= n_classes
        ):
            raise ValueError(
                "cutoffs should be a sequence of unique, positive integers sorted in an increasing "
                f"order, where each value is between 1 and n_classes-1: got {cutoffs} for "
                f"{n_classes} classes"
            )
        self.in_features = in_features
        self.n_classes = n_classes
        self.cutoffs = [*cutoffs, n_classes]
        self.div_value = div_value
        self.head_bias = head_bias
        self.shortlist_size = self.cutoffs[0]
        self.n_clusters = len(self.cutoffs) - 1
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, head_bias, device, dtype)
        self.tail = ModuleList()
        for i, (first, last) in enumerate(pairwise(self.cutoffs)):
            width = int(in_features // (div_value ** (i + 1)))
            self.tail.append(
                Sequential(
                    Linear(in_features, width, False, device, dtype),
                    Linear(width, last - first, False, device, dtype),
                )
            )

    def reset_parameters(self) -> None:
        """Draw new values for the parameters of all layers."""
        self.head.reset_parameters()
        for projection in self.tail:
            for layer in projection.children():
                layer.reset_parameters()

    def forward(self, input_: Tensor, target_: Tensor) -> _ASMoutput:
        """Return the log probabilities of the targets, and the loss."""
        _require_fitting(input_, target_)
        is_batched = target_.dim() > 0
        input = input_ if is_batched else input_.unsqueeze(0)
        target = target_ if is_batched else target_.unsqueeze(0)
        self._require_classes(target)
        head: Any = functional.log_softmax(self.head(input), 1)
        places, output = target, head.new_zeros(target.shape)
        for i, (first, last) in enumerate(pairwise(self.cutoffs)):
            inside: Any = (target >= first).logical_and(target < last)
            rows = inside.nonzero().squeeze(1)
            if not rows.numel():
                continue
            places = places.masked_fill(inside, self.shortlist_size + i)
            likely = functional.log_softmax(self.tail[i](input.index_select(0, rows)), 1)
            chosen = (target.index_select(0, rows) - first).unsqueeze(1)
            output = output.index_copy(0, rows, likely.gather(1, chosen).squeeze(1))
        output = output + head.gather(1, places.unsqueeze(1)).squeeze(1)
        loss = (-output).mean()
        return _ASMoutput(output if is_batched else output.squeeze(0), loss)

    def _require_classes(self, target: Any) -> None:
        if target.numel():
            low, high = int(target.min()), int(target.max())
            if low < 0 or high >= self.n_classes:
                raise RuntimeError(
                    f"Target values should be in [0, {self.n_classes - 1}], but values in range "
                    f"[{low}, {high}] were found. "
                )

    def log_prob(self, input: Tensor) -> Tensor:
        """Return the log probabilities of all classes, (N, n_classes)."""
        head: Any = functional.log_softmax(self.head(input), 1)
        parts = [head[:, : self.shortlist_size]]
        for i in range(self.n_clusters):
            likely = functional.log_softmax(self.tail[i](input), 1)
            parts.append(likely + head[:, self.shortlist_size + i].unsqueeze(1))
        return cat(parts, 1)

    def predict(self, input: Tensor) -> Tensor:
        """Return the most probable class of each row."""
        found: Any = self.head(input).argmax(1)
        rows = (found >= self.shortlist_size).nonzero().squeeze(1)
        if rows.numel():
            # Only the rows where a cluster has the highest score need the clusters' own layers.
            likely = self.log_prob(input.index_select(0, rows)).argmax(1)
            found = found.index_copy(0, rows, likely)
        return found  # type: ignore[no-any-return]


def _require_fitting(input: Tensor, target: Tensor) -> None:
    axes = target.dim()
    if axes > 1:
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    if axes == 1 and input.shape[0] != target.shape[0]:
        raise RuntimeError("Input and target should have the same size in the batch dimension.")
    if input.dim() != axes + 1:
        raise RuntimeError(
            f"{axes}D target tensor expects {axes + 1}D input tensors, but found inputs with size "
            f"{input.shape}"
        )
