"""Everyday calls on 8x8: creation, views, writes, optimiser steps, vmap and small layers.

`bench small` times these calls after its own rows, and each call has a bound. Calls that record no
graph are only timed without grad.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bench.harness import Case, chosen, stopwatch

# The largest allowed ratio to PyTorch's time -> statements.
CALLS = {
    1.2: """
        zeros(8, 8); ones(8, 8); empty(8, 8); full((8, 8), 2.0); arange(8); zeros_like(x)
        ones_like(x); full_like(x, 2.0); full((8, 8), 2, dtype=float64); eye(8)
        x.roll(1, 0); x.flip(0); constant.diag(); wide.std(0); wide.var(0); wide.logsumexp(0)
        full((8, 8), 2.0, device=row.device); constant.unique(); constant.quantile(0.5)
        constant.quantile(0.5, 0); einsum("ij,jk->ik", x, y)
        x.permute(1, 0).reshape(-1); x.transpose(0, 1); x.view(-1); x.reshape(4, 16); x.unsqueeze(0)
        row.expand(8, 8); x.select(0, 1); x.narrow(0, 1, 2); x[0]; x[1:3]; x[:, 1]; x[None]
        x.split(2); x.chunk(2); x.unbind(); x.t().contiguous(); x.flatten()
        x.view(2, 4, 8).transpose(0, 1).reshape(8, 8)
        x[mask]; x[index]; x[[0, 1]]; x[1, 2]; constant[0] = 1.0; constant[1, 2] = 3.0
        constant[mask] = 0.0; constant[index] = constant_row; constant.fill_(1.0)
        constant.copy_(other)
        cat([x, y]); stack([x, y]); where(mask, x, y); x.max(1); x.argmax(1)
        x.masked_fill(mask, 0.0); x < y; mask.any(); mask.all(); number.item(); constant.tolist()
        x.to(float64); x.float()
        x.clone(); x.detach(); x @ y; bmm(batch, batch.mT); row @ x; row @ row
        F.embedding(index, x); F.dropout(x, 0.5); F.relu(x); F.gelu(x); F.silu(x); F.mse_loss(x, y)
        F.l1_loss(x, y); F.smooth_l1_loss(x, y); F.binary_cross_entropy_with_logits(x, truth)
        F.conv2d(image, kernel, bias, padding=1); F.linear(x, y, row); linear(x); sequence(x)
        gru_cell(x); lstm_cell(x); heads(batch, batch, batch)
        nn.utils.clip_grad_norm_(parameters, 1.0); sequence.state_dict(); loss_of_layers()
    """,
    1.5: """
        x.scatter(1, places, y); x.scatter_add(1, places, y); F.avg_pool2d(image, 2)
        F.pad(image, (1, 1, 1, 1), mode="reflect"); row.dot(row); x @ row
        F.pad(x, (1, 1), value=2.0); x.diagonal(); constant.median(); constant.kthvalue(2)
        x.tril(); x.triu(1); x.max(0); constant.long().min(0)
        halves.sum(-1); halves.float(); bincount(index); constant.sort()
    """,
    2.0: """
        linspace(0, 1, 8); F.one_hot(index, 8); F.one_hot(index); randint(0, 10, (8, 8)); x.cpu()
        x.gather(0, places); x.gather(1, places); constant_row.outer(constant_row)
        searchsorted(ordered, constant_row); bucketize(constant_row, ordered)
    """,
    2.5: """
        halves.softmax(-1); halves.log_softmax(-1); constant.median(1); randperm(8); mask.nonzero()
        meshgrid(row, row, indexing="ij"); constant.trace()
    """,
    3.5: """
        wide.bfloat16(); wide.softmax(0); wide.log_softmax(0); F.layer_norm(halves, (64,))
        constant.equal(other); constant.topk(3); x.diag(); bernoulli(chances)
    """,
    0.8: "multiply_each(x, y)",
    0.6: "sgd.step(); momentum.step(); adam.step(); adamw.step(); adam.step(closure)",
}
_APART: tuple[str, ...] = (
    "zeros(", "ones(", "empty(", "full(", "arange(", "linspace(", "randint(", "F.one_hot", "eye(",
    "randperm(", "bernoulli(", "searchsorted(", "bucketize(", "bincount(",
    "constant", "mask.", "number", "multiply", "sgd", "momentum", "adam",
    "nn.utils", "sequence.state", "loss_of", "x <",
)  # fmt: skip


def cases(fastdist: Any, torch: Any) -> list[Case]:
    """Return the chosen cases."""
    found = []
    for has_grad in (False, True):
        ours = names_of(fastdist, has_grad=has_grad)
        peers = None if torch is None else names_of(torch, has_grad=has_grad)
        for bound, text in CALLS.items():
            for call in [one.strip() for line in text.splitlines() for one in line.split(";")]:
                title = f"8x8 {call}{', with grad' if has_grad else ''}"
                if not call or (has_grad and call.startswith(_APART)) or chosen() not in title:
                    continue
                peer = None if peers is None else stopwatch(call, **peers)
                exec(call, ours)
                found.append(Case(title, stopwatch(call, **ours), peer, bound))
    return found


def names_of(library: Any, *, has_grad: bool) -> dict[str, Any]:
    """Return the operands, functions, layers and optimisers that the statements use."""
    import numpy as np

    rng = np.random.default_rng(0)

    def draw(*shape: int) -> Any:
        return library.tensor(rng.standard_normal(shape).astype(np.float32))

    nn, functional = library.nn, library.nn.functional
    x, y, row, batch, image, kernel = (
        draw(*one) for one in ((8, 8), (8, 8), (8,), (2, 4, 8), (1, 3, 8, 8), (4, 3, 3, 3))
    )
    names: dict[str, Any] = {
        **{name: getattr(library, name) for name in _FUNCTIONS.split()},
        "F": functional,
        "nn": nn,
        "x": x,
        "y": y,
        "row": row,
        "batch": batch,
        "image": image,
        "kernel": kernel,
        "bias": draw(4),
        "constant": draw(8, 8),
        "constant_row": draw(8),
        "ordered": draw(8).sort()[0],
        "wide": draw(8, 64),
        "halves": draw(8, 64).bfloat16(),
        "other": draw(8, 8),
        "chances": (x > 0).float() * 0.5,
        "mask": x > 0,
        "index": library.tensor([1, 0, 3, 5, 2, 7, 6, 4]),
        "places": library.tensor(rng.integers(0, 8, (8, 8))),
        "number": x.sum(),
        "truth": (y > 0).float(),
        "linear": nn.Linear(8, 8),
        "gru_cell": nn.GRUCell(8, 8),
        "lstm_cell": nn.LSTMCell(8, 8),
        "heads": nn.MultiheadAttention(8, 2, batch_first=True),
        "sequence": nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8)),
        "multiply_each": library.func.vmap(lambda x, w: x * w),
        "parameters": parameters(library, draw),
        "closure": lambda: x,
        **steps(library, draw),
    }
    names["loss_of_layers"] = _step_of(names["sequence"], functional, x.clone(), y.clone())
    if has_grad:
        others = [names[one] for one in ("bias", "wide", "halves")]
        for one in (x, y, row, batch, image, kernel, *others):
            one.requires_grad_()
    return names


_FUNCTIONS = "zeros ones empty full arange linspace randint zeros_like ones_like full_like"
_FUNCTIONS += " cat stack where bmm float64 meshgrid bernoulli eye randperm einsum"
_FUNCTIONS += " searchsorted bucketize bincount"


def parameters(library: Any, draw: Callable[..., Any]) -> list[Any]:
    """Return ten parameters with gradients."""
    found = [library.nn.Parameter(draw(8, 8)) for _ in range(10)]
    for one in found:
        one.grad = draw(8, 8) * 1e-3
    return found


def steps(library: Any, draw: Callable[..., Any]) -> dict[str, Any]:
    """Return optimisers over ten parameters each; PyTorch's are the fused ones.

    Note    our compiled steps are stored first, as by `info --warm`: a program of small parameters
            takes them from the store after 50 steps, and steps by NumPy where nothing is stored
    """
    if library.__name__ == "torch":
        return _optimisers(library, lambda: parameters(library, draw), fused=True)

    def many() -> list[Any]:
        one = library.nn.Parameter(draw(300, 300))
        one.grad = draw(300, 300)
        return [one]

    for optimiser in _optimisers(library, many).values():
        optimiser.step()
        optimiser.step()  # the first step with momentum runs another program
    return _optimisers(library, lambda: parameters(library, draw))


def _optimisers(library: Any, given: Callable[[], list[Any]], **named: bool) -> dict[str, Any]:
    optim, how = library.optim, {"lr": 1e-6, **named}
    return {
        "sgd": optim.SGD(given(), **how),
        "momentum": optim.SGD(given(), momentum=0.9, **how),
        "adam": optim.Adam(given(), **how),
        "adamw": optim.AdamW(given(), **how),
    }


def _step_of(layers: Any, functional: Any, x: Any, y: Any) -> Callable[[], None]:
    def step() -> None:
        layers.zero_grad()
        functional.mse_loss(layers(x), y).backward()

    return step
