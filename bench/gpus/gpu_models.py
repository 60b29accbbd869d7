"""Attention and training steps on a GPU against torch's: eager, compiled by torch, and captured."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

from bench.gpus.on_gpu import Gpu
from bench.harness import Amount, Case
from bench.models import Build, gpt, mlp, resnet18, share_weights, training

EAGER, CAPTURED = 1.5, 1.0
ATTENTION = 1 / 0.7
WARM_UPS = 3


class Model(NamedTuple):
    """Two builders of a model: at full size for a GPU, and small for tests."""

    full: Build
    tiny: Build


MODELS = {
    "MLP 4,096, 1,024 rows": Model(mlp(4096, 1024), mlp(4, 3)),
    "GPT block, d 1,024, 8 texts of 1,024": Model(
        gpt(1024, heads=16, blocks=1, length=1024), gpt(8, heads=2, blocks=1, texts=2, length=4)
    ),
    "ResNet-18, 64 images of 128 x 128": Model(
        partial(resnet18, images=64, side=128), partial(resnet18, images=2, side=32, width=2)
    ),
}
SIZES = ((4, 16, 1024, 64), (4, 16, 4096, 64))  # texts, heads, length, width of a head


def attention(
    ours: Gpu, peer: Gpu | None, sizes: tuple[tuple[int, int, int, int], ...] = SIZES
) -> Iterator[Case]:
    """Yield attention of float32, full and causal, alone and with its backward pass."""
    for size in sizes:
        texts, heads, length, width = size
        for is_causal in (False, True):
            for backward in (False, True):
                times = (7 if backward else 2) * 2 * texts * heads * width * length**2
                words = ["attention", "x".join(map(str, size)), *["causal"] * is_causal]
                name = ", ".join([*words, *["with backward"] * backward])
                watches = [
                    gpu.stopwatch(_attend(gpu, size, is_causal=is_causal, backward=backward))
                    for gpu in (ours, peer)
                    if gpu is not None
                ]
                amount = Amount(times // (2 if is_causal else 1), "GFLOP/s")
                yield Case(name, watches[0], *watches[1:], target=ATTENTION, amount=amount)


def _attend(gpu: Gpu, size: tuple[int, ...], *, is_causal: bool, backward: bool) -> Any:
    attend = gpu.library.nn.functional.scaled_dot_product_attention
    parts = [gpu.tensor(*size, grad=backward) for _ in range(3)]
    g = gpu.tensor(*size)

    def work() -> None:
        made = attend(*parts, is_causal=is_causal)
        if backward:
            for part in parts:
                part.grad = None
            made.backward(g)

    return work


def cases(
    ours: Gpu,
    peer: Gpu | None,
    *,
    tiny: bool = False,
    models: Mapping[str, Model] | None = None,
    compiles: bool = True,
) -> Iterator[Case]:
    """Yield training steps of each model, eager and captured, against torch's."""
    for name, model in (MODELS if models is None else models).items():
        build = model.tiny if tiny else model.full
        train, network = training(ours.library, build, ours.device)
        eager, peers = None, None
        if peer is not None:
            peers, twin = training(peer.library, build, peer.device)
            share_weights(network, twin, peer.library)
            eager = peer.stopwatch(peers)
        yield Case(f"{name}, eager", ours.stopwatch(train), eager, EAGER)
        if compiles and peer is not None and (compiled := _compiled(peer, build)) is not None:
            yield Case(f"{name}, beside torch.compile", ours.stopwatch(train), compiled)
        theirs = None
        if peer is not None and peers is not None:
            theirs = peer.stopwatch(captured(peer, peers))
        yield Case(f"{name}, captured", ours.stopwatch(captured(ours, train)), theirs, CAPTURED)


def captured(gpu: Gpu, train: Callable[[], None]) -> Callable[[], None]:
    """Return a function that replays a captured step."""
    cuda = gpu.library.cuda
    side = cuda.Stream()
    side.wait_stream(cuda.current_stream())
    with cuda.stream(side):
        for _ in range(WARM_UPS):
            train()
    cuda.current_stream().wait_stream(side)
    graph = cuda.CUDAGraph()
    with cuda.graph(graph):
        train()
    replay: Callable[[], None] = graph.replay
    return replay


def _compiled(peer: Gpu, build: Build) -> Any:
    """Return the stopwatch of torch's compiled step; if compiling fails, print why, return None."""
    train, network = training(peer.library, build, peer.device)
    try:
        network.compile()
        train()
    except Exception as error:
        # torch's compiler needs Triton and a C compiler; the error says which is missing.
        print(f"torch.compile is left out: {type(error).__name__}: {str(error).splitlines()[0]}")
        return None
    return peer.stopwatch(train)
