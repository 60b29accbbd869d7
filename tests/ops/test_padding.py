"""nn.functional.pad: what is taken away, and what cannot be padded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import fastdist as fd
from fastdist.nn.functional import pad


def test_negative_padding_takes_away() -> None:
    x = fd.arange(4)
    assert pad(x, (-1, -2)).tolist() == [1]
    assert pad(x, (2, -1), value=7).tolist() == [7, 7, 0, 1, 2]
    x = x.reshape(1, 4)
    assert pad(x, (1, -1), "reflect").tolist() == [[1, 0, 1, 2]]


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda: pad(fd.ones(2), (1,)), RuntimeError, "Padding length must be divisible by 2"),
        (lambda: pad(fd.ones(3), (1, 1, 1, 1)), RuntimeError, "less than or equal to two times"),
        (lambda: pad(fd.ones(1, 3), (-2, -2)), RuntimeError, "negative output size"),
        (lambda: pad(fd.ones(3), (-4, 2)), RuntimeError, "negative output size"),
        (lambda: pad(fd.ones(1, 3), (1, 1), "foo"), NotImplementedError, "padding mode foo"),
        (lambda: pad(fd.ones(3), (1, 1), "reflect"), NotImplementedError, "not supported for 1D"),
        (lambda: pad(fd.ones(1, 3), (3, 3), "reflect"), RuntimeError, "should be less than"),
        (lambda: pad(fd.ones(1, 3), (4, 3), "circular"), RuntimeError, "more than once"),
        (lambda: pad(fd.ones(1, 3), (1, 1), "circular", 2), ValueError, "take in value argument"),
        (lambda: pad(fd.ones(3), "a"), TypeError, "argument 'pad'"),
    ],
)
def test_padding_that_does_not_fit_is_refused(
    call: Callable[[], Any], kind: type[Exception], text: str
) -> None:
    with pytest.raises(kind, match=text):
        call()
