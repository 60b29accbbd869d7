"""CUDA graphs: work of a GPU that is captured once and launched again as a whole.

A replay runs the captured work again on the same memory. Before a replay, the program copies new
inputs into the tensors that the captured code read. Afterwards, it reads results from the tensors
that the captured code made. The memory of the captured work comes from a separate pool, which lives
as long as the graph. So nothing else uses that memory between two replays.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Final

import numpy as np

from ..autograd.function import Function
from ..core.device import Device
from ..core.errors import DeviceError
from ..core.folded_frames import fold_public
from ..devices.backend import backend_of, is_loaded
from ..engine.backward import grad
from ..language.scalar import parse
from ..ops.create.creation import ones_like
from ..random_numbers.generator import CapturedDraws, Generator, default_generator_of
from ..tensor.tensor import Tensor
from .gpus import current_device

_WARM_UPS = 3
_NUMBER: Final = parse("x", ("x",))


class CUDAGraph:
    """Work of a GPU, captured once from a stream and launched any number of times.

    Thread  one capture at a time in a process; any thread may replay
    Note    capture on a stream other than the default stream, as `cuda.graph` does, after a few
            warm-up runs, which compile the kernels. Each replay draws new random numbers from the
            GPU's default generator and from registered generators
    """

    def __init__(self, keep_graph: bool = False) -> None:
        self._backend: Any = backend_of("cuda")
        self._native: Any = None
        self._pool: Any = None
        self._stream: Any = None
        self._generators: list[Generator] = []
        # Each generator, with the count of random numbers that the capture draws from it.
        self._draws: list[tuple[Generator, CapturedDraws]] = []

    def register_generator_state(self, generator: Generator) -> None:
        """Let the captured work draw from another generator too; each replay advances it.

        Raises  RuntimeError for a generator of another kind of device
        """
        if generator.device.type != "cuda":
            raise DeviceError(
                "register_generator_state: a graph draws on a GPU, and this generator is of "
                f"{generator.device}"
            )
        self._generators.append(generator)

    def capture_begin(self, pool: Any = None, capture_error_mode: str = "global") -> None:
        """Start to capture the work that is queued on the current stream, without running it.

        `pool` is the result of another graph's `pool()` or of `graph_pool_handle()`. Graphs that
        share a pool share its memory, and must be replayed in the order of their captures.

        Raises  RuntimeError on the default stream, while another graph is captured, or if this
                graph has captured already
        """
        if self._native is not None or self._stream is not None:
            raise RuntimeError("this CUDAGraph has captured already; reset() it, or make another")
        index = current_device()
        stream = self._backend.current_stream(index)
        if stream == self._backend.default_stream(index):
            raise RuntimeError(
                "CUDA graphs must be captured on a non-default stream: use `with cuda.graph(g):`, "
                "or `with cuda.stream(cuda.Stream()):` around the capture"
            )
        self._pool = pool if pool is not None else self._backend.new_pool()
        generators = dict.fromkeys([default_generator_of(Device("cuda", index)), *self._generators])
        draws = [
            (one, CapturedDraws(self._backend.empty((2,), np.dtype(np.int64), index)))
            for one in generators
        ]
        self._backend.begin_capture(stream, self._pool)
        self._stream, self._draws = stream, draws
        for generator, part in draws:
            generator.captured = part

    def capture_end(self) -> None:
        """End the capture.

        Raises  RuntimeError if no capture began; KernelError for work that cannot be captured
        """
        if self._stream is None:
            raise RuntimeError("capture_end: no capture has begun; capture_begin comes first")
        stream, self._stream = self._stream, None
        for generator, _ in self._draws:
            generator.captured = None
        self._draws = [pair for pair in self._draws if pair[1].blocks]
        self._native = self._backend.end_capture(stream)

    def replay(self) -> None:
        """Queue the captured work on the current stream.

        Raises  RuntimeError before a capture
        """
        if self._native is None:
            raise RuntimeError("replay: this graph has captured nothing; capture first")
        for generator, part in self._draws:
            # See Note [Draws in a graph]. The number is passed by value, so the GPU does not read
            # host memory later, when it runs the kernel.
            for place, number in enumerate(generator.reserve(part.blocks)):
                signed = np.array(number, np.uint64).astype(np.int64)
                self._backend.pointwise(_NUMBER, [signed], part.place[place : place + 1])
        self._backend.launch_graph(self._native, current_device())

    def reset(self) -> None:
        """Drop the captured work, and release its memory."""
        self._native = self._pool = None
        self._draws = []

    def pool(self) -> Any:
        """Return this graph's memory pool, which another capture can share."""
        return self._pool


def graph_pool_handle() -> Any:
    """Return a new memory pool that graphs can share. Raises DeviceError without a GPU."""
    backend: Any = backend_of("cuda")
    return backend.new_pool()


def is_current_stream_capturing() -> bool:
    """Return whether this thread's stream is being captured; False without a GPU."""
    if not is_loaded("cuda"):  # no stream has been used
        return False
    backend: Any = backend_of("cuda")
    return bool(backend.current_stream(current_device()).is_capturing())


class graph:
    """`with cuda.graph(g):` captures the work of the `with` block into g, on a separate stream."""

    def __init__(
        self,
        cuda_graph: CUDAGraph,
        pool: Any = None,
        stream: Any = None,
        capture_error_mode: str = "global",
    ) -> None:
        self.cuda_graph, self.pool = cuda_graph, pool
        backend: Any = backend_of("cuda")
        self.capture_stream = backend.stream(current_device()) if stream is None else stream

    def __enter__(self) -> None:
        backend: Any = backend_of("cuda")
        backend.synchronize(current_device())
        # Free unreachable tensors now: during the capture, their memory would go to the wrong pool.
        gc.collect()
        self.capture_stream.__enter__()
        try:
            self.cuda_graph.capture_begin(self.pool)
        except BaseException:
            self.capture_stream.__exit__(None, None, None)
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self.cuda_graph.capture_end()
        except DeviceError:
            if error is None:  # otherwise the block's error, which ended the capture, is raised
                raise
        finally:
            self.capture_stream.__exit__(kind, error, trace)


def make_graphed_callables(
    callables: Any,
    sample_args: Any,
    num_warmup_iters: int = _WARM_UPS,
    allow_unused_input: bool = False,
    pool: Any = None,
) -> Any:
    """Return a function that replays CUDA graphs of a callable's forward and backward.

    For a module, replace `forward` by that function, and return the module. `sample_args` is a
    tuple of Tensors with the shapes of all later calls. For a tuple of callables, `sample_args` has
    one such tuple per callable, and the result is a tuple of functions. Each call overwrites the
    results and gradients of the previous call. `pool` is the memory pool, as for `capture_begin`.

    Raises  ValueError for a call whose tensors have other shapes or dtypes; RuntimeError for an
            input or parameter that no result depends on, unless allow_unused_input
    """
    if isinstance(callables, tuple):
        if len(callables) != len(sample_args):
            raise ValueError(
                f"make_graphed_callables: {len(callables)} callables and {len(sample_args)} tuples "
                "of sample arguments; give one tuple for each"
            )
        pairs = zip(callables, sample_args, strict=True)
        how = num_warmup_iters, allow_unused_input, pool
        return tuple([make_graphed_callables(f, one, *how) for f, one in pairs])
    run = callables.forward if hasattr(callables, "parameters") else callables
    how = num_warmup_iters, allow_unused_input, pool
    graphed = _graphed(callables, run, tuple(sample_args), *how)
    if run is callables:
        return graphed
    callables.forward = graphed
    return callables


def _graphed(
    owner: Any,
    run: Callable[..., Any],
    samples: tuple[Tensor, ...],
    warm_ups: int,
    may_be_unused: bool,
    pool: Any,
) -> Callable[..., Any]:
    parameters = tuple(owner.parameters()) if hasattr(owner, "parameters") else ()
    inputs = tuple([one.detach().clone().requires_grad_(one.requires_grad) for one in samples])
    leaves = tuple([one for one in (*inputs, *parameters) if one.requires_grad])

    def forward() -> tuple[Any, tuple[Tensor, ...]]:
        made = run(*inputs)
        return made, (made,) if isinstance(made, Tensor) else tuple(made)

    def warm_up() -> None:
        _, outputs = forward()
        if leaves:
            _gradients(outputs, leaves, list(map(ones_like, outputs)), may_be_unused)

    side = _stream_after(warm_up, max(warm_ups, 1))
    forwards, backwards = CUDAGraph(), CUDAGraph()
    # One stream for both graphs, because a Node's backward runs on the stream of its forward.
    with graph(forwards, pool=pool, stream=side):
        made, outputs = forward()
    is_one = isinstance(made, Tensor)
    slopes = list(map(ones_like, outputs))
    gradients: list[Tensor | None] = []
    if leaves:
        with graph(backwards, pool=forwards.pool(), stream=side):
            gradients = _gradients(outputs, leaves, slopes, may_be_unused)
    found = iter(gradients)
    by_leaf = [next(found) if one.requires_grad else None for one in (*inputs, *parameters)]
    static = tuple([one.detach() for one in outputs])

    class Graphed(Function):
        @staticmethod
        def forward(ctx: Any, *given: Tensor) -> Any:
            for own, new in zip(inputs, given[: len(inputs)], strict=True):
                if own.data_ptr() != new.data_ptr():
                    own.detach().copy_(new.detach())
            forwards.replay()
            return tuple([one.detach() for one in static])

        @staticmethod
        def backward(ctx: Any, *given: Tensor) -> Any:
            for own, new in zip(slopes, given, strict=True):
                own.copy_(new)
            backwards.replay()
            return tuple([None if one is None else one.detach() for one in by_leaf])

    def call(*given: Tensor) -> Any:
        _require_like(inputs, given)
        results = Graphed.apply(*given, *parameters)
        return results[0] if is_one else results

    return call


def _stream_after(warm_up: Callable[[], None], times: int) -> Any:
    """Run `warm_up` on a new stream; make the current stream wait; return the new stream."""
    backend: Any = backend_of("cuda")
    side, here = (one(current_device()) for one in (backend.stream, backend.current_stream))
    side.wait_stream(here)
    with side:
        for _ in range(times):
            warm_up()
    here.wait_stream(side)
    return side


def _gradients(
    outputs: Sequence[Tensor],
    leaves: Sequence[Tensor],
    slopes: Sequence[Tensor],
    may_be_unused: bool,
) -> list[Tensor | None]:
    kept = [pair for pair in zip(outputs, slopes, strict=True) if pair[0].requires_grad]
    ends, given = [one for one, _ in kept], [slope for _, slope in kept]
    return list(grad(ends, leaves, given, allow_unused=may_be_unused))


def _require_like(inputs: Sequence[Tensor], given: Sequence[Tensor]) -> None:
    def described(tensors: Sequence[Any]) -> list[str]:
        return [
            f"{one.dtype} {tuple(one.shape)}" if isinstance(one, Tensor) else type(one).__name__
            for one in tensors
        ]

    if described(inputs) != described(given):
        raise ValueError(
            "a graphed callable takes arguments like those of its capture, "
            f"{', '.join(described(inputs))}; got {', '.join(described(given))}: capture another "
            "one for these"
        )


fold_public(__name__)
