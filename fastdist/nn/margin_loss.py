"""Loss modules with a margin between scores or between distances."""

from __future__ import annotations

from collections.abc import Callable

from ..tensor.tensor import Tensor
from . import functional
from .loss import _Loss, _WeightedLoss
from .module import Module


class HingeEmbeddingLoss(_Loss):
    """Computes input (a distance) for target 1, and max(0, margin - input) for target -1."""

    def __init__(
        self,
        margin: float = 1.0,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        return functional.hinge_embedding_loss(
            input, target, margin=self.margin, reduction=self.reduction
        )


class _MarginLoss(_Loss):
    def __init__(
        self,
        margin: float = 0.0,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin


class MarginRankingLoss(_MarginLoss):
    """Computes max(0, -target * (input1 - input2) + margin) for targets 1 and -1."""

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        return functional.margin_ranking_loss(
            input1, input2, target, margin=self.margin, reduction=self.reduction
        )


class CosineEmbeddingLoss(_MarginLoss):
    """Computes 1 - c for target 1, and max(0, c - margin) for target -1, with c = cos(input1,
    input2).
    """

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        return functional.cosine_embedding_loss(
            input1, input2, target, margin=self.margin, reduction=self.reduction
        )


class SoftMarginLoss(_Loss):
    """Computes the mean of log(1 + exp(-target * input))."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        return functional.soft_margin_loss(input, target, reduction=self.reduction)


class MultiLabelMarginLoss(_Loss):
    """Sums max(0, 1 - a + b) over all pairs of the score a of a target class and the score b of
    another class, and divides by the number of classes.
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        return functional.multilabel_margin_loss(input, target, reduction=self.reduction)


class MultiLabelSoftMarginLoss(_WeightedLoss):
    """Computes the mean over the classes of the binary cross-entropy, where input holds logits."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        return functional.multilabel_soft_margin_loss(
            input, target, weight=self.weight, reduction=self.reduction
        )


class MultiMarginLoss(_WeightedLoss):
    """Sums max(0, margin - a + b) ** p, where a is the score of the target class, over the scores b
    of all other classes, and divides by the number of classes.

    Raises  ValueError for a p other than 1 and 2, or a weight that is not a vector
    """

    def __init__(
        self,
        p: int = 1,
        margin: float = 1.0,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        if p not in (1, 2):
            raise ValueError("only p == 1 and p == 2 supported")
        if weight is not None and weight.dim() != 1:
            raise ValueError(
                f"MultiMarginLoss: expected weight to be None or 1D tensor, got {weight.dim()}D "
                "instead"
            )
        self.p = p
        self.margin = margin

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        return functional.multi_margin_loss(
            input,
            target,
            p=self.p,
            margin=self.margin,
            weight=self.weight,
            reduction=self.reduction,
        )


def _require_positive(name: str, margin: float) -> None:
    if margin <= 0:
        raise ValueError(f"{name}: expected margin to be greater than 0, got {margin} instead")


class TripletMarginLoss(_Loss):
    """Computes max(0, d(anchor, positive) - d(anchor, negative) + margin), where d is the p-norm of
    the difference.

    Raises  ValueError for a margin that is not positive
    """

    def __init__(
        self,
        margin: float = 1.0,
        p: float = 2.0,
        eps: float = 1e-6,
        swap: bool = False,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        _require_positive("TripletMarginLoss", margin)
        self.margin = margin
        self.p = p
        self.eps = eps
        self.swap = swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        """Return the loss."""
        return functional.triplet_margin_loss(
            anchor,
            positive,
            negative,
            margin=self.margin,
            p=self.p,
            eps=self.eps,
            swap=self.swap,
            reduction=self.reduction,
        )


class TripletMarginWithDistanceLoss(_Loss):
    """Computes TripletMarginLoss with a given distance function.

    Raises  ValueError for a margin that is not positive
    """

    def __init__(
        self,
        *,
        distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
        margin: float = 1.0,
        swap: bool = False,
        reduction: str = "mean",
    ) -> None:
        super().__init__(reduction=reduction)
        _require_positive("TripletMarginWithDistanceLoss", margin)
        self.distance_function = distance_function or PairwiseDistance()
        self.margin = margin
        self.swap = swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        """Return the loss."""
        return functional.triplet_margin_with_distance_loss(
            anchor,
            positive,
            negative,
            distance_function=self.distance_function,
            margin=self.margin,
            swap=self.swap,
            reduction=self.reduction,
        )


class PairwiseDistance(Module):
    """Computes the norm of x1 - x2 along the last axis."""

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm = p
        self.eps = eps
        self.keepdim = keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """Return the distances."""
        return functional.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)


class CosineSimilarity(Module):
    """Computes the cosine of the angle between x1 and x2 along dim."""

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim = dim
        self.eps = eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """Return the cosines."""
        return functional.cosine_similarity(x1, x2, self.dim, self.eps)
