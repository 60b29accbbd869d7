"""Helpers for tests of the short paths of ops."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import pytest

import fastdist as fd


@contextmanager
def general_calls(*kinds: Any) -> Iterator[list[str]]:
    """Yield a list that receives the name of each op of `kinds` that takes the general path."""
    went = list[str]()

    def spy_on(kind: Any, general: Any) -> Any:
        def spy(self: Any, *args: Any, **kwargs: Any) -> Any:
            if self.kind == kind.kind:
                went.append(self.name)
            return general(self, *args, **kwargs)

        return spy

    with ExitStack() as stack:
        for kind in kinds:
            patch = stack.enter_context(pytest.MonkeyPatch.context())
            patch.setattr(kind, "general", spy_on(kind, kind.general))
        yield went


def gradient_of(call: Callable[[Any], Any], x: Any, gradient: Any = None) -> np.ndarray:
    """Return x's gradient through `call`; the result's gradient is 0.5 by default."""
    x.grad = None
    out = call(x)
    out.backward(fd.ones_like(out.detach()) * 0.5 if gradient is None else gradient(out))
    found: np.ndarray = x.grad.numpy().copy()
    return found
