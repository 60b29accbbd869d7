"""What ops are called besides their own names, and which of them are no function of `fastdist`."""

from __future__ import annotations


def words(text: str) -> frozenset[str]:
    """Return the words of text."""
    return frozenset(text.split())


# alias -> name, for the function, the method and the in-place twin alike
ALIASES = {
    "absolute": "abs",
    "arccos": "acos",
    "arccosh": "acosh",
    "arcsin": "asin",
    "arcsinh": "asinh",
    "arctan": "atan",
    "arctan2": "atan2",
    "arctanh": "atanh",
    "clip": "clamp",
    "divide": "div",
    "true_divide": "div",
    "fix": "trunc",
    "greater": "gt",
    "greater_equal": "ge",
    "less": "lt",
    "less_equal": "le",
    "multiply": "mul",
    "negative": "neg",
    "not_equal": "ne",
    "subtract": "sub",
    "concat": "cat",
    "concatenate": "cat",
    "moveaxis": "movedim",
    "ger": "outer",
    "row_stack": "vstack",
    "swapdims": "swapaxes",
    "trapz": "trapezoid",
    "unsafe_chunk": "chunk",
    "unsafe_split": "split",
    "unsafe_split_with_sizes": "split_with_sizes",
}
# Ops that are the adjoints, parts or variants of others: no user calls them by name.
PRIVATE = words(
    """
    absolute_difference add_patches add_slices basic_index binary_entropy cast clamp_above
    clamp_above_tensor clamp_below clamp_below_tensor clamp_between convolve convolve_back
    correlate cross_entropy_rows cross_entropy_rows_gradient ctc_gradient ctc_losses deviation
    gamma_of gamma_slope gather_add
    gelu_exact gelu_tanh huber_difference largest lay_out_patches layer_norm_gradient
    layer_norm_rows linear_kernel log_odds logit_entropy max_along max_of_all min_along min_of_all
    move nll_gradient nll_kernel normalize_channels normalize_channels_gradients packed pick place
    place_diagonal prelu_kernel put_places put_zeros recurrence recurrent_sequence
    recurrent_sequence_gradient reduced replace_nonfinite scatter_src scatter_zeros select_slices
    smooth_difference sort_along spread squared_difference strided take_places topk_along
    trunc_divide valued variance vector_norm weigh windows
    absolute_difference add_patches add_slices basic_index binary_entropy cast cholesky_parts
    clamp_above clamp_above_tensor clamp_below clamp_below_tensor clamp_between convolve
    convolve_back correlate cross_entropy_rows cross_entropy_rows_gradient determinant deviation
    eigenvalues eigh_parts gamma_of gamma_slope gather_add gelu_exact gelu_tanh huber_difference
    inverse_parts largest lay_out_patches layer_norm_gradient layer_norm_rows linear_kernel
    log_determinant log_odds logit_entropy lu_parts max_along max_of_all min_along min_of_all move
    nll_gradient nll_kernel normalize_channels normalize_channels_gradients packed permutation pick
    place place_diagonal prelu_kernel pseudo_inverse put_places put_zeros qr_parts recurrence
    recurrent_sequence recurrent_sequence_gradient reflectors replace_nonfinite scatter_src
    scatter_zeros select_slices singular_values smooth_difference solve_parts sort_along spread
    squared_difference strided svd_parts take_places topk_along triangular trunc_divide valued
    variance vector_norm weigh windows
    """
)
# Ops that are functions of nn.functional alone.
FUNCTIONAL_ONLY = words(
    """
    elu gelu hardsigmoid hardswish hardtanh leaky_relu logsigmoid mish relu6 silu softplus
    softshrink softsign tanhshrink
    """
)
# Functions of `fastdist.special` alone.
SPECIAL_ONLY = words("entr erfcx i0e i1 i1e log_ndtr ndtr ndtri xlog1py zeta")
# Ops of fastdist that are functions of nn.functional as well.
ALSO_FUNCTIONAL = words("celu hardshrink log_softmax relu selu sigmoid softmax tanh threshold")
# Functions that are no methods, and methods that are no functions.
NOT_METHODS = words("celu polygamma rsub selu threshold where")
NOT_FUNCTIONS = words("contiguous expand sum_to_size to view")
# Methods of PyTorch's tensors that are not there, of kinds of which missing.py tells why.
MISSING_METHODS = words(
    """
    bfloat16 ccol_indices cdouble cfloat chalf col_indices crow_indices dequantize hash_tensor
    int_repr istft q_per_channel_axis q_per_channel_scales q_per_channel_zero_points q_scale
    q_zero_point qscheme row_indices slice_inverse stft to_mkldnn to_padded_tensor to_sparse_bsc
    to_sparse_bsr to_sparse_csc to_sparse_csr
    """
)
# Pointwise ops without an in-place twin, and structured ops with one.
NO_INPLACE = words(
    """
    angle celu fmax fmin hardshrink isfinite isinf isnan isneginf isposinf logaddexp
    logaddexp2 maximum minimum polygamma positive rsub selu signbit threshold
    """
)
STRUCTURED_INPLACE = words("cumprod cumsum scatter_add tril triu")
# In-place methods that are functions as well, each with a "_" behind its name.
INPLACE_FUNCTIONS = words(
    """
    abs acos acosh addmv arccos arccosh arcsin arcsinh arctan arctanh as_strided asin asinh atan
    atanh ceil clamp clamp_max clamp_min clip cos cosh deg2rad detach erf erfc exp exp2 expm1 fill
    fix floor frac gcd i0 index_put lcm ldexp log log10 log1p log2 logit nan_to_num neg negative
    rad2deg reciprocal relu resize_as round rsqrt sigmoid sin sinc sinh sqrt square tan tanh trunc
    xlogy zero
    """
)
# View ops with an in-place twin, which changes the tensor's own shape: its name -> the op's.
VIEW_INPLACE = {
    "squeeze": "squeeze",
    "swapaxes": "transpose",
    "swapdims": "transpose",
    "transpose": "transpose",
    "unsqueeze": "unsqueeze",
}
# Functions of ops/creation.py that `fastdist` offers; what else stands there helps them.
CREATION = words(
    """
    arange as_tensor empty empty_like eye from_numpy full full_like linspace ones ones_like tensor
    zeros zeros_like
    """
)
