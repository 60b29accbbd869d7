"""The checks of a communication hook."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from fastdist.core.errors import GraphError

from ...concurrency.future import Future
from .grad_bucket import GradBucket


def require_hook(hook: Any) -> None:
    """Raise unless a hook is callable and its annotations fit a call of hook(state, bucket).

    Raises  TypeError if the hook is not callable; ValueError if an annotation is not the type of
            the bucket or of the result
    """
    if not callable(hook):
        raise TypeError("Communication hook must be callable.")
    signature = inspect.signature(hook)
    bucket = signature.parameters.get("bucket")
    if bucket is not None and bucket.annotation not in (
        inspect.Parameter.empty,
        Any,
        "Any",
        GradBucket,
        "dist.GradBucket",
        "GradBucket",
        "torch.distributed.GradBucket",
    ):
        raise ValueError("Communication hook: bucket annotation should be dist.GradBucket.")
    returned = signature.return_annotation
    known = inspect.Signature.empty, Any, "Any", Future
    if returned not in known and "Future" not in str(returned):
        raise ValueError(
            "Communication hook: return annotation should be torch.futures.Future[torch.Tensor]."
        )


class HookResultError(GraphError, TypeError):
    """A communication hook returned something other than a Future."""


def call_hook(hook: Callable[[Any, GradBucket], Any], state: Any, bucket: GradBucket) -> Any:
    """Call a hook, and return its Future.

    Raises  HookResultError if the hook returned something other than a Future
    """
    future = hook(state, bucket)
    if not hasattr(future, "wait"):
        raise HookResultError(
            "DDP communication hook's callback must return a torch.futures.Future object, but got "
            f"{type(future).__name__}"
        )
    return future
