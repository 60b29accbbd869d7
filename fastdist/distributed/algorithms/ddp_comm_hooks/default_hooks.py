"""Communication hooks that reduce a bucket in its own dtype, or in a dtype of half the size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....concurrency.future import Future
from ....core.dtypes import DType, bfloat16, float16
from ....core.missing import show_public
from ....graph.modes import no_grad
from ....tensor.tensor import Tensor
from ...data_parallel.grad_bucket import GradBucket
from ...process_group.options import AllreduceOptions
from ...process_group.world import group_of

__all__ = [
    "allreduce_hook",
    "bf16_compress_hook",
    "bf16_compress_wrapper",
    "fp16_compress_hook",
    "fp16_compress_wrapper",
]

Hook = Callable[[Any, GradBucket], Any]


def _mean(process_group: Any, tensor: Tensor) -> Future[Tensor]:
    """Start to average a tensor over a group; each member divides its tensor before the sum."""
    group = group_of(process_group)
    with no_grad():
        divided: Any = tensor
        divided.div_(group.size())
    work = group.allreduce([tensor], AllreduceOptions())
    return work.get_future().then(lambda future: future.value()[0])


def allreduce_hook(process_group: Any, bucket: GradBucket) -> Future[Tensor]:
    """Return the mean of a bucket over the group; the same result as without a hook."""
    return _mean(process_group, bucket.buffer())


def _compressed(process_group: Any, bucket: GradBucket, dtype: DType) -> Future[Tensor]:
    buffer: Any = bucket.buffer()
    with no_grad():
        small = buffer.to(dtype)

    def widen(future: Future[Tensor]) -> Tensor:
        with no_grad():
            buffer.copy_(future.value())
        return buffer  # type: ignore[no-any-return]

    if small is buffer:
        return _mean(process_group, buffer)
    return _mean(process_group, small).then(widen)


def fp16_compress_hook(process_group: Any, bucket: GradBucket) -> Future[Tensor]:
    """Return the mean of a bucket, which is sent in float16: half the bytes of float32."""
    return _compressed(process_group, bucket, float16)


def bf16_compress_hook(process_group: Any, bucket: GradBucket) -> Future[Tensor]:
    """Return the mean of a bucket, which is sent in bfloat16: half the bytes of float32."""
    return _compressed(process_group, bucket, bfloat16)


def _wrapper(hook: Hook, dtype: DType) -> Hook:
    def run(state: Any, bucket: GradBucket) -> Any:
        buffer: Any = bucket.buffer()
        with no_grad():
            bucket.set_buffer(buffer.to(dtype))

        def widen(future: Any) -> Tensor:
            found = future.value()
            found = found[0] if isinstance(found, list | tuple) else found
            with no_grad():
                buffer.copy_(found)
            return buffer  # type: ignore[no-any-return]

        return hook(state, bucket).then(widen)

    return run


def fp16_compress_wrapper(hook: Hook) -> Hook:
    """Return a hook that converts each bucket to float16 and passes it to `hook`."""
    return _wrapper(hook, float16)


def bf16_compress_wrapper(hook: Hook) -> Hook:
    """Return a hook that converts each bucket to bfloat16 and passes it to `hook`."""
    return _wrapper(hook, bfloat16)


show_public(__name__)
