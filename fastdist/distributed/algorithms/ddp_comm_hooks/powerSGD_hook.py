"""PowerSGD: averages gradients as products of two thin matrices."""

# ruff: noqa: N999

from __future__ import annotations

from typing import Any

import numpy as np

from ....concurrency.future import Future
from ....core.device import CPU
from ....core.missing import refusing, show_public
from ....graph.modes import no_grad
from ....ops.linalg.qr import qr
from ....ops.shape.joining import cat
from ....tensor.tensor import Tensor, from_array
from ...data_parallel.grad_bucket import GradBucket
from ...process_group.options import AllreduceOptions
from ...process_group.world import group_of
from .default_hooks import allreduce_hook

__all__ = ["PowerSGDState", "batched_powerSGD_hook", "powerSGD_hook"]

batched_powerSGD_hook = refusing(
    __name__, "batched_powerSGD_hook", "use powerSGD_hook, which compresses each matrix separately"
)


class PowerSGDState:
    """The matrices and errors that powerSGD_hook keeps from one iteration to the next.

    Raises  ValueError if compression would start before DistributedDataParallel has its final
            buckets

    Args:
        process_group: The group; the default group if None.
        matrix_approximation_rank: The width of the thin matrices.
        start_powerSGD_iter: The iteration from which gradients are compressed.
        min_compression_rate: A gradient is compressed if it shrinks by more than this factor.
        use_error_feedback: Whether the compression error is added to the next iteration's gradient.
        warm_start: Whether an iteration starts with the thin matrices of the previous iteration.
        orthogonalization_epsilon: Added to the norms of columns; 0 selects a QR decomposition.
        random_seed: The seed of the first thin matrices. All processes must pass the same seed.
        compression_stats_logging_frequency: Ignored.
        batch_tensors_with_same_shape: Ignored; it does not affect results.
    """

    def __init__(
        self,
        process_group: Any,
        matrix_approximation_rank: int = 1,
        start_powerSGD_iter: int = 1_000,
        min_compression_rate: float = 2,
        use_error_feedback: bool = True,
        warm_start: bool = True,
        orthogonalization_epsilon: float = 0,
        random_seed: int = 0,
        compression_stats_logging_frequency: int = 10_000,
        batch_tensors_with_same_shape: bool = False,
    ) -> None:
        if (use_error_feedback or warm_start) and start_powerSGD_iter <= 1:
            raise ValueError(
                "Expect `start_powerSGD_iter` > 1 if `use_error_feedback` or `warm_start` is "
                "enabled, because PowerSGD can only be applied after the first two iterations in "
                "DDP."
            )
        self.process_group = process_group
        self.matrix_approximation_rank = matrix_approximation_rank
        self.start_powerSGD_iter = start_powerSGD_iter
        self.min_compression_rate = min_compression_rate
        self.use_error_feedback, self.warm_start = use_error_feedback, warm_start
        self.orthogonalization_epsilon = orthogonalization_epsilon
        self.rng = np.random.default_rng(random_seed)
        # Two maps with a bucket's index as key: the bucket's compression error and thin matrices.
        self.error_dict: dict[int, Tensor] = {}
        self.q_memory_dict: dict[int, list[Tensor]] = {}
        self.iter = 0
        self.total_numel_before_compression = 0
        self.total_numel_after_compression = 0

    def compression_stats(self) -> tuple[float, int, int]:
        """Return the compression rate, and the numbers of elements before and after compression."""
        before, after = self.total_numel_before_compression, self.total_numel_after_compression
        return (before / after if after else 0.0), before, after

    def maybe_increase_iter(self, bucket: GradBucket) -> None:
        """Count an iteration at its last bucket."""
        self.iter += bucket.is_last()


def powerSGD_hook(state: PowerSGDState, bucket: GradBucket) -> Future[Tensor]:
    """Return the mean of a bucket; matrices are sent as the factors of a low-rank product.

    Args:
        state: The matrices and errors of the last iteration.
        bucket: The gradients.

    Source: Vogels et al. 2019, "PowerSGD: Practical Low-Rank Gradient Compression"
    """
    if state.iter < state.start_powerSGD_iter:
        state.maybe_increase_iter(bucket)
        return allreduce_hook(state.process_group, bucket)
    with no_grad():
        buffer: Any = bucket.buffer()
        if state.use_error_feedback:
            error = state.error_dict.get(bucket.index())
            if error is not None:
                buffer.add_(error)
            before = buffer.clone()
        state.total_numel_before_compression += buffer.numel()
        matrices, others = _divide(state, bucket.gradients())
        _mean_of(state, others)
        _compress(state, bucket.index(), matrices)
        if state.use_error_feedback:
            state.error_dict[bucket.index()] = before - buffer
            _keep_only(state, bucket)
    state.maybe_increase_iter(bucket)
    future: Future[Tensor] = Future()
    future.set_result(buffer)
    return future


def _keep_only(state: PowerSGDState, bucket: GradBucket) -> None:
    """Set the error of uncompressed gradients to 0, because their mean is exact."""
    error: Any = state.error_dict[bucket.index()]
    begin = 0
    for gradient in bucket.gradients():
        end = begin + gradient.numel()
        if not _is_compressed(state, gradient):
            error[begin:end].zero_()
        begin = end


def _is_compressed(state: PowerSGDState, gradient: Tensor) -> bool:
    if gradient.ndim < 2 or not gradient.dtype.is_floating_point:
        return False
    rows = gradient.shape[0]
    columns = gradient.numel() // max(rows, 1)
    rank = min(rows, columns, state.matrix_approximation_rank)
    return (rows + columns) * rank * state.min_compression_rate < rows * columns


def _divide(state: PowerSGDState, gradients: list[Tensor]) -> tuple[list[Any], list[Any]]:
    matrices = [one for one in gradients if _is_compressed(state, one)]
    others = [one for one in gradients if not _is_compressed(state, one)]
    return matrices, others


def _mean_of(state: PowerSGDState, tensors: list[Any]) -> None:
    """Replace tensors by their means over the group, in one message."""
    if not tensors:
        return
    group = group_of(state.process_group)
    group.allreduce_coalesced(tensors, AllreduceOptions(asyncOp=False))
    for one in tensors:
        one.div_(group.size())
    state.total_numel_after_compression += sum(one.numel() for one in tensors)


def _compress(state: PowerSGDState, index: int, gradients: list[Any]) -> None:
    """Replace matrices by products of thin matrices that are averaged over the group."""
    if not gradients:
        return
    matrices = [one.reshape(one.shape[0], -1) for one in gradients]
    thin = state.q_memory_dict.get(index) if state.warm_start else None
    if thin is None:
        thin = [_random(state, matrix) for matrix in matrices]
    lefts = [matrix @ _orthogonal(state, q) for matrix, q in zip(matrices, thin)]
    _mean_of(state, lefts)
    lefts = [_orthogonal(state, left) for left in lefts]
    rights = [matrix.t() @ left for matrix, left in zip(matrices, lefts)]
    _mean_of(state, rights)
    if state.warm_start:
        state.q_memory_dict[index] = rights
    for gradient, left, right in zip(gradients, lefts, rights):
        gradient.copy_((left @ right.t()).reshape(gradient.shape))


def _random(state: PowerSGDState, matrix: Any) -> Any:
    rank = min(*matrix.shape, state.matrix_approximation_rank)
    numbers = state.rng.standard_normal((matrix.shape[1], rank))
    return from_array(numbers, CPU).to(dtype=matrix.dtype, device=matrix.device)


def _orthogonal(state: PowerSGDState, matrix: Any) -> Any:
    """Return orthonormal columns with the same span as the columns of a thin matrix."""
    if not state.orthogonalization_epsilon:
        return qr(matrix.float() if matrix.itemsize < 4 else matrix)[0].to(matrix.dtype)
    columns: list[Any] = []
    for index in range(matrix.shape[1]):
        column = matrix[:, index : index + 1]
        for other in columns:
            column = column - other * (other * column).sum()
        columns.append(column / (column.norm() + state.orthogonalization_epsilon))
    return cat(columns, 1)


show_public(__name__)
