"""all_gather_into_tensor and reduce_scatter_tensor for several tensors in one message."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fastdist.core.errors import CollectiveArgumentError

from ...core.device import CPU
from ...tensor.tensor import Tensor, from_array
from .arrays import copy_back, flat
from .carriers import QueueingCarrier
from .reductions import reduction_of
from .transport import Call
from .work import Work


def start_together(
    group: Any, name: str, given: Sequence[Tensor], outs: Sequence[Tensor], options: Any
) -> Work:
    """Run all_gather_into_tensor or reduce_scatter_tensor on several tensors, with one Work.

    Tensors of one dtype share one message. If dtypes differ, each tensor has a separate message.

    Raises  CollectiveArgumentError if there are no tensors, or inputs and outputs differ in number
    """
    if not given or len(given) != len(outs):
        raise CollectiveArgumentError(
            f"{name}: requires non-empty tensor lists of one length, got {len(given)} inputs and "
            f"{len(outs)} outputs"
        )
    if len({one._layout.dtype for one in (*given, *outs)}) > 1:
        is_gather = name == "all_gather_into_tensor"
        method = group._allgather_base if is_gather else group._reduce_scatter_base
        works = [method(out, one, options) for out, one in zip(outs, given)]
        return AllOf(works, list(outs))
    if isinstance(group._transport(given[0]), QueueingCarrier):
        return _start_on_gpu(group, name, list(given), list(outs), options)
    return _exchange(group, name, list(given), list(outs), options)


def _exchange(group: Any, name: str, given: list[Tensor], outs: list[Tensor], options: Any) -> Work:
    """Run all_gather_into_tensor or reduce_scatter_tensor on the concatenated tensors."""
    size = group.size()
    is_gather = name == "all_gather_into_tensor"
    rows = given if is_gather else outs
    widths = [one._layout.numel for one in rows]
    dtype = rows[0]._layout.dtype.numpy
    joined = from_array(np.concatenate(
        [flat(one) if is_gather else flat(one).reshape(size, -1) for one in given], axis=-1
    ), CPU)  # fmt: skip
    room = from_array(np.empty((size, sum(widths)) if is_gather else sum(widths), dtype), CPU)
    method = group._allgather_base if is_gather else group._reduce_scatter_base
    work: Work = method(room, joined, options)

    def place() -> None:
        begin = 0
        for out, width in zip(outs, widths):
            copy_back(np.ravel(room._array[..., begin : begin + width]), out)
            begin += width

    return _Placing(work, place, outs)


def _start_on_gpu(
    group: Any, name: str, given: list[Tensor], outs: list[Tensor], options: Any
) -> Work:
    """Run the collectives on a GPU without copies of the tensors, in one launch."""
    dtype = given[0]._layout.dtype
    is_gather = name == "all_gather_into_tensor"
    how = None if is_gather else reduction_of(options.reduceOp, dtype.numpy, name)
    size = group.size()

    def act(transport: Any, call: Call) -> None:
        memory = transport.memory
        targets = [memory.target(out, reads=False) for out in outs]
        arrays = [memory.flat(one) for one in given]
        if how is not None and how.factor is not None:
            arrays = [memory.multiply(array, how.factor) for array in arrays]
        with transport.grouped():
            for target, array in zip(targets, arrays):
                if how is None:
                    transport.all_gather(call, target._array.reshape((size, array.size)), array)
                    continue
                rows = how.view(array)
                rows = rows.reshape((size, rows.size // size))
                transport.reduce_scatter(call, how.view(target._array), rows, memory.op_of(how))
        for target in targets:
            target.done()

    shapes = [one._layout.shape for one in given]
    agreed = f"{dtype.name} of shapes {shapes}{'' if how is None else f', {how.name}'}"
    work: Work = group._run(f"{name}_coalesced", agreed, act, outs, options)
    return work


class AllOf(Work):
    """A Work that ends when several Works have ended, with the first error among them."""

    def __init__(self, works: Sequence[Work], result: Any) -> None:
        super().__init__(result)
        left = [len(works)]
        errors: list[BaseException] = []
        lock = threading.Lock()

        def finish(work: Work) -> None:
            error = work.exception()
            with lock:
                left[0] -= 1
                if error is not None:
                    errors.append(error)
                is_last = not left[0]
            if is_last:
                self._finish(errors[0] if errors else None)

        if not works:
            self._finish()
        for work in works:
            work._when_finished(functools.partial(finish, work))


class _Placing(Work):
    """A Work that waits for another Work, and then copies its results to the output tensors."""

    def __init__(self, work: Work, place: Callable[[], None], result: Any) -> None:
        super().__init__(result)

        def finish() -> None:
            error = work.exception()
            if error is None:
                place()
            self._finish(error)

        work._when_finished(finish)
