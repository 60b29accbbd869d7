"""A communication hook without a reduction, to measure the cost of communication."""

from __future__ import annotations

from typing import Any

from ....concurrency.future import Future
from ....core.missing import show_public
from ....tensor.tensor import Tensor
from ...data_parallel.grad_bucket import GradBucket

__all__ = ["noop_hook"]


def noop_hook(_: Any, bucket: GradBucket) -> Future[Tensor]:
    """Return the bucket unchanged: each process keeps its own gradients."""
    future: Future[Tensor] = Future()
    future.set_result(bucket.buffer())
    return future


show_public(__name__)
