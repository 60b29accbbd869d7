"""Images, windows and patches with empty batches, and 0-d tensors: see edge_cases.py.

The sizes of an image are numbers of channels, kernel elements or positions, so the tests cannot
set any size to 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import fastdist as fd
from fastdist.dispatch.op import OPS
from tests.ops.cases import Case, F, as_tensors, case
from tests.ops.nn import (
    attention_cases,
    convolution_cases,
    image_cases,
    pooling_cases,
    recurrent_cases,
)

_TABLES = (convolution_cases.CASES, pooling_cases.CASES, image_cases.CASES)
IMAGES = {name for table in _TABLES for name in table} | {"bilinear", "pad"}


def nothing(ours: Callable[..., Any], shape: tuple[int, ...], *inputs: Any) -> list[Case]:
    """Return the sample of a call whose result has this shape and no elements."""
    return [case(ours, lambda *given: np.zeros(shape), *inputs)]


def _pooled(name: str, *sizes: int) -> dict[str, list[Case]]:
    found = {}
    for axes in (1, 2, 3):
        function = getattr(F, f"{name}{axes}d")
        image, half = (0, 3, *(4,) * axes), (0, 3, *(2,) * axes)
        found[f"{name}{axes}d"] = nothing(lambda x, f=function: f(x, *sizes), half, image)
    return found


def _convolved(axes: int) -> dict[str, list[Case]]:
    forward, back = getattr(F, f"conv{axes}d"), getattr(F, f"conv_transpose{axes}d")
    image, kernel = (0, 2, *(4,) * axes), (*(3, 2), *(2,) * axes)
    return {
        f"conv{axes}d": nothing(forward, (0, 3, *(3,) * axes), image, kernel),
        f"conv_transpose{axes}d": nothing(back, (0, 3, *(5,) * axes), image, (2, 3, *(2,) * axes)),
    }


EMPTY: dict[str, list[Case]] = {
    **_convolved(1),
    **_convolved(2),
    **_convolved(3),
    **_pooled("max_pool", 2),
    **_pooled("avg_pool", 2),
    **_pooled("adaptive_avg_pool", 2),
    **_pooled("lp_pool", 2, 2),
    **{
        f"max_pool{axes}d_with_indices": nothing(
            lambda x, axes=axes: getattr(F, f"max_pool{axes}d_with_indices")(x, 2)[0],
            (0, 3, *(2,) * axes),
            (0, 3, *(4,) * axes),
        )
        for axes in (1, 2, 3)
    },
    **{
        f"adaptive_max_pool{axes}d": nothing(
            lambda x, axes=axes: getattr(F, f"adaptive_max_pool{axes}d")(x, 2),
            (0, 3, *(2,) * axes),
            (0, 3, *(4,) * axes),
        )
        for axes in (1, 2, 3)
    },
    "max_unpool1d": nothing(
        lambda x: F.max_unpool1d(x, fd.zeros_like(x, dtype=fd.int64), 2), (0, 3, 8), (0, 3, 4)
    ),
    "convolution": nothing(
        lambda x, w: fd.convolution(x, w, None, [1], [0], [1], False, [0], 1),
        (0, 3, 3),
        (0, 2, 4),
        (3, 2, 2),
    ),
    "unfold": nothing(lambda x: F.unfold(x, 2), (0, 8, 9), (0, 2, 4, 4)),
    "fold": nothing(lambda x: F.fold(x, (4, 4), 2), (0, 2, 4, 4), (0, 8, 9)),
    "interpolate": nothing(
        lambda x: F.interpolate(x, scale_factor=2.0, mode="bilinear"), (0, 3, 8, 8), (0, 3, 4, 4)
    ),
    "grid_sample": nothing(
        lambda x, grid: F.grid_sample(x, grid, align_corners=False),
        (0, 3, 2, 2),
        (0, 3, 4, 4),
        (0, 2, 2, 2),
    ),
    "pixel_shuffle": nothing(lambda x: F.pixel_shuffle(x, 2), (0, 1, 4, 4), (0, 4, 2, 2)),
    "pixel_unshuffle": nothing(lambda x: F.pixel_unshuffle(x, 2), (0, 4, 2, 2), (0, 1, 4, 4)),
    "channel_shuffle": nothing(lambda x: F.channel_shuffle(x, 2), (0, 4, 2, 2), (0, 4, 2, 2)),
    "pad": nothing(lambda x: F.pad(x, (1, 1)), (0, 5), (0, 3)),
    "bilinear": nothing(F.bilinear, (0, 4), (0, 3), (0, 2), (4, 3, 2)),
}
# Recurrent layers; test_recurrent.py tests their empty batches.
_SEQUENCES = {"gru", "lstm", "rnn_relu", "rnn_tanh"}
# Ops that users only reach through the functions above, and these functions reject invalid sizes.
# Also affine_grid, which has no empty result in PyTorch.
INNER = {name for name in IMAGES if name in OPS and name not in EMPTY} | {"affine_grid"}
WITHOUT_EMPTY = INNER | _SEQUENCES
# Ops that raise errors of other classes, as in PyTorch. Users reach gather_add by sparse tensors.
REFUSED_OTHERWISE = {"embedding_bag", "gather_add", "interpolate", "multi_head_attention_forward"}


def _refusing(one: Case) -> Callable[[fd.Tensor], Any]:
    others = as_tensors(one.arrays("without axes"), fd.float64)[1:]
    return lambda x: one.ours(x, *others)


REFUSED_SCALAR: dict[str, Callable[[fd.Tensor], Any]] = {
    name: _refusing(cases[0])
    for table in (*_TABLES, recurrent_cases.CASES, attention_cases.CASES)
    for name, cases in table.items()
    if name not in INNER | REFUSED_OTHERWISE
}
# Infinity times the zero of a padding or weight is NaN where the op multiplies, but the formula
# skips such terms. If max_unpool1d writes an element twice, either value may remain.
NUMPY_KNOWS_NO_SUCH = {
    f"{name}-{i}"
    for table in (*_TABLES, {"bilinear": range(9), "embedding_bag": range(9)})
    for name, cases in table.items()
    for i in range(len(cases))
    if "conv" in name
    or name in {"max_unpool1d", "correlate", "interpolate", "grid_sample", "bilinear"}
}
