"""Imports the whole catalogue, attaches what it declares, and gathers the names that users type.

Importing this makes Tensor complete.
"""

from __future__ import annotations

import sys
from typing import Any

from ..dispatch.composite import COMPOSITES
from ..dispatch.op import OPS
from ..dispatch.view import detach
from ..graph import tensor_methods  # noqa: F401
from ..ops import (  # noqa: F401 (importing a file declares its ops)
    activation,
    arithmetic,
    attention,
    average_pooling,
    basic_index,
    batch_norm,
    bilinear,
    bitwise,
    builders,
    casting,
    comparison,
    convolution,
    copying,
    counting,
    creation,
    ctc,
    density_losses,
    determinants,
    distances,
    draws,
    dropout,
    einsum,
    embedding,
    embedding_bag,
    extrema,
    extremes,
    fractional_pooling,
    histograms,
    indexing,
    interpolation,
    joining,
    least_squares,
    likelihood,
    linear_cross_entropy,
    linear_systems,
    losses,
    margins,
    matmul,
    matrix_functions,
    matrix_norms,
    max_pooling,
    movement,
    multihead_attention,
    normalization,
    norms,
    order_statistics,
    ordering,
    padding,
    patches,
    pixels,
    products,
    random,
    real_numbers,
    rearranging,
    recurrent,
    recurrent_layers,
    reductions,
    reflections,
    removed,
    rounding,
    running,
    sampling_grid,
    scans,
    scattering,
    selection,
    shorthand,
    similarity,
    softmax,
    sparse,
    sparse_conversion,
    sparse_indexing,
    sparse_products,
    sparse_rules,
    special,
    spectra,
    splitting,
    statistics,
    strided,
    subscript,
    transcendental,
    triangular,
    unpooling,
    variants,
    weighing,
)
from ..tensor.methods import TensorMethods
from .attach import attach_all
from .functions import attach_methods
from .names import (
    ALIASES,
    ALSO_FUNCTIONAL,
    CREATION,
    FUNCTIONAL_ONLY,
    INPLACE_FUNCTIONS,
    NOT_FUNCTIONS,
    PRIVATE,
    SPECIAL_ONLY,
)


def gather() -> dict[str, Any]:
    """Return name -> function of all that `fastdist.X` offers of the catalogue."""
    hidden = PRIVATE | FUNCTIONAL_ONLY | SPECIAL_ONLY | NOT_FUNCTIONS
    names = {name: op.public for name, op in OPS.items() if name not in hidden}
    names.update({name: getattr(creation, name) for name in CREATION})
    names["sparse_coo_tensor"] = sparse_conversion.sparse_coo_tensor
    names.update(t=movement.t, reshape=movement.reshape, detach=detach)
    names.update({name: found.call for name, found in COMPOSITES.items() if found.function})
    names.update({alias: names[name] for alias, name in ALIASES.items() if name in names})
    names.update({f"{name}_": getattr(TensorMethods, f"{name}_") for name in INPLACE_FUNCTIONS})
    return names


def gather_linalg() -> dict[str, Any]:
    """Return name -> function of all that `fastdist.linalg.X` offers of the catalogue."""
    found = [one for one in COMPOSITES.values() if one.linalg]
    return {one.name.partition(".")[2]: one.call for one in found}


def gather_functional() -> dict[str, Any]:
    """Return name -> function of all that `fastdist.nn.functional.X` offers of the catalogue."""
    names = {name: OPS[name].public for name in FUNCTIONAL_ONLY | ALSO_FUNCTIONAL if name in OPS}
    names.update({name: found.call for name, found in COMPOSITES.items() if found.functional})
    return names


def tell_where_found(names: dict[str, Any], module: str) -> None:
    """Let each function say the name under which module offers it, if nothing is found under the
    one that it has: by that name it is pickled.
    """
    for name, function in names.items():
        own = function.__qualname__
        at_home = getattr(sys.modules.get(function.__module__), own, None) is function
        if at_home or (function.__module__ == "fastdist" and NAMES.get(own) is function):
            continue
        if names.get(own) is not function:
            function.__qualname__ = name
        function.__module__ = module


attach_all()
attach_methods()
NAMES = gather()
FUNCTIONAL_NAMES = gather_functional()
LINALG = gather_linalg()
SPECIAL = {name: OPS[name].public for name in SPECIAL_ONLY}
tell_where_found(NAMES, "fastdist")
tell_where_found(SPECIAL, "fastdist.special")
tell_where_found(LINALG, "fastdist.linalg")
tell_where_found(FUNCTIONAL_NAMES, "fastdist.nn.functional")
