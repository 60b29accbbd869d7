"""What PyTorch's names are that no declaration says: second names, and those that are not here."""

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
# Methods of PyTorch's tensors that are not there, of kinds of which missing.py tells why.
MISSING_METHODS = words(
    """
    ccol_indices chalf col_indices crow_indices dequantize hash_tensor
    int_repr istft q_per_channel_axis q_per_channel_scales q_per_channel_zero_points q_scale
    q_zero_point qscheme row_indices slice_inverse stft to_mkldnn to_padded_tensor to_sparse_bsc
    to_sparse_bsr to_sparse_csc to_sparse_csr
    """
)
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
# Activations with an in-place twin beside their inplace=.
INPLACE_ACTIVATIONS = words("celu elu hardtanh leaky_relu relu selu threshold")
# View ops with an in-place twin, which changes the tensor's own shape: its name -> the op's.
VIEW_INPLACE = {
    "squeeze": "squeeze",
    "swapaxes": "transpose",
    "swapdims": "transpose",
    "transpose": "transpose",
    "unsqueeze": "unsqueeze",
}
# Functions of ops/creation.py and ops/ranges.py that `fastdist` offers; what else stands there
# helps them.
CREATION = words(
    """
    as_tensor empty empty_like from_numpy full full_like ones ones_like tensor zeros zeros_like
    """
)
RANGES = words("arange eye linspace")
