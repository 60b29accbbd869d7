"""CUDA graphs, here on the CPU shim, which records the work of a captured stream.

Only a GPU can show what the driver refuses to capture (such as cuBLAS's workspaces).
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest

import fastdist as fd
from fastdist import nn
from fastdist.core.errors import KernelError
from fastdist.cuda import CUDAGraph, graph, make_graphed_callables
from fastdist.devices.cuda import CudaBackend
from fastdist.utils.checkpoint import checkpoint
from tests.fibre_shim.installed import cuda_on_fibres


@pytest.fixture(autouse=True)
def fibres(monkeypatch: pytest.MonkeyPatch) -> Iterator[CudaBackend]:
    yield from cuda_on_fibres(monkeypatch)


def test_a_graph_runs_nothing_until_it_is_replayed_on_what_its_inputs_hold_then() -> None:
    x = fd.ones(4, device="cuda")
    captured = CUDAGraph()
    _ = (x * 2 + 1).sum()
    assert not fd.cuda.is_current_stream_capturing()
    with graph(captured):
        assert fd.cuda.is_current_stream_capturing()
        y = (x * 2 + 1).sum()
    for number in (1.0, 5.0):
        x.fill_(number)
        captured.replay()
        assert y.item() == 4 * (2 * number + 1)


@pytest.mark.one_in(3)
def test_a_training_step_is_captured_whole() -> None:
    def made() -> tuple[Any, Any, Any, Any]:
        fd.manual_seed(0)
        net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2)).to("cuda")
        return (
            net,
            fd.optim.SGD(net.parameters(), lr=0.1, momentum=0.9),
            *(fd.randn(3, 4).to("cuda"), fd.randn(3, 2).to("cuda")),
        )

    def step(net: Any, optimizer: Any, x: Any, wanted: Any) -> Any:
        optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.mse_loss(net(x), wanted)
        loss.backward()
        optimizer.step()
        return loss

    eager, ours = made(), made()
    for _ in range(2):
        step(*eager), step(*ours)
    captured = CUDAGraph()
    with graph(captured):
        loss = step(*ours)
    for turn in range(3):
        new = fd.full((3, 4), float(turn), device="cuda")
        for x in (eager[2], ours[2]):
            x.copy_(new)
        captured.replay()
        assert loss.item() == step(*eager).item()
    for one, other in zip(eager[0].parameters(), ours[0].parameters(), strict=True):
        assert fd.equal(one, other)


@pytest.mark.one_in(3)
def test_a_step_of_convolutions_replays_as_it_runs() -> None:
    def made() -> tuple[Any, Any]:
        fd.manual_seed(0)
        net = nn.Sequential(
            nn.Conv2d(3, 16, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(16, 18, 3, stride=2, groups=2, bias=False),
            nn.Conv2d(18, 4, 1),
            nn.ConvTranspose2d(4, 2, 2, stride=2),
        )
        return net.to("cuda"), fd.randn(2, 3, 5, 6).to("cuda")

    def step(net: Any, x: Any) -> Any:
        net.zero_grad(set_to_none=True)
        loss = (net(x) ** 2).sum()
        loss.backward()
        return loss

    eager, ours = made(), made()
    step(*eager), step(*ours)
    captured = CUDAGraph()
    with graph(captured):
        loss = step(*ours)
    for turn in range(2):
        new = fd.full((2, 3, 5, 6), turn + 0.5, device="cuda")
        for _, x in (eager, ours):
            x.copy_(new)
        captured.replay()
        assert loss.item() == step(*eager).item()
    for one, other in zip(eager[0].parameters(), ours[0].parameters(), strict=True):
        assert fd.equal(one.grad, other.grad)


def test_memory_of_a_graph_is_given_to_nothing_else(fibres: CudaBackend) -> None:
    x = fd.ones(1000, device="cuda")
    first, second = CUDAGraph(), CUDAGraph()
    with graph(first):
        y = x * 2
    assert first.pool().num_given > 0
    given = first.pool().num_given
    _ = x * 3  # not captured: uses the common memory pool
    assert first.pool().num_given == given
    with graph(second, pool=first.pool()):
        z = y + 1
    assert second.pool() is first.pool() and first.pool().num_given > given
    first.replay(), second.replay()
    assert z.sum().item() == 3000
    first.reset()
    with pytest.raises(RuntimeError, match="has captured nothing"):
        first.replay()


def test_what_cannot_be_captured_says_so() -> None:
    x = fd.ones(2, device="cuda")
    with pytest.raises(RuntimeError, match="non-default stream: use"):
        CUDAGraph().capture_begin()
    with pytest.raises(RuntimeError, match="no capture has begun"):
        CUDAGraph().capture_end()
    with pytest.raises(RuntimeError, match="has captured nothing"):
        CUDAGraph().replay()
    once = CUDAGraph()
    with pytest.raises(KernelError, match="not possible while a graph is captured"), graph(once):
        x.sum().item()
    with pytest.raises(RuntimeError, match="has captured already"), graph(once):
        pass
    foreign = fd.Generator("cuda")
    with (
        pytest.raises(RuntimeError, match=r"the same. Call graph.register_generator_state"),
        graph(CUDAGraph()),
    ):
        fd.rand(2, device="cuda", generator=foreign)
    with (
        pytest.raises(RuntimeError, match=r"^Cannot call manual_seed during CUDA graph capture"),
        graph(CUDAGraph()),
    ):
        fd.cuda.manual_seed(0)
    with pytest.raises(RuntimeError, match="a graph draws on a GPU, and this generator is of cpu"):
        CUDAGraph().register_generator_state(fd.default_generator)
    with (
        graph(CUDAGraph()),
        pytest.raises(RuntimeError, match="is being captured; end that capture first"),
        graph(CUDAGraph()),
    ):
        pass
    # After these errors, streams and random numbers work as before.
    assert not fd.cuda.is_current_stream_capturing()
    assert fd.rand(3, device="cuda").sum().item() > 0


def test_values_of_the_cpu_are_not_captured() -> None:
    x, host = fd.ones(3, device="cuda"), fd.ones(3)
    for upload in (lambda: fd.tensor([1.0, 2.0], device="cuda"), host.cuda, lambda: x.copy_(host)):
        with (
            graph(CUDAGraph()),
            pytest.raises(KernelError, match=r"cannot be copied to the GPU while a graph is capt"),
        ):
            upload()


def test_tables_that_are_always_the_same_are_kept_by_the_graph() -> None:
    x, captured = fd.ones(4, device="cuda"), CUDAGraph()
    with graph(captured):
        y = x * fd.arange(4, device="cuda") + fd.eye(4, device="cuda")[1]
    _ = [fd.arange(4, device="cuda") for _ in range(3)]
    gc.collect()  # memory freed by the capture is overwritten by now, unless the graph keeps it
    captured.replay()
    assert y.tolist() == [0, 2, 2, 3]


@pytest.mark.parametrize("name", ["Adam", "AdamW", "NAdam", "RAdam", "Adamax", "ASGD", "Adagrad"])
def test_steps_that_would_be_counted_once_are_not_captured(name: str) -> None:
    weight = nn.Parameter(fd.ones(2, device="cuda"))
    optimizer = getattr(fd.optim, name)([weight])
    weight.grad = fd.ones(2, device="cuda")
    optimizer.step()
    with (
        graph(CUDAGraph()),
        pytest.raises(RuntimeError, match=f"^Attempting CUDA graph capture of .* {name} but par"),
    ):
        optimizer.step()
    assert optimizer.state[weight]["step"].item() == 1


CAPTURABLE = ["Adadelta", "Adam", "AdamW", "Adamax", "ASGD", "NAdam", "RAdam", "RMSprop", "Rprop"]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", CAPTURABLE)
def test_capturable_steps_go_on_counting_at_each_replay(name: str) -> None:
    def made(**options: Any) -> tuple[list[Any], Any]:
        weights = [nn.Parameter(fd.arange(n, device="cuda") / 3) for n in (3.0, 5.0)]
        return weights, getattr(fd.optim, name)(weights, lr=0.1, **options)

    def step(weights: list[Any], optimizer: Any) -> None:
        optimizer.zero_grad()
        sum([((w - 1) ** 2).sum() for w in weights]).backward()
        optimizer.step()

    eager, ours = made(), made(capturable=True)
    for _ in range(2):
        step(*eager), step(*ours)
    captured = CUDAGraph()
    with graph(captured):
        step(*ours)
    for _ in range(7):  # RAdam uses its second moments from the sixth step on
        captured.replay()
        step(*eager)
    for one, other in zip(eager[0], ours[0], strict=True):
        assert other.tolist() == pytest.approx(one.tolist(), rel=1e-5, abs=1e-6)
        assert ours[1].state[other]["step"].item() == 9


def test_the_rate_of_captured_steps_may_be_a_tensor_that_changes() -> None:
    weight, rate = nn.Parameter(fd.ones(2, device="cuda")), fd.tensor(0.1, device="cuda")
    optimizer = fd.optim.AdamW([weight], lr=rate, capturable=True, weight_decay=0)
    weight.grad = fd.ones(2, device="cuda")
    optimizer.step()
    captured = CUDAGraph()
    with graph(captured):
        optimizer.step()
    rate.fill_(0.5)
    captured.replay()
    assert weight.tolist() == pytest.approx([0.4, 0.4], abs=1e-5)


def test_replays_draw_what_the_block_would_have_drawn() -> None:
    x, own = fd.ones(50, device="cuda"), fd.Generator("cuda")

    def block() -> list[Any]:
        return [
            nn.functional.dropout(x, 0.5) + fd.randn_like(x),
            fd.randint(0, 9, (7,), device="cuda") + fd.rand(7, device="cuda", generator=own),
        ]

    def seeded() -> None:
        fd.cuda.manual_seed(-5)  # seeds are kept as numbers that may exceed int64
        own.manual_seed(1 << 63)

    seeded()
    expected = [[one.tolist() for one in block()] for _ in range(4)]
    captured = CUDAGraph()
    captured.register_generator_state(own)
    with graph(captured):
        drawn = block()
    seeded()
    assert [one.tolist() for one in block()] == expected[0]
    for turn in (1, 2):
        captured.replay()
        assert [one.tolist() for one in drawn] == expected[turn]
    assert [one.tolist() for one in block()] == expected[3]


def test_a_checkpoint_in_a_graph_draws_again_what_it_drew_and_no_more() -> None:
    def step(x: Any) -> Any:
        def function(x: Any) -> Any:
            return nn.functional.dropout(x.sin(), 0.5) ** 2

        y = checkpoint(function, x, use_reentrant=False)
        y.sum().backward()
        return y

    def found(replays: int) -> list[Any]:
        fd.manual_seed(0)
        x = fd.ones(64, device="cuda", requires_grad=True)
        step(x)
        captured = CUDAGraph()
        if replays:
            x.grad = None
            with graph(captured):
                y = step(x)
        results = []
        for _ in range(2):
            if replays:
                captured.replay()
            else:
                x.grad = None
                y = step(x)
            results += [y.detach().clone(), x.grad.clone()]
        return [*results, fd.rand(3, device="cuda")]

    for one, other in zip(found(1), found(0), strict=True):
        assert fd.equal(one, other)


def test_a_checkpoint_that_drew_outside_of_a_graph_is_not_computed_again_within() -> None:
    x = fd.ones(8, device="cuda", requires_grad=True)
    y = checkpoint(lambda x: nn.functional.dropout(x, 0.5) ** 2, x, use_reentrant=False).sum()
    still = checkpoint(lambda x: x**2, x, use_reentrant=False).sum()
    with graph(CUDAGraph()), pytest.raises(RuntimeError, match="outside of all, cannot be drawn"):
        y.backward()
    with graph(CUDAGraph()):
        still.backward()


def test_dropout_of_a_graphed_module_is_another_at_each_call() -> None:
    net = nn.Sequential(nn.Linear(4, 64), nn.Dropout(0.5)).to("cuda")
    x = fd.ones(2, 4, device="cuda")
    fd.cuda.manual_seed(3)
    expected = [net(x).tolist() for _ in range(3)]
    make_graphed_callables(net, (x,))
    fd.cuda.manual_seed(3)
    assert [net(x).tolist() for _ in range(3)] == expected


def test_a_module_is_graphed_forward_and_backward() -> None:
    fd.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 2)).to("cuda")
    samples = [fd.randn(3, 4).to("cuda").requires_grad_() for _ in range(3)]

    def run(call: Any, x: Any) -> list[list[Any]]:
        net.zero_grad()
        x.grad = None
        y = call(x)
        (y * y).sum().backward()
        return [t.tolist() for t in (y.detach(), x.grad, *[p.grad for p in net.parameters()])]

    expected = [run(net, x) for x in samples]
    assert make_graphed_callables(net, (samples[0],)) is net
    assert [run(net, x) for x in samples] == expected
    with pytest.raises(ValueError, match=r"float32 \(3, 4\); got .*float32 \(5, 4\)"):
        net(fd.zeros(5, 4, device="cuda"))


def test_functions_are_graphed_each_with_its_samples() -> None:
    x = fd.ones(3, device="cuda", requires_grad=True)
    y = fd.ones(2, device="cuda")
    double, pair = make_graphed_callables((lambda t: t * 2, lambda t: (t + 1, t - 1)), ((x,), (y,)))
    (double(x) * 3).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [6, 6, 6]
    assert [one.tolist() for one in pair(fd.full((2,), 5.0, device="cuda"))] == [[6, 6], [4, 4]]
    with pytest.raises(ValueError, match="give one tuple for each"):
        make_graphed_callables((abs,), ())


def test_graphed_callables_share_a_pool_and_may_leave_inputs_out() -> None:
    x, y = (fd.ones(3, device="cuda", requires_grad=True) for _ in range(2))
    pool = fd.cuda.graph_pool_handle()

    def first(one: Any, other: Any) -> Any:
        return one * 2

    with pytest.raises(RuntimeError, match="appears to not have been used in the graph"):
        make_graphed_callables(first, (x, y))
    double = make_graphed_callables(first, (x, y), allow_unused_input=True, pool=pool)
    double(x, y).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [2] * 3 and y.grad is None
    assert pool.num_given > 0


@pytest.mark.one_in(3)
def test_a_transformers_whole_step_replays_as_it_runs() -> None:
    class Letters(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.letters, self.places = nn.Embedding(7, 8), nn.Embedding(5, 8)
            self.block = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.3, batch_first=True)
            self.head = nn.Linear(8, 7)

        def forward(self, x: Any) -> Any:
            places = self.places(fd.arange(x.shape[1], device=x.device))
            return self.head(self.block(self.letters(x) + places))

    def made() -> tuple[Any, Any, Any]:
        fd.manual_seed(0)
        net = Letters().to("cuda")
        optimizer = fd.optim.AdamW(net.parameters(), lr=0.01, fused=True, capturable=True)
        return net, optimizer, fd.randint(0, 7, (2, 5), device="cuda")

    def step(net: Any, optimizer: Any, x: Any) -> Any:
        optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.cross_entropy(net(x).flatten(0, 1), x.flatten())
        loss.backward()
        optimizer.step()
        return loss

    def letters(turn: int) -> Any:
        return fd.full((2, 5), turn, device="cuda")

    eager, ours = made(), made()
    fd.cuda.manual_seed(1)
    step(*eager)
    expected = []
    for turn in range(3):
        eager[2].copy_(letters(turn))
        expected.append(step(*eager).item())
    fd.cuda.manual_seed(1)
    step(*ours)
    captured = CUDAGraph()
    with graph(captured):
        loss = step(*ours)
    for turn in range(3):
        ours[2].copy_(letters(turn))
        captured.replay()
        assert loss.item() == pytest.approx(expected[turn], rel=1e-5)
