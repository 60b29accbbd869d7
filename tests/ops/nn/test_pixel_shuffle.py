"""Pixel and channel shuffles: rejected arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import fastdist as fd
from fastdist.nn import functional as F

X = fd.arange(24.0).reshape(1, 2, 3, 4)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: F.pixel_shuffle(X, 3), "'channel' dimension to be divisible by the square"),
        (lambda: F.pixel_unshuffle(X, 2), r"height to be divisible by .*size\(-2\)=3"),
        (lambda: F.channel_shuffle(X, 3), "Got 2 channels and 3 groups."),
    ],
)
def test_what_does_not_divide_is_refused(call: Callable[[], Any], text: str) -> None:
    with pytest.raises(RuntimeError, match=text):
        call()
