"""What a profile calls an op: PyTorch's name for it, where the op's own says how it is done here.

An op that stands under its own name here as there is not listed. Looked at only while a profile
records.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final


def event_of(name: str, operands: Any, attributes: Any = ()) -> str:
    """Return the name of an op's event; of one that works in place the op's with a `_` behind."""
    by_call = _BY_CALL.get(name)
    if by_call is not None:
        return f"aten::{by_call(operands, attributes)}"
    if name.endswith("_"):
        return f"aten::{pytorchs_name(name[:-1])}_"
    return f"aten::{pytorchs_name(name)}"


def pytorchs_name(name: str) -> str:
    """Return PyTorch's name for an op, whatever it is called with."""
    return _NAMES.get(name, name)


def event_of_function(name: str) -> str | None:
    """Return the name of the event of a function that is made of ops; None for one that has none,
    as it only asks, is another name of one op, which tells by itself, or is written in Python in
    PyTorch as well. Functions of linalg are given with that in front.
    """
    if name in _UNTOLD or name.startswith("is_"):
        return None
    return f"aten::{_FUNCTIONS.get(name, name).replace('.', '_')}"


def _product(operands: Any, attributes: Any) -> str:
    # Vectors have become matrices.
    return "mm" if all(len(operand.shape) == 2 for operand in operands) else "bmm"


def _linear(operands: Any, attributes: Any) -> str:
    return "mm" if len(operands) < 3 or operands[2] is None else "addmm"


def _subscript(operands: Any, attributes: Any) -> str:
    index = attributes[0] if isinstance(attributes, tuple) and attributes else None
    parts = index if isinstance(index, tuple) else (index,)
    if any(isinstance(part, int) for part in parts):
        return "select"
    return "slice" if any(isinstance(part, slice) for part in parts) else "unsqueeze"


def _weighed(operands: Any, attributes: Any) -> str:
    recipes, is_adjoint = attributes
    maker, axes = recipes[0][0], len(recipes)
    if maker == "windows":
        name = f"avg_pool{max(axes, 2)}d"
    elif maker == "parts":
        name = f"_adaptive_avg_pool{max(axes, 2)}d"
    else:
        name = _upsampled(recipes[0], axes)
    return f"{name}_backward" if is_adjoint else name


def _upsampled(recipe: Any, axes: int) -> str:
    maker, more = recipe[0], recipe[4:]
    if maker == "filtered":
        return f"_upsample_{'bicubic' if more[1] == 'bicubic' else 'bilinear'}2d_aa"
    if maker == "nearest_exact":
        return f"_upsample_nearest_exact{axes}d"
    known = {"linear": ("linear", "bilinear", "trilinear")[axes - 1], "cubic": "bicubic"}
    return f"upsample_{known.get(maker, maker)}{axes}d"


def _pooled(operands: Any, attributes: Any) -> str:
    return f"max_pool{max(len(attributes[0]), 2)}d_with_indices"


def _spread(operands: Any, attributes: Any) -> str:
    return f"{_pooled(operands, attributes)}_backward"


_BY_CALL: Final[dict[str, Callable[[Any, Any], str]]] = {
    "matmul": _product,
    "linear_kernel": _linear,
    "basic_index": _subscript,
    "weigh": _weighed,
    "largest": _pooled,
    "spread": _spread,
}
_NAMES: Final = {
    "absolute_difference": "l1_loss",
    "averages_back": "avg_pool2d_backward",
    "binary_entropy": "binary_cross_entropy",
    "gamma_of": "_standard_gamma",
    "gather_add": "_sparse_addmm",
    "hits": "nonzero",
    "huber_difference": "huber_loss",
    "logit_entropy": "binary_cross_entropy_with_logits",
    "permutation": "lu_unpack",
    "pick": "gather",
    "place_diagonal": "diagonal_backward",
    "put_zeros": "index_put",
    "recurrence": "cumprod_backward",
    "recurrent_sequence": "mkldnn_rnn_layer",
    "recurrent_sequence_gradient": "mkldnn_rnn_layer_backward",
    "reduced": "scatter_reduce",
    "reflectors": "geqrf",
    "scatter_zeros": "gather_backward",
    "sorted_places": "searchsorted",
    "smooth_difference": "smooth_l1_loss",
    "squared_difference": "mse_loss",
    "add_patches": "col2im",
    "add_slices": "index_add",
    "attention_gradient": "_scaled_dot_product_flash_attention_backward",
    "attention_in_blocks": "_scaled_dot_product_flash_attention",
    "cast": "_to_copy",
    "cholesky_parts": "linalg_cholesky_ex",
    "clamp_above": "clamp",
    "clamp_above_tensor": "clamp",
    "clamp_below": "clamp",
    "clamp_below_tensor": "clamp",
    "clamp_between": "clamp",
    "convolve": "convolution",
    "convolve_back": "convolution_backward",
    "correlate": "convolution_backward",
    "cross_entropy_rows": "nll_loss_forward",
    "cross_entropy_rows_gradient": "nll_loss_backward",
    "ctc_gradient": "_ctc_loss_backward",
    "ctc_losses": "_ctc_loss",
    "cummax_along": "cummax",
    "cummin_along": "cummin",
    "determinant": "linalg_det",
    "deviation": "std",
    "eig_parts": "linalg_eig",
    "eigenvalues": "linalg_eigvalsh",
    "eigvals_alone": "linalg_eigvals",
    "eigh_parts": "linalg_eigh",
    "entr": "special_entr",
    "erfcx": "special_erfcx",
    "gamma_slope": "digamma",
    "gelu_exact": "gelu",
    "gelu_tanh": "gelu",
    "i0e": "special_i0e",
    "i1": "special_i1",
    "i1e": "special_i1e",
    "inverse_parts": "linalg_inv_ex",
    "largest": "max_pool",
    "lay_out_patches": "im2col",
    "layer_norm_gradient": "native_layer_norm_backward",
    "layer_norm_rows": "native_layer_norm",
    "linear_kernel": "linear",
    "log_determinant": "linalg_slogdet",
    "log_ndtr": "special_log_ndtr",
    "log_odds": "logit",
    "logsigmoid": "log_sigmoid",
    "lu_parts": "linalg_lu_factor_ex",
    "max_along": "max",
    "max_of_all": "max",
    "min_along": "min",
    "min_of_all": "min",
    "ndtr": "special_ndtr",
    "ndtri": "special_ndtri",
    "nll_gradient": "nll_loss_backward",
    "nll_kernel": "nll_loss_forward",
    "normalize_channels": "native_batch_norm",
    "normalize_channels_gradients": "native_batch_norm_backward",
    "packed": "clone",
    "place": "constant_pad_nd",
    "prelu_kernel": "_prelu_kernel",
    "pseudo_inverse": "linalg_pinv",
    "put_places": "index_put",
    "qr_parts": "linalg_qr",
    "replace_nonfinite": "nan_to_num",
    "rms_norm_rows": "_fused_rms_norm",
    "scatter_src": "scatter",
    "select_slices": "index_select",
    "singular_values": "linalg_svdvals",
    "solve_parts": "linalg_solve_ex",
    "sort_along": "sort",
    "strided": "as_strided",
    "svd_parts": "linalg_svd",
    "take_places": "index",
    "thinning": "native_dropout",
    "topk_along": "topk",
    "triangular": "linalg_solve_triangular",
    "trunc_divide": "div",
    "valued": "median",
    "variance": "var",
    "vector_norm": "linalg_vector_norm",
    "windows": "unfold",
    "without_axes": "squeeze",
    "xlog1py": "special_xlog1py",
    "zeta": "special_zeta",
}
_FUNCTIONS: Final = {
    "adaptive_max_pool1d_with_indices": "adaptive_max_pool1d",
    "adaptive_max_pool2d_with_indices": "adaptive_max_pool2d",
    "adaptive_max_pool3d_with_indices": "adaptive_max_pool3d",
    "affine_grid": "affine_grid_generator",
    "cross_entropy": "cross_entropy_loss",
    "dropout1d": "feature_dropout",
    "dropout2d": "feature_dropout",
    "dropout3d": "feature_dropout",
    "fold": "col2im",
    "fractional_max_pool2d_with_indices": "fractional_max_pool2d",
    "fractional_max_pool3d_with_indices": "fractional_max_pool3d",
    "grid_sample": "grid_sampler",
    "lu": "_lu_with_info",
    "max_unpool1d": "max_unpool2d",
    "to_sparse_coo": "to_sparse",
    "unique": "_unique2",
}
_UNTOLD: Final = (
    "as_tensor", "asarray", "bfloat16", "bmm", "bool", "broadcast_shapes", "byte", "can_cast",
    "cdouble", "cfloat", "char", "clamp", "cpu", "cuda", "cummax", "cummin", "div", "dot",
    "double", "float", "gaussian_nll_loss", "gelu", "get_rng_state", "gumbel_softmax", "half",
    "index_select", "int", "interpolate", "linear_cross_entropy", "local_response_norm",
    "logit", "long", "lp_pool1d", "lp_pool2d", "lp_pool3d", "max", "min", "mm",
    "multi_head_attention_forward", "multilabel_soft_margin_loss", "mv", "nan_to_num",
    "normalize", "numel", "pca_lowrank", "promote_types", "result_type", "set_rng_state",
    "short", "sort", "spmm", "std", "svd_lowrank", "tensor", "topk",
    "triplet_margin_with_distance_loss", "type", "unravel_index", "upsample",
    "upsample_bilinear", "upsample_nearest", "var", "where",
)  # fmt: skip
