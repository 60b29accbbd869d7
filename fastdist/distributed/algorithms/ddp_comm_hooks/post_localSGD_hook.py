"""A communication hook for post-local SGD: means over all members, and later over subgroups."""

from __future__ import annotations

import logging
from typing import Any

from ....concurrency.future import Future
from ....core.missing import show_public
from ....tensor.tensor import Tensor
from ...data_parallel.grad_bucket import GradBucket
from ...process_group.subgroups import new_subgroups
from .default_hooks import allreduce_hook

__all__ = ["PostLocalSGDState", "post_localSGD_hook"]

_logger = logging.getLogger(__name__)


class PostLocalSGDState:
    """The state of `post_localSGD_hook`. In later steps, a model averager synchronizes the members.

    Args:
        process_group: The group that reduces gradients at first; the default group if None.
        subgroup: The group that reduces gradients later; the members on one machine if None.
        start_localSGD_iter: The number of steps in which all members reduce gradients.
        post_local_gradient_allreduce: Whether gradients are reduced at all after these steps.
    """

    __slots__ = [
        "iter", "post_local_gradient_allreduce", "process_group", "start_localSGD_iter", "subgroup",
    ]  # fmt: skip

    def __init__(
        self,
        process_group: Any,
        subgroup: Any,
        start_localSGD_iter: int,
        post_local_gradient_allreduce: bool = True,
    ) -> None:
        _logger.info("Local SGD will be started after %s iterations", start_localSGD_iter)
        self.process_group, self.subgroup = process_group, subgroup
        self.start_localSGD_iter = start_localSGD_iter
        self.post_local_gradient_allreduce = post_local_gradient_allreduce
        # The number of steps, counted up to start_localSGD_iter.
        self.iter = 0

    def maybe_increase_iter(self, bucket: GradBucket) -> None:
        """Count a step at its last bucket."""
        if bucket.is_last():
            self.iter += 1
            if self.iter == self.start_localSGD_iter:
                _logger.info("Local SGD begins after %s iterations", self.iter)


def post_localSGD_hook(state: PostLocalSGDState, bucket: GradBucket) -> Future[Tensor]:
    """Return the mean of a bucket, at first over all members, later over the subgroup.

    Example:
        >>> state = PostLocalSGDState(None, None, start_localSGD_iter=100)
        >>> model.register_comm_hook(state, post_localSGD_hook)  # doctest: +SKIP
    """
    if state.iter < state.start_localSGD_iter:
        state.maybe_increase_iter(bucket)
        return allreduce_hook(state.process_group, bucket)
    if not state.post_local_gradient_allreduce:
        done: Future[Tensor] = Future()
        done.set_result(bucket.buffer())
        return done
    if state.subgroup is None:
        state.subgroup, _ = new_subgroups()
    return allreduce_hook(state.subgroup, bucket)


show_public(__name__)
