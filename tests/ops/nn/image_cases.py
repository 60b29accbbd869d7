"""Sample calls of interpolation, sampling grids and pixel shuffles."""

from __future__ import annotations

import itertools

import numpy as np

import fastdist as fd
from tests.ops.cases import F, case
from tests.ops.nn.pooling_cases import over, parts


def resized(x: np.ndarray, lengths: tuple[int, ...], *, align: bool) -> np.ndarray:
    """Return x interpolated linearly along its last axes."""
    for axis, m in zip(range(x.ndim - len(lengths), x.ndim), lengths, strict=True):
        n = x.shape[axis]
        at = np.linspace(0, n - 1, m) if align else (np.arange(m) + 0.5) * n / m - 0.5
        x = np.apply_along_axis(lambda row, at=at, n=n: np.interp(at, np.arange(n), row), axis, x)
    return x


def sampled(x: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """Return x sampled at `grid`: bilinear, with zeros outside and align_corners=True."""
    batch, channels, *space = x.shape
    padded = np.pad(x, ((0, 0), (0, 0), *[(9, 9)] * len(space)))
    out = np.zeros((batch, channels, *grid.shape[1:-1]))
    for b, *site in np.ndindex(grid.shape[:-1]):
        at = [(grid[(b, *site)][-1 - i] + 1) / 2 * (n - 1) for i, n in enumerate(space)]
        low = [int(np.floor(a)) for a in at]
        for corner in itertools.product((0, 1), repeat=len(space)):
            weight = np.prod([1 - abs(a - f - c) for a, f, c in zip(at, low, corner)])
            index = [f + c + 9 for f, c in zip(low, corner)]
            out[(b, slice(None), *site)] += weight * padded[(b, slice(None), *index)]
    return out


def affine(theta: np.ndarray, *lengths: int) -> np.ndarray:
    axes = [np.linspace(-1, 1, n) for n in lengths]
    grids = np.meshgrid(*axes, indexing="ij")
    base = np.stack([*grids[::-1], np.ones(lengths)], -1)
    return np.einsum("...j,bij->b...i", base, theta)


def shuffled(x: np.ndarray, r: int) -> np.ndarray:
    *lead, c, h, w = x.shape
    out = np.empty((*lead, c // r**2, h * r, w * r))
    for i, j in np.ndindex(r, r):
        out[..., i::r, j::r] = x[..., i * r + j :: r**2, :, :]
    return out


CASES = {
    "interpolate": [
        case(
            lambda x: F.interpolate(x, (7, 3), mode="bilinear"),
            lambda x: resized(x, (7, 3), align=False),
            (2, 2, 4, 5),
        ),
        case(
            lambda x: F.interpolate(x, 6, mode="linear", align_corners=True),
            lambda x: resized(x, (6,), align=True),
            (1, 2, 4),
        ),
        case(
            lambda x: F.interpolate(x, (4, 5, 2), mode="trilinear", align_corners=True),
            lambda x: resized(x, (4, 5, 2), align=True),
            (1, 2, 3, 3, 3),
        ),
        case(
            lambda x: F.interpolate(x, scale_factor=2),
            lambda x: x.repeat(2, 2).repeat(2, 3),
            (1, 2, 3, 4),
        ),
        case(
            lambda x: F.interpolate(x, 2, mode="nearest-exact"), lambda x: x[..., [1, 4]], (1, 2, 6)
        ),
        case(
            lambda x: F.interpolate(x, (3, 2), mode="area"),
            lambda x: over(x, [parts(7, 3), parts(4, 2)], np.mean),
            (1, 2, 7, 4),
        ),
    ],
    "grid_sample": [
        case(
            lambda x, grid: F.grid_sample(x, grid, align_corners=True),
            sampled,
            (2, 2, 3, 4),
            (2, 3, 2, 2),
            low=-1.4,
            high=1.4,
        ),
        case(
            lambda x, grid: F.grid_sample(x, grid, align_corners=True),
            sampled,
            (1, 2, 3, 3, 2),
            (1, 2, 1, 2, 3),
            low=-1.4,
            high=1.4,
        ),
    ],
    "affine_grid": [
        case(
            lambda theta: F.affine_grid(theta, (2, 1, 3, 4), align_corners=True),
            lambda theta: affine(theta, 3, 4),
            (2, 2, 3),
        ),
        case(
            lambda theta: F.affine_grid(theta, (1, 1, 2, 3, 4), align_corners=True),
            lambda theta: affine(theta, 2, 3, 4),
            (1, 3, 4),
        ),
    ],
    "pixel_shuffle": [
        case(lambda x: fd.pixel_shuffle(x, 2), lambda x: shuffled(x, 2), (2, 8, 3, 2))
    ],
    "pixel_unshuffle": [
        case(
            lambda x: F.pixel_unshuffle(x, 2),
            lambda x: np.stack([x[:, i::2, j::2] for i, j in np.ndindex(2, 2)], 1).reshape(
                -1, 2, 3
            ),
            (2, 4, 6),
        )
    ],
    "channel_shuffle": [
        case(lambda x: F.channel_shuffle(x, 3), lambda x: x[:, [0, 2, 4, 1, 3, 5]], (2, 6, 2))
    ],
}
COVERED_BY = {"native_channel_shuffle": "channel_shuffle"}
# Functions that emit a warning, so another test calls them.
ELSEWHERE = frozenset({"upsample", "upsample_bilinear", "upsample_nearest"})
