# The functions of fastdist.nn.functional. Written by fastdist/namespace/stubs.py.
import builtins
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, overload

from ..core.device import Device
from ..core.dtypes import DType
from ..random_numbers.generator import Generator
from ..core.memory_format import MemoryFormat, MemoryLayout
from ..ops import return_types
from ..tensor.methods import DeviceLike, DTypeLike, Indices, NDArray, Number
from ..tensor.methods import Operand, Scalar, Sizes
from ..tensor.layout import Size
from ..tensor.tensor import Tensor

def adaptive_avg_pool1d(input: Tensor, output_size: builtins.int | Sequence[builtins.int | None]) -> Tensor:
    """Divide the last axis into output_size parts of nearly equal size, and average each part."""
def adaptive_avg_pool2d(input: Tensor, output_size: builtins.int | Sequence[builtins.int | None]) -> Tensor:
    """Divide each of the last two axes into output_size parts of nearly equal size, and return the
    averages of the resulting blocks.
    """
def adaptive_avg_pool3d(input: Tensor, output_size: Sizes) -> Tensor:
    """Divide each of the last three axes into output_size parts of nearly equal size, and return
    the averages of the resulting blocks.
    """
@overload
def adaptive_max_pool1d(input: Tensor, output_size: Sizes, return_indices: Literal[False] = False) -> Tensor:
    """Return the largest element of each of output_size even parts of the last axis; with return_indices also its index."""
@overload
def adaptive_max_pool1d(input: Tensor, output_size: Sizes, *, return_indices: Literal[True]) -> tuple[Tensor, Tensor]:
    """Return the largest element of each of output_size even parts of the last axis; with return_indices also its index."""
@overload
def adaptive_max_pool1d(input: Tensor, output_size: Sizes, return_indices: builtins.bool = False) -> Any:
    """Return the largest element of each of output_size even parts of the last axis; with return_indices also its index."""
def adaptive_max_pool1d_with_indices(input: Tensor, output_size: Sizes, return_indices: builtins.bool = False) -> tuple[Tensor, Tensor]:
    """Return the largest element of each of output_size even parts of the last axis, and its index in the plane."""
@overload
def adaptive_max_pool2d(input: Tensor, output_size: Sizes, return_indices: Literal[False] = False) -> Tensor:
    """Return the largest element of each of output_size even parts of the last two axes; with return_indices also its index."""
@overload
def adaptive_max_pool2d(input: Tensor, output_size: Sizes, *, return_indices: Literal[True]) -> tuple[Tensor, Tensor]:
    """Return the largest element of each of output_size even parts of the last two axes; with return_indices also its index."""
@overload
def adaptive_max_pool2d(input: Tensor, output_size: Sizes, return_indices: builtins.bool = False) -> Any:
    """Return the largest element of each of output_size even parts of the last two axes; with return_indices also its index."""
def adaptive_max_pool2d_with_indices(input: Tensor, output_size: Sizes, return_indices: builtins.bool = False) -> tuple[Tensor, Tensor]:
    """Return the largest element of each of output_size even parts of the last two axes, and its index in the plane."""
@overload
def adaptive_max_pool3d(input: Tensor, output_size: Sizes, return_indices: Literal[False] = False) -> Tensor:
    """Return the largest element of each of output_size even parts of the last three axes; with return_indices also its index."""
@overload
def adaptive_max_pool3d(input: Tensor, output_size: Sizes, *, return_indices: Literal[True]) -> tuple[Tensor, Tensor]:
    """Return the largest element of each of output_size even parts of the last three axes; with return_indices also its index."""
@overload
def adaptive_max_pool3d(input: Tensor, output_size: Sizes, return_indices: builtins.bool = False) -> Any:
    """Return the largest element of each of output_size even parts of the last three axes; with return_indices also its index."""
def adaptive_max_pool3d_with_indices(input: Tensor, output_size: Sizes, return_indices: builtins.bool = False) -> tuple[Tensor, Tensor]:
    """Return the largest element of each of output_size even parts of the last three axes, and its index in the plane."""
def affine_grid(theta: Tensor, size: Sizes, align_corners: builtins.bool | None = None) -> Tensor:
    """Return a grid for grid_sample: the points of an image, transformed by affine matrices.

    Shape   (batch, 2, 3) and size (batch, channels, h, w) -> (batch, h, w, 2); (batch, 3, 4) and
            size (batch, channels, d, h, w) -> (batch, d, h, w, 3)
    """
def alpha_dropout(input: Tensor, p: builtins.float = 0.5, training: builtins.bool = False, inplace: builtins.bool = False) -> Tensor:
    """Return input with elements set to selu's lowest value with probability p, then scaled and
    shifted so that mean and variance are preserved.

    Source  Klambauer et al. 2017, "Self-Normalizing Neural Networks"
    """
def avg_pool1d(input: Tensor, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, ceil_mode: builtins.bool = False, count_include_pad: builtins.bool = True) -> Tensor:
    """Return the averages of windows along the last axis.

    Shape   (..., channels, n) -> (..., channels, windows)
    """
def avg_pool2d(input: Tensor, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, ceil_mode: builtins.bool = False, count_include_pad: builtins.bool = True, divisor_override: builtins.int | None = None, *, out: Tensor | None = None) -> Tensor:
    """Return the averages of windows over the last two axes. If divisor_override is given, the
    sums of windows are divided by divisor_override, and not by the number of elements.

    Raises  RuntimeError if the padding is more than half the kernel, or input has neither 3 nor 4
            axes

    Args:
        input: Images of shape (n, c, height, width) or (c, height, width).
        kernel_size: The height and width of a window, or one number for both.
        stride: The distance between neighbouring windows; kernel_size if None.
        padding: The number of zeros added at each end of an axis.
        ceil_mode: Whether to include windows that begin inside of the image but end outside.
        count_include_pad: Whether added zeros count as elements of a window.
        divisor_override: The divisor of sums; the number of elements if None.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> F.avg_pool2d(torch.ones(1, 1, 4, 4), 2).shape
        fastdist.Size([1, 1, 2, 2])
    """
def avg_pool3d(input: Tensor, kernel_size: Sizes, stride: Any = None, padding: Sizes = 0, ceil_mode: builtins.bool = False, count_include_pad: builtins.bool = True, divisor_override: builtins.int | None = None, *, out: Tensor | None = None) -> Tensor:
    """Return the averages of windows over the last three axes. If divisor_override is given, the
    sums of windows are divided by divisor_override, and not by the number of elements.
    """
def batch_norm(input: Tensor, running_mean: Tensor | None, running_var: Tensor | None, weight: Tensor | None = None, bias: Tensor | None = None, training: builtins.bool = False, momentum: builtins.float = 0.1, eps: builtins.float = 1e-05) -> Tensor:
    """Return input with each channel normalized to mean 0 and variance 1, times weight, plus bias.

    Shape   (N, C, ...) -> the same
    Note    training uses the mean and variance of the batch, and moves running_mean and running_var
            by momentum towards these two; otherwise running_mean and running_var are used
    """
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return input1 @ weight[k] @ input2 + bias[k] for each k.

    Shape   (..., n), (..., m), (k, n, m), (k) -> (..., k)
    """
def binary_cross_entropy(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: builtins.bool | None = None, reduce: builtins.bool | None = None, reduction: str = 'mean') -> Tensor:
    """Return the cross entropy of the probabilities `input` and `target`, both in 0 ... 1."""
def binary_cross_entropy_with_logits(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: builtins.bool | None = None, reduce: builtins.bool | None = None, reduction: str = 'mean', pos_weight: Tensor | None = None) -> Tensor:
    """Return binary_cross_entropy of sigmoid(input), without underflow.

    Args:
        input: The logits of 1, a floating-point tensor of any shape.
        target: The probability of 1, of the shape of input.
        weight: A weight for each element; all 1 if None.
        size_average: Deprecated; None: see reduction.
        reduce: Deprecated; None: see reduction.
        reduction: "mean", "sum", or "none" for one loss per element.
        pos_weight: The weight of targets that are 1, for each class.

    Example:
        >>> F.binary_cross_entropy_with_logits(torch.tensor([0.0]), torch.tensor([1.0]))
        tensor(0.6931)
    """
def celu(input: Tensor, alpha: builtins.float = 1.0, inplace: builtins.bool = False) -> Tensor:
    """Return input where it is positive, and alpha * (exp(input / alpha) - 1) elsewhere.

    Raises  RuntimeError if alpha is 0
    """
def celu_(input: Tensor, alpha: builtins.float = 1.0) -> Tensor:
    """Return input where it is positive, and alpha * (exp(input / alpha) - 1) elsewhere.

    Raises  RuntimeError if alpha is 0
    """
def channel_shuffle(input: Tensor, groups: builtins.int) -> Tensor:
    """Return input with its channels (axis 1) reordered: the first channel of each group, then the
    second channel of each group, and so on.
    """
def conv1d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Sizes = 1, padding: Sizes | str = 0, dilation: Sizes = 1, groups: builtins.int = 1) -> Tensor:
    """Return the cross-correlation of signals with weight, plus bias. `padding` is the number of
    zeros added at each end, "valid" (no zeros) or "same" (so many zeros that the length does not
    change).

    Shape   (n, c, length) or (c, length), (o, c / groups, kernel), (o) -> (n, o, positions)
    """
def conv2d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Sizes = 1, padding: Sizes | str = 0, dilation: Sizes = 1, groups: builtins.int = 1) -> Tensor:
    """Return the cross-correlation of images with weight, plus bias, as conv1d does for signals.

    Shape   (n, c, *image) or (c, *image), (o, c / groups, *kernel), (o) -> (n, o, *positions)
    Raises  RuntimeError if the channels or the dtypes do not fit the weight, the kernel is larger
            than the padded image, or input has neither 3 nor 4 axes

    Args:
        input: Images of shape (n, channels, height, width) or (channels, height, width), in the
            dtype of weight.
        weight: The kernels, of shape (out_channels, channels / groups, height, width).
        bias: One number for each channel of the result, or None.
        stride: The distance between positions of the kernel, one number or one for each axis.
        padding: The number of zeros added at each end, one number or one for each axis; "same" or
            "valid".
        dilation: The distance between neighbouring elements of the kernel.
        groups: The number of groups into which the channels are divided.

    Example:
        >>> F.conv2d(torch.zeros(1, 3, 6, 6), torch.zeros(8, 3, 3, 3), padding=1).shape
        fastdist.Size([1, 8, 6, 6])
    """
def conv3d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Sizes = 1, padding: Sizes | str = 0, dilation: Sizes = 1, groups: builtins.int = 1) -> Tensor:
    """Return the cross-correlation of volumes with weight, plus bias, as conv1d does for signals.

    Shape   (n, c, *volume) or (c, *volume), (o, c / groups, *kernel), (o) -> (n, o, *positions)
    """
def conv_transpose1d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Sizes = 1, padding: Sizes = 0, output_padding: Sizes = 0, groups: builtins.int = 1, dilation: Sizes = 1) -> Tensor:
    """Return the transposed convolution of signals, which is the adjoint of conv1d, plus bias.

    Shape   (n, c, length) or (c, length), (c, o / groups, kernel), (o) -> (n, o, positions)
    """
def conv_transpose2d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Sizes = 1, padding: Sizes = 0, output_padding: Sizes = 0, groups: builtins.int = 1, dilation: Sizes = 1) -> Tensor:
    """Return the transposed convolution of images, which is the adjoint of conv2d, plus bias.

    Shape   (n, c, *image) or (c, *image), (c, o / groups, *kernel), (o) -> (n, o, *positions)
    """
def conv_transpose3d(input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Sizes = 1, padding: Sizes = 0, output_padding: Sizes = 0, groups: builtins.int = 1, dilation: Sizes = 1) -> Tensor:
    """Return the transposed convolution of volumes, which is the adjoint of conv3d, plus bias.

    Shape   (n, c, *volume) or (c, *volume), (c, o / groups, *kernel), (o) -> (n, o, *positions)
    """
def cosine_embedding_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: builtins.float = 0, size_average: builtins.bool | None = None, reduce: builtins.bool | None = None, reduction: str = 'mean') -> Tensor:
    """Return 1 - c where target is 1, and max(0, c - margin) where target is -1. c is the cosine of
    the angle between the inputs.

    Shape   (N, D), (N, D), (N,) or (D,), (D,), () -> (), or the shape of target for reduction
            "none"
    """
def cosine_similarity(x1: Tensor, x2: Tensor, dim: builtins.int = 1, eps: builtins.float = 1e-08) -> Tensor:
    """Return the cosine of the angle between x1 and x2 along dim. Norms smaller than eps are
    replaced by eps.
    """
def cross_entropy(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: builtins.bool | None = None, ignore_index: builtins.int = -100, reduce: builtins.bool | None = None, reduction: str = 'mean', label_smoothing: builtins.float = 0.0) -> Tensor:
    """Return the cross entropy between logits and targets, which are classes or probabilities.

    Shape   (N, C, ...), with targets (N, ...) or (N, C, ...), -> (), or (N, ...) for reduction
            "none"
    Raises  IndexError if a target is not a class; RuntimeError if the shapes do not fit, or input
            is not floating-point

    Args:
        input: The unnormalized logits, one for each class.
        target: The index of the class, in int64, or the probability of each class.
        weight: A weight for each class, of shape (C,); all 1 if None.
        size_average: Deprecated; None: see reduction.
        ignore_index: A class; targets of this class do not contribute to the loss.
        reduce: Deprecated; None: see reduction.
        reduction: "mean", "sum", or "none" for one loss per element.
        label_smoothing: The share of the target that is distributed over all classes, 0 to 1.

    Example:
        >>> logits = torch.tensor([[2.0, 0.0], [0.0, 1.0]])
        >>> F.cross_entropy(logits, torch.tensor([0, 1]))
        tensor(0.2201)
    """
def ctc_loss(log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any, blank: builtins.int = 0, reduction: str = 'mean', zero_infinity: builtins.bool = False) -> Tensor:
    """Return -log of the probability that a sequence of classes, drawn step by step, equals the
    target after repetitions are merged and blanks are dropped. Reduction "mean" first divides each
    loss by the length of its target.

    Shape   log_probs (T, N, C) or (T, C); targets (N, S), or one vector of all targets; lengths
            (N,) -> (), or (N,) for reduction "none"
    Note    the gradient is with respect to logits before a log_softmax, as in PyTorch
    Source  Graves et al. 2006, "Connectionist Temporal Classification"
    """
def dropout(input: Tensor, p: builtins.float = 0.5, training: builtins.bool = True, inplace: builtins.bool = False) -> Tensor:
    """Return input with each element set to 0 with probability p. The other elements are scaled by
    1 / (1 - p).

    Args:
        input: A floating-point or complex tensor of any shape. With p=1 the result is 0 everywhere.
        p: The probability of dropping an element.
        training: Whether to drop elements; otherwise input is returned.
        inplace: Whether to overwrite the input.

    Example:
        >>> F.dropout(torch.ones(2), p=0.5, training=False)
        tensor([1., 1.])
    """
def dropout1d(input: Tensor, p: builtins.float = 0.5, training: builtins.bool = True, inplace: builtins.bool = False) -> Tensor:
    """Return input with each channel set to 0 with probability p. The other channels are scaled by
    1 / (1 - p).

    Shape   (N, C, L) or (C, L) -> the same
    """
def dropout2d(input: Tensor, p: builtins.float = 0.5, training: builtins.bool = True, inplace: builtins.bool = False) -> Tensor:
    """Return input with each channel set to 0 with probability p. The other channels are scaled by
    1 / (1 - p).

    Shape   (N, C, H, W) -> the same
    """
def dropout3d(input: Tensor, p: builtins.float = 0.5, training: builtins.bool = True, inplace: builtins.bool = False) -> Tensor:
    """Return input with each channel set to 0 with probability p. The other channels are scaled by
    1 / (1 - p).

    Shape   (N, C, D, H, W) or (C, D, H, W) -> the same
    """
def elu(input: Tensor, alpha: builtins.float = 1.0, inplace: builtins.bool = False) -> Tensor:
    """Return input where it is positive, and alpha * (exp(input) - 1) elsewhere."""
def elu_(input: Tensor, alpha: builtins.float = 1.0) -> Tensor:
    """Return input where it is positive, and alpha * (exp(input) - 1) elsewhere."""
def embedding(input: Tensor, weight: Tensor, padding_idx: builtins.int | None = None, max_norm: builtins.float | None = None, norm_type: builtins.float = 2.0, scale_grad_by_freq: builtins.bool = False, sparse: builtins.bool = False) -> Tensor:
    """Return the rows of weight with the indices `input`. The row `padding_idx` gets no gradient.

    Shape   (...), (n, d) -> (..., d)
    Note    with max_norm, rows that are looked up and have a larger norm are scaled down, in weight
            itself. With scale_grad_by_freq, the gradient of a row is divided by the number of times
            that the row's index occurs in `input`
    """
def embedding_bag(input: Tensor, weight: Tensor, offsets: Tensor | None = None, max_norm: builtins.float | None = None, norm_type: builtins.float = 2, scale_grad_by_freq: builtins.bool = False, mode: str = 'mean', sparse: builtins.bool = False, per_sample_weights: Tensor | None = None, include_last_offset: builtins.bool = False, padding_idx: builtins.int | None = None) -> Tensor:
    """Return the sum, mean or max of the rows of weight that each bag of indices selects.

    Shape   (bags, n), (m, d) -> (bags, d); or (n), (m, d), with offsets (bags) that hold the index
            at which each bag begins. With include_last_offset, the last offset is the end of the
            last bag
    Note    entries equal to padding_idx are skipped, and an empty bag gives zeros;
            per_sample_weights are factors of the rows, for mode "sum"; max_norm and
            scale_grad_by_freq have the same meaning as in embedding
    """
def feature_alpha_dropout(input: Tensor, p: builtins.float = 0.5, training: builtins.bool = False, inplace: builtins.bool = False) -> Tensor:
    """Do the same as alpha_dropout, but with whole channels instead of elements.

    Shape   (N, C, ...) -> the same
    """
def fold(input: Tensor, output_size: Sizes, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0, stride: Sizes = 1) -> Tensor:
    """Add patches at the positions from which unfold reads patches, in images of output_size.

    Shape   (n, c * kernel, patches) or (c * kernel, patches) -> (n, c, h, w)
    """
@overload
def fractional_max_pool2d(input: Tensor, kernel_size: Sizes, output_size: Any = None, output_ratio: Any = None, return_indices: Literal[False] = False, _random_samples: Tensor | None = None) -> Tensor:
    """Return the largest element of each of output_size windows that begin at random places; with return_indices also its index."""
@overload
def fractional_max_pool2d(input: Tensor, kernel_size: Sizes, output_size: Any = None, output_ratio: Any = None, *, return_indices: Literal[True], _random_samples: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Return the largest element of each of output_size windows that begin at random places; with return_indices also its index."""
@overload
def fractional_max_pool2d(input: Tensor, kernel_size: Sizes, output_size: Any = None, output_ratio: Any = None, return_indices: builtins.bool = False, _random_samples: Tensor | None = None) -> Any:
    """Return the largest element of each of output_size windows that begin at random places; with return_indices also its index."""
def fractional_max_pool2d_with_indices(input: Tensor, kernel_size: Sizes, output_size: Sizes | None = None, output_ratio: builtins.float | tuple[builtins.float, ...] | None = None, return_indices: builtins.bool = False, _random_samples: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Return the largest element of each of output_size windows that begin at random places, and its index in the plane."""
@overload
def fractional_max_pool3d(input: Tensor, kernel_size: Sizes, output_size: Any = None, output_ratio: Any = None, return_indices: Literal[False] = False, _random_samples: Tensor | None = None) -> Tensor:
    """Return the largest element of each of output_size windows that begin at random places; with return_indices also its index."""
@overload
def fractional_max_pool3d(input: Tensor, kernel_size: Sizes, output_size: Any = None, output_ratio: Any = None, *, return_indices: Literal[True], _random_samples: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Return the largest element of each of output_size windows that begin at random places; with return_indices also its index."""
@overload
def fractional_max_pool3d(input: Tensor, kernel_size: Sizes, output_size: Any = None, output_ratio: Any = None, return_indices: builtins.bool = False, _random_samples: Tensor | None = None) -> Any:
    """Return the largest element of each of output_size windows that begin at random places; with return_indices also its index."""
def fractional_max_pool3d_with_indices(input: Tensor, kernel_size: Sizes, output_size: Sizes | None = None, output_ratio: builtins.float | tuple[builtins.float, ...] | None = None, return_indices: builtins.bool = False, _random_samples: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Return the largest element of each of output_size windows that begin at random places, and its index in the plane."""
def gaussian_nll_loss(input: Tensor, target: Tensor | builtins.float, var: Any, full: builtins.bool | builtins.int = False, eps: builtins.float = 1e-06, reduction: str = 'mean') -> Tensor:
    """Return the negative log likelihood of `target` under normal distributions with mean `input`
    and variance `var`, clamped to at least `eps`. `full` adds log(2 * pi) / 2.

    Note    `var` may lack the last axis of `input`, or have length 1 along one axis
    """
def gelu(input: Tensor, approximate: str = 'none', *, out: Tensor | None = None) -> Tensor:
    """Return input times the probability that a standard normal number is smaller than input.

    With approximate="tanh", that probability is approximated by a formula with tanh.

    Args:
        input: A floating-point tensor of any shape.
        approximate: "none", or "tanh" for a cheaper formula.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> F.gelu(torch.tensor([-1.0, 1.0]))
        tensor([-0.1587,  0.8413])
    """
def grid_sample(input: Tensor, grid: Tensor, mode: str = 'bilinear', padding_mode: str = 'zeros', align_corners: builtins.bool | None = None) -> Tensor:
    """Return input sampled at the points of grid. The last axis of grid holds (x, y) or (x, y, z),
    each from -1 to 1.

    Shape   (batch, channels, space...), (batch, points..., axes) -> (batch, channels, points...)
    Note    with align_corners, -1 and 1 are the centers of the outermost elements; without
            align_corners, -1 and 1 are the outer edges of these elements
    """
def group_norm(input: Tensor, num_groups: builtins.int, weight: Tensor | None = None, bias: Tensor | None = None, eps: builtins.float = 1e-05) -> Tensor:
    """Return normalized input times weight, plus bias. The channels of each sample are divided into
    num_groups groups, and each group is normalized to mean 0 and variance 1.

    Shape   (N, C, ...) -> the same
    """
def grouped_mm(mat_a: Tensor, mat_b: Tensor, *, offs: Tensor | None = None, bias: Tensor | None = None, out_dtype: DTypeLike | None = None) -> Tensor:
    """Return the products of groups of matrices, as used in a mixture of experts. `offs`, of dtype
    int32, has the end of each group along the axis that is divided into groups.

    Shape   (M, K) and (G, K, N) give (M, N), whose rows are grouped; (G, M, K) and (K, N) give
            (M, N), whose columns are grouped; (M, K) and (K, N) give (G, M, N), with K grouped.
            Without `offs`, two batches of G matrices give G products
    Note    rows and columns of the result after the last group are 0, and elements of K after the
            last group are ignored. `offs` is read on the host
    Raises  RuntimeError if `offs` decreases or exceeds the length of the axis, and for a bias,
            which PyTorch does not support either
    """
def gumbel_softmax(logits: Tensor, tau: Tensor | builtins.float = 1, hard: builtins.bool = False, eps: builtins.float = 1e-10, dim: builtins.int = -1) -> Tensor:
    """Return the softmax of logits with Gumbel noise, at temperature tau. If `hard` is true, return
    one-hot vectors with the 1 at the softmax's maximum, and with the gradient of the softmax.

    Source  Jang et al. 2017, "Categorical reparameterization with Gumbel-softmax"
    """
def hardshrink(input: Tensor, lambd: builtins.float = 0.5, *, out: Tensor | None = None) -> Tensor:
    """Return input, with elements in [-lambd, lambd] set to 0."""
def hardsigmoid(input: Tensor, inplace: builtins.bool = False) -> Tensor:
    """Return relu6(input + 3) / 6."""
def hardswish(input: Tensor, inplace: builtins.bool = False) -> Tensor:
    """Return input * relu6(input + 3) / 6."""
def hardtanh(input: Tensor, min_val: builtins.float = -1.0, max_val: builtins.float = 1.0, inplace: builtins.bool = False) -> Tensor:
    """Return input clamped to the range from min_val to max_val. If input has an integer dtype,
    both bounds are truncated first.

    Dtype   any but bool -> the same
    Raises  ValueError if min_val is larger than max_val, RuntimeError for bounds outside of the
            range of an integer dtype
    """
def hardtanh_(input: Tensor, min_val: builtins.float = -1.0, max_val: builtins.float = 1.0) -> Tensor:
    """Return input clamped to the range from min_val to max_val. If input has an integer dtype,
    both bounds are truncated first.

    Dtype   any but bool -> the same
    Raises  ValueError if min_val is larger than max_val, RuntimeError for bounds outside of the
            range of an integer dtype
    """
def hinge_embedding_loss(input: Tensor, target: Tensor, margin: builtins.float = 1.0, size_average: builtins.bool | None = None, reduce: builtins.bool | None = None, reduction: str = 'mean') -> Tensor:
    """Return input where target is 1, and max(0, margin - input) where target is -1."""
def huber_loss(input: Tensor, target: Tensor, reduction: str = 'mean', delta: builtins.float = 1.0, weight: Tensor | None = None) -> Tensor:
    """Return a loss that is quadratic if |input - target| is at most delta, and linear otherwise.

    Note    even with `weight`, the mean divides by the number of elements, as in PyTorch
    """
def instance_norm(input: Tensor, running_mean: Tensor | None = None, running_var: Tensor | None = None, weight: Tensor | None = None, bias: Tensor | None = None, use_input_stats: builtins.bool = True, momentum: builtins.float = 0.1, eps: builtins.float = 1e-05) -> Tensor:
    """Return input with each channel of each sample normalized to mean 0 and variance 1, times
    weight, plus bias.

    Shape   (N, C, ...) -> the same
    Note    running_mean and running_var move by momentum towards the mean and variance of a sample,
            averaged over all samples. If use_input_stats is False, running_mean and running_var
            are used instead of each sample's own mean and variance
    """
def interpolate(input: Tensor, size: Sizes | None = None, scale_factor: builtins.float | Sequence[builtins.float] | None = None, mode: str = 'nearest', align_corners: builtins.bool | None = None, recompute_scale_factor: builtins.bool | None = None, antialias: builtins.bool = False) -> Tensor:
    """Return images resized to `size`, or by the factor `scale_factor`.

    Modes "nearest", "nearest-exact" and "area" support 1 to 3 spatial axes, "linear" supports 1,
    "bilinear", "bicubic" and "lanczos" support 2, "trilinear" supports 3. With align_corners the
    outermost elements keep their positions. `antialias` widens the filter of "bilinear", "bicubic"
    and "lanczos" along axes that shrink.

    Raises  ValueError for arguments that exclude each other, NotImplementedError for a mode that
            does not support the number of axes

    Args:
        input: Images of shape (n, c, ...) with 1 to 3 spatial axes, floating-point; some modes also
            take uint8.
        size: The size of the result, a number or one for each spatial axis; None: scale_factor.
        scale_factor: The factor by which the image is scaled; None: size is given.
        mode: "nearest", "nearest-exact", "area", "linear", "bilinear", "bicubic", "lanczos" or
            "trilinear".
        align_corners: Whether the outermost elements keep their positions; False if None.
        recompute_scale_factor: Whether to compute the factor again from the rounded size; None: no.
        antialias: Whether to apply a low-pass filter before an image is reduced.

    Example:
        >>> F.interpolate(torch.tensor([[[1.0, 2.0]]]), scale_factor=2)
        tensor([[[1., 1., 2., 2.]]])
    """
def kl_div(input: Tensor, target: Tensor, size_average: builtins.bool | None = None, reduce: builtins.bool | None = None, reduction: str = 'mean', log_target: builtins.bool = False) -> Tensor:
    """Return target * (log(target) - input), where input holds log probabilities."""
def l1_loss(input: Tensor, target: Tensor, size_average: builtins.bool | None = None, reduce: builtins.bool | None = None, reduction: str = 'mean', weight: Tensor | None = None) -> Tensor:
    """Return the absolute differences of input and target, or the mean or sum of these differences.

    Note    with `weight`, the mean is the weighted mean

    Args:
        input: A tensor of any shape.
        target: A tensor of the shape of input.
        size_average: Deprecated; None: see reduction.
        reduce: Deprecated; None: see reduction.
        reduction: "mean", "sum", or "none" for one loss per element.
        weight: A weight for each element; all 1 if None.

    Example:
        >>> F.l1_loss(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 4.0]))
        tensor(1.)
    """
def layer_norm(input: Tensor, normalized_shape: Sequence[builtins.int], weight: Tensor | None = None, bias: Tensor | None = None, eps: builtins.float = 1e-05, cudnn_enable: builtins.bool = True) -> Tensor:
    """Return input normalized to mean 0 and variance 1 over its last axes, times weight, plus bias.

    Raises  RuntimeError if the last axes of input are not normalized_shape

    Args:
        input: A floating-point tensor of shape (..., *normalized_shape). Equal elements become 0,
            before weight and bias.
        normalized_shape: The lengths of the axes to normalize, which are the last axes of input.
        weight: A factor for each element, or None.
        bias: A summand for each element, or None.
        eps: Added to the variance, to avoid division by 0.
        cudnn_enable: Ignored.

    Example:
        >>> F.layer_norm(torch.tensor([[1.0, 2.0, 3.0]]), (3,))
        tensor([[-1.2247,  0.0000,  1.2247]])
    """
def leaky_relu(input: Tensor, negative_slope: builtins.float = 0.01, inplace: builtins.bool = False) -> Tensor:
    """Return input where it is positive, and negative_slope * input elsewhere."""
def leaky_relu_(input: Tensor, negative_slope: builtins.float = 0.01) -> Tensor:
    """Return input where it is positive, and negative_slope * input elsewhere."""
def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None, *, out: Tensor | None = None) -> Tensor:
    """Return input @ weight.T + bias.

    Shape   (..., n), (m, n), (m) -> (..., m)
    Raises  RuntimeError if the last axes of input and weight have different lengths, or the dtypes
            differ

    Args:
        input: A tensor of shape (..., in_features), in the dtype of weight.
        weight: A matrix of shape (out_features, in_features).
        bias: A vector of out_features elements, or None.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> F.linear(torch.ones(2, 3), torch.ones(4, 3)).shape
        fastdist.Size([2, 4])
    """
def linear_cross_entropy(input: Tensor, linear_weight: Tensor, target: Tensor, *, linear_bias: Tensor | None = None, weight: Tensor | None = None, reduction: str = 'mean', ignore_index: builtins.int | None = None, label_smoothing: builtins.float = 0.0, options: Any = None) -> Tensor:
    """Return cross_entropy(linear(input, linear_weight, linear_bias), target).

    Shape   input (N, F) or (F,); linear_weight (C, ..., F), linear_bias (C, ...); target has a
            shape that cross_entropy supports for logits (N, C, ...)
    Raises  NotImplementedError if `options` are given, which divide the logits into chunks: here,
            all logits are computed in one step
    """
def local_response_norm(input: Tensor, size: builtins.int, alpha: builtins.float = 0.0001, beta: builtins.float = 0.75, k: builtins.float = 1.0) -> Tensor:
    """Return input / (k + alpha * m)**beta, where m is the mean of the squares of `size`
    neighbouring channels.

    Shape   (N, C, ...) -> the same
    """
def logsigmoid(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return log(sigmoid(input)) without underflow.

    Args:
        input: A floating-point tensor of any shape.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> F.logsigmoid(torch.tensor([0.0]))
        tensor([-0.6931])
    """
def lp_pool1d(input: Tensor, norm_type: Number, kernel_size: Sizes, stride: Sizes | None = None, ceil_mode: builtins.bool = False) -> Tensor:
    """Return (sum of input**norm_type)**(1 / norm_type) over windows along the last axis."""
def lp_pool2d(input: Tensor, norm_type: Any, kernel_size: Any, stride: Any = None, ceil_mode: builtins.bool = False) -> Tensor:
    """Return (sum of input**norm_type)**(1 / norm_type) over windows of the last two axes."""
def lp_pool3d(input: Tensor, norm_type: Any, kernel_size: Any, stride: Any = None, ceil_mode: builtins.bool = False) -> Tensor:
    """Return (sum of input**norm_type)**(1 / norm_type) over windows of the last three axes."""
def margin_ranking_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: builtins.float = 0, size_average: builtins.bool | None = None, reduce: builtins.bool | None = None, reduction: str = 'mean') -> Tensor:
    """Return max(0, -target * (input1 - input2) + margin)."""
@overload
def max_pool1d(input: Tensor, kernel_size: Sizes, stride: Any = None, padding: Sizes = 0, dilation: Sizes = 1, ceil_mode: builtins.bool = False, return_indices: Literal[False] = False) -> Tensor:
    """Return the largest element of each window over the last axis; with return_indices also its index."""
@overload
def max_pool1d(input: Tensor, kernel_size: Sizes, stride: Any = None, padding: Sizes = 0, dilation: Sizes = 1, ceil_mode: builtins.bool = False, *, return_indices: Literal[True]) -> tuple[Tensor, Tensor]:
    """Return the largest element of each window over the last axis; with return_indices also its index."""
@overload
def max_pool1d(input: Tensor, kernel_size: Sizes, stride: Any = None, padding: Sizes = 0, dilation: Sizes = 1, ceil_mode: builtins.bool = False, return_indices: builtins.bool = False) -> Any:
    """Return the largest element of each window over the last axis; with return_indices also its index."""
def max_pool1d_with_indices(input: Tensor, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, dilation: Sizes = 1, ceil_mode: builtins.bool = False, return_indices: builtins.bool = False) -> tuple[Tensor, Tensor]:
    """Return the largest element of each window over the last axis, and its index in the plane."""
@overload
def max_pool2d(input: Tensor, kernel_size: Sizes, stride: Any = None, padding: Sizes = 0, dilation: Sizes = 1, ceil_mode: builtins.bool = False, return_indices: Literal[False] = False) -> Tensor:
    """Return the largest element of each window over the last two axes; with return_indices also its index."""
@overload
def max_pool2d(input: Tensor, kernel_size: Sizes, stride: Any = None, padding: Sizes = 0, dilation: Sizes = 1, ceil_mode: builtins.bool = False, *, return_indices: Literal[True]) -> tuple[Tensor, Tensor]:
    """Return the largest element of each window over the last two axes; with return_indices also its index."""
@overload
def max_pool2d(input: Tensor, kernel_size: Sizes, stride: Any = None, padding: Sizes = 0, dilation: Sizes = 1, ceil_mode: builtins.bool = False, return_indices: builtins.bool = False) -> Any:
    """Return the largest element of each window over the last two axes; with return_indices also its index."""
def max_pool2d_with_indices(input: Tensor, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, dilation: Sizes = 1, ceil_mode: builtins.bool = False, return_indices: builtins.bool = False) -> tuple[Tensor, Tensor]:
    """Return the largest element of each window over the last two axes, and its index in the plane."""
@overload
def max_pool3d(input: Tensor, kernel_size: Sizes, stride: Any = None, padding: Sizes = 0, dilation: Sizes = 1, ceil_mode: builtins.bool = False, return_indices: Literal[False] = False) -> Tensor:
    """Return the largest element of each window over the last three axes; with return_indices also its index."""
@overload
def max_pool3d(input: Tensor, kernel_size: Sizes, stride: Any = None, padding: Sizes = 0, dilation: Sizes = 1, ceil_mode: builtins.bool = False, *, return_indices: Literal[True]) -> tuple[Tensor, Tensor]:
    """Return the largest element of each window over the last three axes; with return_indices also its index."""
@overload
def max_pool3d(input: Tensor, kernel_size: Sizes, stride: Any = None, padding: Sizes = 0, dilation: Sizes = 1, ceil_mode: builtins.bool = False, return_indices: builtins.bool = False) -> Any:
    """Return the largest element of each window over the last three axes; with return_indices also its index."""
def max_pool3d_with_indices(input: Tensor, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, dilation: Sizes = 1, ceil_mode: builtins.bool = False, return_indices: builtins.bool = False) -> tuple[Tensor, Tensor]:
    """Return the largest element of each window over the last three axes, and its index in the plane."""
def max_unpool1d(input: Tensor, indices: Tensor, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, output_size: Any = None) -> Tensor:
    """Return zeros with the elements of input written at `indices` along the last axis. max_pool1d
    returns such indices.
    """
def max_unpool2d(input: Tensor, indices: Tensor, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, output_size: Any = None) -> Tensor:
    """Return zeros with the elements of input written at `indices` in the last two axes. max_pool2d
    returns such indices.
    """
def max_unpool3d(input: Tensor, indices: Tensor, kernel_size: Sizes, stride: Sizes | None = None, padding: Sizes = 0, output_size: Any = None) -> Tensor:
    """Return zeros with the elements of input written at `indices` in the last three axes.
    max_pool3d returns such indices.
    """
def mish(input: Tensor, inplace: builtins.bool = False) -> Tensor:
    """Return input * tanh(softplus(input))."""
def mse_loss(input: Tensor, target: Tensor, size_average: builtins.bool | None = None, reduce: builtins.bool | None = None, reduction: str = 'mean', weight: Tensor | None = None) -> Tensor:
    """Return the squared differences of input and target, or the mean or sum of these squares.

    Note    with `weight`, the mean is the weighted mean
    Raises  RuntimeError if the shapes do not broadcast, or an argument is complex

    Args:
        input: A floating-point tensor. The mean of no elements is NaN.
        target: A tensor of the shape of input; other shapes broadcast, with a warning.
        size_average: Deprecated; None: see reduction.
        reduce: Deprecated; None: see reduction.
        reduction: "mean", "sum", or "none" for one loss per element.
        weight: A weight for each element; all 1 if None.

    Example:
        >>> F.mse_loss(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 4.0]))
        tensor(2.)
    """
def multi_head_attention_forward(query: Tensor, key: Tensor, value: Tensor, embed_dim_to_check: builtins.int, num_heads: builtins.int, in_proj_weight: Tensor | None, in_proj_bias: Tensor | None, bias_k: Tensor | None, bias_v: Tensor | None, add_zero_attn: builtins.bool, dropout_p: builtins.float, out_proj_weight: Tensor, out_proj_bias: Tensor | None, training: builtins.bool = True, key_padding_mask: Tensor | None = None, need_weights: builtins.bool = True, attn_mask: Tensor | None = None, use_separate_proj_weight: builtins.bool = False, q_proj_weight: Tensor | None = None, k_proj_weight: Tensor | None = None, v_proj_weight: Tensor | None = None, static_k: Tensor | None = None, static_v: Tensor | None = None, average_attn_weights: builtins.bool = True, is_causal: builtins.bool | builtins.int = False) -> tuple[Tensor, Tensor | None]:
    """Return the attention of num_heads heads, and the attention weights if need_weights is true.

    Shape   (n, batch, e), (m, batch, e), (m, batch, e) -> (n, batch, e), (batch, n, m); all may
            lack batch. If average_attn_weights is false, the weights are (batch, heads, n, m)
    """
def multi_margin_loss(input: Tensor, target: Tensor, p: builtins.int = 1, margin: builtins.float = 1.0, weight: Tensor | None = None, size_average: builtins.bool | None = None, reduce: builtins.bool | None = None, reduction: str = 'mean') -> Tensor:
    """Return the sum of max(0, margin - a + b)**p, divided by the number of classes, where a is the
    score of the target class and b is the score of each other class.

    Shape   (N, C), (N,) or (C,), () -> (), or the shape of target for reduction "none"
    """
def multilabel_margin_loss(input: Tensor, target: Tensor, size_average: builtins.bool | None = None, reduce: builtins.bool | None = None, reduction: str = 'mean') -> Tensor:
    """Return the sum of max(0, 1 - a + b), divided by the number of classes. The sum is over all
    pairs of a score a of a target class and a score b of a class that is not a target.

    Shape   (N, C), (N, C) or (C,), (C,) -> (), or (N,) for reduction "none". The targets of a row
            are the numbers before the first -1 of the row
    Raises  RuntimeError if target is on the CPU and has a number that is neither a class nor -1
    """
def multilabel_soft_margin_loss(input: Tensor, target: Tensor | builtins.float, weight: Tensor | None = None, size_average: builtins.bool | None = None, reduce: builtins.bool | None = None, reduction: str = 'mean') -> Tensor:
    """Return the mean, over the classes, of the binary cross entropies between logits and targets.

    Shape   (..., C) -> (), or (...) for reduction "none"
    """
def native_channel_shuffle(input: Tensor, groups: builtins.int) -> Tensor:
    """Return channel_shuffle(input, groups). PyTorch has this function under both names."""
def nll_loss(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: builtins.bool | None = None, ignore_index: builtins.int = -100, reduce: builtins.bool | None = None, reduction: str = 'mean') -> Tensor:
    """Return the negative log likelihood of target's classes; input holds log probabilities.

    Shape   (N, C, ...), (N, ...) -> (), or (N, ...) for reduction "none"
    """
def normalize(input: Tensor, p: builtins.float = 2.0, dim: builtins.int | Sequence[builtins.int] | None = 1, eps: builtins.float = 1e-12, out: Tensor | None = None) -> Tensor:
    """Return input divided by its norm along dim, or by eps if eps is larger than the norm.

    Raises  RuntimeError if input is neither floating-point nor complex; IndexError if dim is out of
            range

    Args:
        input: A floating-point or complex tensor. A slice of zeros stays 0.
        p: The order of the norm.
        dim: The axis or axes over which norms are computed.
        eps: The smallest divisor, which prevents a division by 0.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> F.normalize(torch.tensor([[3.0, 4.0]]))
        tensor([[0.6000, 0.8000]])
    """
def one_hot(tensor: Tensor, num_classes: builtins.int = -1) -> Tensor:
    """Return rows of zeros with a 1 at each index, along a new last axis.

    Note    on devices other than the CPU, the values are read only if num_classes is -1, because
            reading waits for the device; otherwise the row of an index out of range is zeros
    Raises  RuntimeError if tensor is not int64, or a class is negative or not below num_classes

    Args:
        tensor: The classes, in int64 and not negative, of any shape.
        num_classes: The length of the new axis; if -1, the largest index + 1.

    Example:
        >>> F.one_hot(torch.tensor([0, 2]), num_classes=3)
        tensor([[1, 0, 0],
                [0, 0, 1]])
    """
def pad(input: Tensor, pad: Any, mode: str = 'constant', value: builtins.complex | None = None) -> Tensor:
    """Return input with pad[0] elements added before and pad[1] after its last axis, pad[2] and
    pad[3] at the axis before it, and so on. Negative numbers remove elements.

    Mode "constant" adds `value` (default 0), "reflect" adds elements mirrored at the border
    element, "replicate" repeats the border element, "circular" adds elements from the other end.

    Raises  RuntimeError for numbers that do not fit, NotImplementedError for a mode or a number of
            axes that PyTorch does not support

    Args:
        input: A tensor of any dtype. Modes other than "constant" pad the last axes, and need one or
            two axes in front of them.
        pad: Two numbers for each axis, starting with the last axis.
        mode: "constant", "reflect", "replicate" or "circular".
        value: The number to fill with, for "constant"; 0 if None.

    Example:
        >>> F.pad(torch.tensor([[1.0, 2.0]]), (1, 0, 0, 1))
        tensor([[0., 1., 2.],
                [0., 0., 0.]])
    """
def pairwise_distance(x1: Tensor, x2: Tensor, p: builtins.float = 2.0, eps: builtins.float = 1e-06, keepdim: builtins.bool = False) -> Tensor:
    """Return the norms of x1 - x2 + eps along the last axis."""
def pdist(input: Tensor, p: builtins.float = 2.0) -> Tensor:
    """Return the distance of order p between each row of input and each later row."""
def pixel_shuffle(input: Tensor, upscale_factor: builtins.int) -> Tensor:
    """Return images with r times the height and width and 1 / r**2 times the channels, where r is
    upscale_factor.

    Shape   (..., c * r**2, h, w) -> (..., c, h * r, w * r)
    """
def pixel_unshuffle(input: Tensor, downscale_factor: builtins.int) -> Tensor:
    """Return images with 1 / r times the height and width and r**2 times the channels, where r is
    downscale_factor. This is the inverse of pixel_shuffle.

    Shape   (..., c, h * r, w * r) -> (..., c * r**2, h, w)
    """
def poisson_nll_loss(input: Tensor, target: Tensor, log_input: builtins.bool = True, full: builtins.bool = False, size_average: builtins.bool | None = None, eps: builtins.float = 1e-08, reduce: builtins.bool | None = None, reduction: str = 'mean') -> Tensor:
    """Return the negative log likelihood of the counts `target` under a Poisson distribution whose
    rate, or its logarithm, is `input`. `full` adds Stirling's approximation of log(target!).
    """
def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """Return input where it is positive, and weight * input elsewhere. weight is one number, or one
    number for each channel.
    """
def relu(input: Tensor, inplace: builtins.bool = False) -> Tensor:
    """Return the larger of 0 and each element; the gradient at 0 is 0.

    Raises  RuntimeError if input is bool or complex

    Args:
        input: A real tensor of any dtype but bool. NaN stays NaN.
        out: A tensor into which the result is written; a new one if None.
        inplace: Whether to overwrite the input.

    Example:
        >>> torch.relu(torch.tensor([-1.0, 2.0]))
        tensor([0., 2.])
    """
def relu6(input: Tensor, inplace: builtins.bool = False) -> Tensor:
    """Return input clamped to the range from 0 to 6."""
def relu_(input: Tensor) -> Tensor:
    """Return the larger of 0 and each element; the gradient at 0 is 0.

    Raises  RuntimeError if input is bool or complex

    Args:
        input: A real tensor of any dtype but bool. NaN stays NaN.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> torch.relu(torch.tensor([-1.0, 2.0]))
        tensor([0., 2.])
    """
def rms_norm(input: Tensor, normalized_shape: Sequence[builtins.int], weight: Tensor | None = None, eps: builtins.float | None = None) -> Tensor:
    """Return input divided by the root of its mean square over the last axes, times weight."""
def rrelu(input: Tensor, lower: builtins.float = 0.125, upper: builtins.float = 0.3333333333333333, training: builtins.bool = False, inplace: builtins.bool = False) -> Tensor:
    """Return input where it is positive, and slope * input elsewhere. In training, the slope is
    drawn from [lower, upper) for each element; otherwise the slope is (lower + upper) / 2.
    """
def scaled_dot_product_attention(query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, dropout_p: builtins.float = 0.0, is_causal: builtins.bool = False, *, scale: builtins.float | None = None, enable_gqa: builtins.bool = False) -> Tensor:
    """Return softmax(query @ key.T * scale + mask) @ value over the last two axes.

    In a bool mask, True allows attention; a mask of another dtype is added to the scores. The
    result is 0 for a query that may not attend to any key. With enable_gqa, several heads of query
    share one head of key and value. A mask may be combined with is_causal where PyTorch's fused
    kernel supports this combination; a query then attends to the keys that both allow.

    Raises  ValueError for a dropout_p outside of 0 ... 1; RuntimeError for shapes that do not fit,
            and for a mask with is_causal where the fused kernel does not support the combination
    Note    memory grows with n + m, except for a mask and its gradient: see attention_blocks

    Args:
        query: Queries, of shape (..., n, d).
        key: Keys, of shape (..., m, d).
        value: Values, of shape (..., m, e); the result is of shape (..., n, e).
        attn_mask: A mask that broadcasts to (..., n, m), or None.
        dropout_p: The probability with which an attention weight is dropped. It applies outside of
            training, too.
        is_causal: Whether query i attends only to keys up to i.
        scale: The factor of the scores; 1 / sqrt(d) if None.
        enable_gqa: Whether several heads of query share one head of key and value.

    Example:
        >>> q = torch.zeros(1, 2, 4)
        >>> F.scaled_dot_product_attention(q, q, q).shape
        fastdist.Size([1, 2, 4])
    """
def selu(input: Tensor, inplace: builtins.bool = False) -> Tensor:
    """Return elu(input), scaled so that the results of layers keep mean 0 and variance 1."""
def selu_(input: Tensor) -> Tensor:
    """Return elu(input), scaled so that the results of layers keep mean 0 and variance 1."""
def sigmoid(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return 1 / (1 + exp(-x)) for each element x.

    Raises  TypeError if input is neither a tensor nor a number

    Args:
        input: A tensor of any shape and dtype. The result is 1 for inf, and 0 for -inf.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor of the same shape; integers give the default dtype.

    Example:
        >>> torch.sigmoid(torch.tensor([0.0, 2.0]))
        tensor([0.5000, 0.8808])
    """
def silu(input: Tensor, inplace: builtins.bool = False) -> Tensor:
    """Return input * sigmoid(input).

    Raises  NotImplementedError if input is neither floating-point nor complex

    Args:
        input: A floating-point or complex tensor of any shape.
        inplace: Whether to overwrite the input.

    Example:
        >>> F.silu(torch.tensor([0.0, 1.0]))
        tensor([0.0000, 0.7311])
    """
def smooth_l1_loss(input: Tensor, target: Tensor, size_average: builtins.bool | None = None, reduce: builtins.bool | None = None, reduction: str = 'mean', beta: builtins.float = 1.0) -> Tensor:
    """Return the same as l1_loss, but quadratic for differences whose magnitude is below beta."""
def soft_margin_loss(input: Tensor, target: Tensor, size_average: builtins.bool | None = None, reduce: builtins.bool | None = None, reduction: str = 'mean') -> Tensor:
    """Return log(1 + exp(-target * input)), without overflow."""
def softplus(input: Tensor, beta: builtins.float = 1.0, threshold: builtins.float = 20.0, *, out: Tensor | None = None) -> Tensor:
    """Return log(1 + exp(beta * input)) / beta, or input itself where beta * input > threshold.

    Raises  NotImplementedError if input is not floating-point

    Args:
        input: A floating-point tensor of any shape.
        beta: The steepness of the bend at 0; the larger, the closer to relu.
        threshold: The value of beta * input above which input itself is returned.
        out: A tensor into which the result is written; a new one if None.

    Example:
        >>> F.softplus(torch.tensor([0.0, 30.0]))
        tensor([ 0.6931, 30.0000])
    """
def softshrink(input: Tensor, lambd: builtins.float = 0.5, *, out: Tensor | None = None) -> Tensor:
    """Return input moved towards 0 by lambd, with elements in [-lambd, lambd] set to 0."""
def softsign(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return input / (1 + |input|), a cheap alternative to tanh."""
def tanh(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the hyperbolic tangent of each element.

    Raises  TypeError if input is neither a tensor nor a number

    Args:
        input: A tensor of any shape and dtype. The result is 1 for inf, and -1 for -inf.
        out: A tensor into which the result is written; a new one if None.

    Returns:
        A tensor of the same shape; integers give the default dtype.

    Example:
        >>> torch.tanh(torch.tensor([0.0, 1.0]))
        tensor([0.0000, 0.7616])
    """
def tanhshrink(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return input - tanh(input)."""
def threshold(input: Tensor, threshold: builtins.float, value: builtins.float, inplace: builtins.bool = False) -> Tensor:
    """Return `input` where it is above `threshold`, and `value` elsewhere."""
def threshold_(input: Tensor, threshold: builtins.float, value: builtins.float) -> Tensor:
    """Return `input` where it is above `threshold`, and `value` elsewhere."""
def triplet_margin_loss(anchor: Tensor, positive: Tensor, negative: Tensor, margin: builtins.float = 1.0, p: builtins.float = 2, eps: builtins.float = 1e-06, swap: builtins.bool = False, size_average: builtins.bool | None = None, reduce: builtins.bool | None = None, reduction: str = 'mean') -> Tensor:
    """Return max(0, margin + distance(anchor, positive) - distance(anchor, negative)). With `swap`,
    distance(positive, negative) replaces the last distance where it is smaller.

    Source  Balntas et al. 2016, "Learning local feature descriptors with triplets"
    """
def triplet_margin_with_distance_loss(anchor: Tensor, positive: Tensor, negative: Tensor, *, distance_function: Any = None, margin: builtins.float = 1.0, swap: builtins.bool = False, reduction: str = 'mean') -> Tensor:
    """Return triplet_margin_loss with the given distance function, or with pairwise_distance."""
def unfold(input: Tensor, kernel_size: Sizes, dilation: Sizes = 1, padding: Sizes = 0, stride: Sizes = 1) -> Tensor:
    """Return the patches that a sliding window cuts out of images, as columns.

    Shape   (n, c, h, w) or (c, h, w) -> (n, c * kernel, patches)
    """
def upsample(input: Tensor, size: Sizes | None = None, scale_factor: builtins.float | Sequence[builtins.float] | None = None, mode: str = 'nearest', align_corners: builtins.bool | None = None) -> Tensor:
    """Call interpolate, which replaces this function, with the same arguments."""
def upsample_bilinear(input: Tensor, size: Sizes | None = None, scale_factor: builtins.float | Sequence[builtins.float] | None = None) -> Tensor:
    """Call interpolate, which replaces this function, with mode "bilinear" and align_corners."""
def upsample_nearest(input: Tensor, size: Sizes | None = None, scale_factor: builtins.float | Sequence[builtins.float] | None = None) -> Tensor:
    """Call interpolate, which replaces this function, with mode "nearest"."""
GRID_SAMPLE_INTERPOLATION_MODES: dict[str, int]
GRID_SAMPLE_PADDING_MODES: dict[str, int]
def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: int=...) -> Tensor: ...
def glu(input: Tensor, dim: int=...) -> Tensor: ...
def log_softmax(input: Tensor, dim: int | None=..., _stacklevel: int=..., dtype: Any=...) -> Tensor: ...
def rrelu_(input: Tensor, lower: float=..., upper: float=..., training: bool=...) -> Tensor: ...
def softmax(input: Tensor, dim: int | None=..., _stacklevel: int=..., dtype: Any=...) -> Tensor: ...
def softmin(input: Tensor, dim: int | None=..., _stacklevel: int=..., dtype: Any=...) -> Tensor: ...
