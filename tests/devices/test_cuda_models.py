"""Models on cuda have the same losses and gradients as on the CPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import fastdist as fd
from fastdist import nn
from tests.fibre_shim import cupy
from tests.fibre_shim.driver import SEEDS
from tests.fibre_shim.installed import cuda_on_fibres, host_traffic, uploads, waits

F = fd.nn.functional


@pytest.fixture(autouse=True)
def backend(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    yield from cuda_on_fibres(monkeypatch)


class Classifier(nn.Module):
    """Two layers with a configurable norm between them."""

    def __init__(self, norm: Any) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 16), norm, nn.GELU(), nn.Linear(16, 5))

    def forward(self, x: Any) -> Any:
        return self.layers(x)


LOSSES: dict[str, Callable[[Any, Any], Any]] = {
    "mean": F.cross_entropy,
    "smoothed sum": lambda x, y: F.cross_entropy(x, y, reduction="sum", label_smoothing=0.1),
    "weighed, some ignored": lambda x, y: F.nll_loss(
        F.log_softmax(x, 1), y, weight=x.detach()[0].abs(), ignore_index=3
    ),
    "logsumexp": lambda x, y: x.logsumexp(1).mean(),
    "norms": lambda x, y: x.norm() + x.var() + x.std(0).sum() + x.amax(1).sum() + x.max(),
    "products": lambda x, y: x.prod(1).sum(),
}


def step(model: Any, loss: Callable[[Any, Any], Any], x: Any, y: Any) -> list[Any]:
    """Return the loss of a step, and the parameters after the step."""
    optimizer = fd.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    found = loss(model(x), y)
    found.backward()
    optimizer.step()
    return [one.detach().cpu().numpy().copy() for one in (found, *model.parameters())]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("norm", [nn.LayerNorm, nn.RMSNorm])
@pytest.mark.parametrize("name", LOSSES)
def test_a_classifier_takes_the_steps_that_it_takes_on_the_cpu(name: str, norm: Any) -> None:
    rng = np.random.default_rng(3)
    x = fd.from_numpy(rng.standard_normal((12, 8)).astype(np.float32))
    y = fd.from_numpy(rng.integers(0, 5, 12))
    fd.manual_seed(1)
    model = Classifier(norm(16))
    state = {key: value.clone() for key, value in model.state_dict().items()}
    expected = step(model, LOSSES[name], x, y)
    model.load_state_dict(state)
    model.zero_grad(set_to_none=True)
    found = step(model.to("cuda"), LOSSES[name], x.to("cuda"), y.to("cuda"))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=2e-5)


class Reader(nn.Module):
    """A transformer of one block with word and position embeddings, like a language model."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(11, 8), nn.Embedding(6, 8)
        self.block = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.2, batch_first=True)
        self.head = nn.Linear(8, 5)

    def forward(self, x: Any) -> Any:
        places = fd.arange(x.shape[1], device=x.device)
        return self.head(self.block(self.words(x) + self.places(places)).mean(1))


def classifier() -> Any:
    return nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 5))


STEPS: dict[str, tuple[Callable[[], Any], dict[str, Any], bool]] = {
    "AdamW, clipped": (classifier, {}, False),
    "a transformer, fused AdamW, scaled": (Reader, {"fused": True}, True),
    "a transformer, capturable AdamW": (Reader, {"capturable": True}, False),
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", STEPS)
def test_a_step_neither_waits_nor_copies_from_or_to_the_host(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, options, is_scaled = STEPS[name]
    model = make().to("cuda")
    optimizer = fd.optim.AdamW(model.parameters(), lr=0.1, **options)
    scaler = fd.amp.GradScaler("cuda", enabled=is_scaled)
    reads = isinstance(model, Reader)
    x = fd.randint(0, 11, (12, 6), device="cuda") if reads else fd.randn(12, 8, device="cuda")
    y = fd.randint(0, 5, (12,), device="cuda")

    def step() -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        scaler.step(optimizer)
        scaler.update()
        return loss, norm

    step()
    told = host_traffic(monkeypatch)
    loss, norm = step()
    assert told == []
    assert np.isfinite(loss.item()) and norm.item() > 0.1
    assert told[-2:] == ["asnumpy", "asnumpy"]


@pytest.mark.parametrize(
    ("work", "expected"),
    [
        (lambda x: x.item(), ["asnumpy"]),
        (lambda x: x.cpu(), ["asnumpy"]),
        (lambda x: fd.ones(1).to("cuda"), ["array"]),
        (lambda x: fd.tensor([1.0, 2.0], device="cuda"), ["array"]),
        (
            lambda x: fd.ones(1).pin_memory().to("cuda", non_blocking=True),
            ["MemoryPointer.copy_from_host_async"],
        ),
        (lambda x: fd.cuda.synchronize(), ["Device.synchronize"]),
        (lambda x: fd.cuda.current_stream().synchronize(), ["Stream.synchronize"]),
        (lambda x: fd.cuda.current_stream().record_event().synchronize(), ["Event.synchronize"]),
        (lambda x: bool(x > 0), ["asnumpy"]),
        (lambda x: x.nonzero(), ["asnumpy"]),
    ],
)
def test_each_way_to_wait_or_to_copy_is_counted(
    work: Callable[[Any], object], expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    x = fd.ones(1, device="cuda")
    told = host_traffic(monkeypatch)
    work(x)
    assert told[: len(expected)] == expected


@pytest.mark.one_in(3)
@pytest.mark.parametrize("order", SEEDS)
@pytest.mark.parametrize("zero_infinity", [False, True])
def test_texts_in_time_have_the_losses_and_gradients_of_the_cpu(
    zero_infinity: bool, order: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cupy, "schedule", [order])
    scores = np.random.default_rng(7).standard_normal((9, 4, 6)).astype(np.float32)
    # A repeated letter, an empty text, and a text that is too long for its time steps.
    texts = fd.tensor([[1, 1, 2], [3, 0, 0], [0, 0, 0], [5, 4, 5]])

    def computed(device: str) -> list[Any]:
        logits = fd.tensor(scores, device=device, requires_grad=True)
        given = texts.to(device), [9, 7, 5, 2], [3, 1, 0, 3]
        losses = F.ctc_loss(
            logits.log_softmax(2), *given, reduction="none", zero_infinity=zero_infinity
        )
        losses[:3].sum().backward()
        mean = F.ctc_loss(logits[:, :3].log_softmax(2), given[0][:3], [9, 7, 5], [3, 1, 0])
        return [one.detach().cpu().numpy() for one in (losses, logits.grad, mean)]

    for found, expected in zip(computed("cuda"), computed("cpu"), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("reads", [{}, {"padding_idx": 3}, {"scale_grad_by_freq": True}])
def test_a_step_with_an_embedding_waits_for_nothing_and_is_captured_whole(
    reads: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def made() -> tuple[Any, Any]:
        fd.manual_seed(0)
        model = nn.Sequential(nn.Embedding(40, 6, **reads), nn.Linear(6, 5)).to("cuda")
        return model, fd.optim.SGD(model.parameters(), lr=0.5)

    def step(model: Any, optimizer: Any, words: Any, y: Any) -> None:
        optimizer.zero_grad()
        F.cross_entropy(model(words), y).backward()
        optimizer.step()

    # Some words repeat, and there are more words than a warp sorts.
    words = fd.arange(50, device="cuda") % 7
    y = fd.arange(50, device="cuda") % 5
    eager, ours = made(), made()
    step(*eager, words, y), step(*ours, words, y)
    with monkeypatch.context() as patch:
        waited, copied = waits(patch), uploads(patch)
        step(*eager, words, y)
        assert waited == copied == []
        captured = fd.cuda.CUDAGraph()
        with fd.cuda.graph(captured):
            step(*ours, words, y)
    captured.replay()
    words.copy_(words * 5)
    captured.replay()
    step(*eager, words, y)
    for one, other in zip(eager[0].parameters(), ours[0].parameters(), strict=True):
        assert one.equal(other)


def test_what_is_ordered_written_and_added_to_waits_for_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x = fd.arange(24.0, device="cuda").reshape(4, 6)
    rows, wide = fd.arange(9, device="cuda") % 4, fd.arange(24, device="cuda").reshape(4, 6) % 4
    src = fd.ones(9, 6, device="cuda")
    waited, copied = waits(monkeypatch), uploads(monkeypatch)
    x.sort(), x.argsort(0, descending=True), x.topk(2)
    x.index_add(0, rows, src), x.scatter_add(0, wide, x), x.scatter(0, wide, 2.0)
    x.index_put((rows,), src, accumulate=True), x.scatter_reduce(0, wide, x, "amax")
    x[rows] = 3.0
    assert waited == copied == []


RESIZED: dict[str, Callable[[Any], Any]] = {
    "nearest": lambda x: F.interpolate(x, (5, 9)),
    "bilinear": lambda x: F.interpolate(x, scale_factor=1.5, mode="bilinear"),
    "bicubic": lambda x: F.interpolate(x, (3, 8), mode="bicubic", align_corners=True),
    "filtered": lambda x: F.interpolate(x, (3, 4), mode="bilinear", antialias=True),
    "uneven parts": lambda x: F.adaptive_avg_pool2d(x, (3, 4)),
    "windows beyond the border": lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
}


def _resize(name: str, x: Any) -> Any:
    """Return the gradient of the images x, for a loss of the resized images."""
    x = x.detach().requires_grad_()
    RESIZED[name](x).square().sum().backward()
    return x.grad


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", RESIZED)
def test_a_second_step_that_resizes_images_copies_nothing(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = fd.rand(2, 3, 6, 7, device="cuda")
    expected = _resize(name, x)
    fd.testing.assert_close(expected.cpu(), _resize(name, x.cpu()))
    with monkeypatch.context() as patch:
        met = host_traffic(patch)
        found = _resize(name, x)
        assert met == []
    other = fd.cuda.Stream()
    with monkeypatch.context() as patch, fd.cuda.stream(other):
        other.wait_stream(fd.cuda.default_stream())
        copied = uploads(patch)
        found_there = _resize(name, x)
        assert copied != []  # `other` needs its own copy, and cannot use the default stream's copy
    fd.cuda.synchronize()
    assert found.equal(expected) and found_there.equal(expected)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", RESIZED)
def test_a_graph_that_resizes_images_has_tables_of_its_own(name: str) -> None:
    x, out = fd.rand(2, 3, 6, 7, device="cuda"), None
    captured = fd.cuda.CUDAGraph()
    with fd.cuda.graph(captured):
        out = RESIZED[name](x)
    x.copy_(fd.rand(2, 3, 6, 7))
    captured.replay()
    assert out.equal(RESIZED[name](x))


@pytest.mark.parametrize("order", [2.0, 1.0, float("inf")])
@pytest.mark.parametrize("most", [0.1, 1e3])
def test_gradients_are_clipped_as_on_the_cpu(order: float, most: float) -> None:
    def clipped(device: str) -> list[Any]:
        grads = [np.arange(6, dtype=np.float32).reshape(2, 3) - 2, np.float32([4.0]), np.empty(0)]
        parameters = [fd.zeros(g.shape, device=device, requires_grad=True) for g in grads]
        for parameter, grad in zip(parameters, grads, strict=True):
            parameter.grad = fd.tensor(grad, dtype=fd.float32, device=device)
        norm = nn.utils.clip_grad_norm_(parameters, most, order)
        return [one.cpu().numpy() for one in (norm, *[each.grad for each in parameters])]

    for found, expected in zip(clipped("cuda"), clipped("cpu"), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_a_norm_that_is_not_finite_is_told() -> None:
    parameter = fd.zeros(2, device="cuda", requires_grad=True)
    parameter.grad = fd.tensor([1.0, np.nan], device="cuda")
    with pytest.raises(RuntimeError, match="non-finite"):
        nn.utils.clip_grad_norm_([parameter], 1.0, error_if_nonfinite=True)
