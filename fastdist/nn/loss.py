"""Loss modules, which call the functions of nn.functional with stored arguments."""

from __future__ import annotations

import math
import warnings
from typing import Any

from ..ops.nn.cross_entropy import reduction_of
from ..tensor.tensor import Tensor
from . import functional
from .linear import Linear
from .module import Module


class _Loss(Module):
    """Base of losses with a `reduction`: "mean", "sum" or "none"."""

    def __init__(
        self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
    ) -> None:
        super().__init__()
        # As in PyTorch, `reduction` is checked only when the loss is called, because "batchmean" is
        # allowed in KLDivLoss alone.
        is_old = size_average is not None or reduce is not None
        self.reduction = reduction_of(size_average, reduce, "mean") if is_old else reduction


class _WeightedLoss(_Loss):
    """Base of losses with an optional weight for each class or element."""

    weight: Tensor | None

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)


class L1Loss(_Loss):
    """Computes the mean of |input - target|."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        return functional.l1_loss(input, target, reduction=self.reduction)


class MSELoss(_Loss):
    """Computes the mean of (input - target)^2."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        return functional.mse_loss(input, target, reduction=self.reduction)


class NLLLoss(_WeightedLoss):
    """Computes the mean of -input[target], where input holds log probabilities of classes."""

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        return functional.nll_loss(
            input,
            target,
            weight=self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
        )


class CrossEntropyLoss(_WeightedLoss):
    """Computes the mean of -log(softmax(input))[target].

    A call takes input, the unnormalized logits in a floating-point dtype, and target: indices of
    classes in int64 or uint8, or a probability for each class in a floating-point dtype. It returns
    a tensor of input's dtype.

    Shape   input (N, C, ...) for C classes, or (C,); target (N, ...) or () for indices, and input's
            shape for probabilities; the result (), or (N, ...) for reduction "none"
    Raises  IndexError in a call, if a target is not a valid class index; RuntimeError in a call, if
            the shapes or the dtypes do not fit, or label_smoothing is not in its range; ValueError
            in a call, if the batch sizes of input and target differ, or reduction is unknown

    Args:
        weight: A weight for each class, of shape (C,) and of input's dtype; 1 if None.
        size_average: Deprecated; None: see reduction.
        ignore_index: The class index that marks targets to leave out.
        reduce: Deprecated; None: see reduction.
        reduction: "mean", over the weights of the targets that are not left out, "sum", or "none"
            for one loss per element.
        label_smoothing: The fraction of the target that is spread evenly over all classes, 0 to 1.

    Example:
        >>> loss = nn.CrossEntropyLoss()
        >>> loss(torch.tensor([[2.0, 0.0]]), torch.tensor([0]))
        tensor(0.1269)
    """

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        return functional.cross_entropy(
            input,
            target,
            weight=self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )


class LinearCrossEntropyLoss(_WeightedLoss):
    """Applies its own Linear layer, and computes the cross entropy of the layer's outputs and the
    target.

    Shape   input (N, in_features) or (in_features,); target as in CrossEntropyLoss
    """

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        out_features: tuple[int, ...] = (),
        bias: bool = False,
        device: Any = None,
        dtype: Any = None,
        reduction: str = "mean",
        weight: Tensor | None = None,
        ignore_index: int | None = None,
        label_smoothing: float = 0.0,
        options: Any = None,
    ) -> None:
        if weight is not None and weight.shape != (num_classes,):
            raise RuntimeError(
                f"expected weight shape to be {(num_classes,)}, got {tuple(weight.shape)}"
            )
        if not 0 <= label_smoothing <= 1:
            raise RuntimeError(
                f"expected label_smoothing to be in range [0, 1], got {label_smoothing}"
            )
        super().__init__(weight, None, None, reduction)
        self.num_classes = num_classes
        self.out_features = out_features
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing
        size = math.prod(out_features, start=num_classes)
        self.linear = Linear(in_features, size, bias=bias, device=device, dtype=dtype)
        self.options = options

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        shape = (self.num_classes, *self.out_features)
        matrix, bias = self.linear.weight, self.linear.bias
        return functional.linear_cross_entropy(
            input,
            matrix.reshape(*shape, matrix.shape[-1]),
            target,
            linear_bias=None if bias is None else bias.reshape(shape),
            weight=self.weight,
            reduction=self.reduction,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
            options=self.options,
        )

    def extra_repr(self) -> str:
        """Return the sizes and the options."""
        return (
            f"in_features={self.linear.in_features}, num_classes={self.num_classes}, "
            f"out_features={self.out_features}, bias={self.linear.bias is not None}, "
            f"reduction={self.reduction}, ignore_index={self.ignore_index}, "
            f"label_smoothing={self.label_smoothing}, options={self.options}"
        )


class BCEWithLogitsLoss(_WeightedLoss):
    """Computes the mean binary cross-entropy of sigmoid(input) and target, without overflow."""

    pos_weight: Tensor | None

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        pos_weight: Tensor | None = None,
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.register_buffer("pos_weight", pos_weight)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        return functional.binary_cross_entropy_with_logits(
            input,
            target,
            weight=self.weight,
            reduction=self.reduction,
            pos_weight=self.pos_weight,
        )


class NLLLoss2d(NLLLoss):
    """The deprecated name of NLLLoss for images."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        warnings.warn(
            "NLLLoss2d has been deprecated. Please use NLLLoss instead as a drop-in replacement",
            FutureWarning,
            stacklevel=2,
        )
        super().__init__(*args, **kwargs)


class BCELoss(_WeightedLoss):
    """Computes the mean binary cross-entropy of input and target, which both hold probabilities."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        return functional.binary_cross_entropy(
            input, target, weight=self.weight, reduction=self.reduction
        )


class SmoothL1Loss(_Loss):
    """Computes L1Loss, but with a parabola where |input - target| is below beta."""

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        beta: float = 1.0,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.beta = beta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        return functional.smooth_l1_loss(input, target, reduction=self.reduction, beta=self.beta)


class HuberLoss(_Loss):
    """Computes (input - target)^2 / 2 where |input - target| is below delta, and continues this
    parabola by its tangent lines elsewhere.
    """

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction=reduction)
        self.delta = delta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        return functional.huber_loss(input, target, reduction=self.reduction, delta=self.delta)


class KLDivLoss(_Loss):
    """Computes target * (log(target) - input), where input holds log probabilities."""

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        log_target: bool = False,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_target = log_target

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        return functional.kl_div(
            input, target, reduction=self.reduction, log_target=self.log_target
        )


class PoissonNLLLoss(_Loss):
    """Computes the negative log likelihood of counts (the target), given the Poisson rates or their
    logarithms (the input).
    """

    def __init__(
        self,
        log_input: bool = True,
        full: bool = False,
        size_average: bool | None = None,
        eps: float = 1e-8,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_input = log_input
        self.full = full
        self.eps = eps

    def forward(self, log_input: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        return functional.poisson_nll_loss(
            log_input,
            target,
            log_input=self.log_input,
            full=self.full,
            eps=self.eps,
            reduction=self.reduction,
        )


class GaussianNLLLoss(_Loss):
    """Computes the negative log likelihood of the target under normal distributions, whose means
    are the input, with given variances.
    """

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__(reduction=reduction)
        self.full = full
        self.eps = eps

    def forward(self, input: Tensor, target: Tensor, var: Tensor | float) -> Tensor:
        """Return the loss."""
        return functional.gaussian_nll_loss(
            input, target, var, full=self.full, eps=self.eps, reduction=self.reduction
        )


class CTCLoss(_Loss):
    """Computes -log of the probability of the target under Connectionist Temporal Classification.

    The probability is summed over all alignments that become the target after repeated symbols are
    merged and blanks are removed.
    """

    def __init__(
        self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False
    ) -> None:
        super().__init__(reduction=reduction)
        self.blank = blank
        self.zero_infinity = zero_infinity

    def forward(
        self, log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any
    ) -> Tensor:
        """Return the loss."""
        return functional.ctc_loss(
            log_probs,
            targets,
            input_lengths,
            target_lengths,
            self.blank,
            self.reduction,
            self.zero_infinity,
        )
