"""PyTorch's names that have no declaration here: aliases, and missing names."""

from __future__ import annotations


def words(text: str) -> frozenset[str]:
    """Return the words of text."""
    return frozenset(text.split())


# Maps alias to name, for functions, methods and in-place twins.
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
# PyTorch's Tensor methods that do not exist here; missing.py has the reasons by kind.
MISSING_METHODS = words(
    """
    ccol_indices chalf col_indices crow_indices dequantize hash_tensor
    int_repr q_per_channel_axis q_per_channel_scales q_per_channel_zero_points q_scale
    q_zero_point qscheme row_indices slice_inverse to_mkldnn to_padded_tensor to_sparse_bsc
    to_sparse_bsr to_sparse_csc to_sparse_csr
    """
)
# Names, without the final "_", of in-place methods that are also functions. The in-place methods of
# pointwise ops with one tensor are functions too, except for those of `INPLACE_METHODS`.
INPLACE_FUNCTIONS = words(
    """
    addmv as_strided clamp clamp_max clamp_min detach fill gcd index_put lcm ldexp logit nan_to_num
    resize_as xlogy zero
    """
)
# In-place methods of pointwise ops for which PyTorch has no in-place function.
INPLACE_METHODS = words("absolute bitwise_not digamma erfinv lgamma logical_not sign")
