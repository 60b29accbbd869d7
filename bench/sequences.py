"""Training steps of recurrent models and of attention: forward, backward and optimiser."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bench.harness import Case, Row, Stopwatch, compare, peer_torch, stopwatch

VOCABULARY, BATCH = 65, 32


def run(rounds: int) -> list[Row]:
    """Compare character models (LSTM, GRU) at two sizes, and attention; ours against torch."""
    import fastdist

    torch = peer_torch()
    cases = []
    for kind in ("LSTM", "GRU"):
        for hidden, steps in ((128, 64), (256, 128)):
            title = f"char-{kind}, hidden {hidden}, {steps} steps, batch {BATCH}"
            ours, peer = (
                None if one is None else char_model(one, kind, hidden, steps)
                for one in (fastdist, torch)
            )
            assert ours is not None
            cases.append(Case(title, ours, peer, 1.0, number=1))
    for width, heads in ((64, 4), (256, 8)):
        ours, peer = (
            None if one is None else attention(one, width, heads) for one in (fastdist, torch)
        )
        assert ours is not None
        cases.append(Case(f"attention, {heads} heads of {width // heads}, 64 x 8", ours, peer, 1.0))
    return compare(cases, rounds)


def char_model(library: Any, kind: str, hidden: int, steps: int) -> Stopwatch:
    """Return a training step of embedding, recurrent layer, linear layer, loss and Adam."""
    nn = library.nn
    library.manual_seed(0)
    layers = [
        nn.Embedding(VOCABULARY, hidden),
        getattr(nn, kind)(hidden, hidden, batch_first=True),
        nn.Linear(hidden, VOCABULARY),
    ]
    parameters = [parameter for layer in layers for parameter in layer.parameters()]
    optimizer = library.optim.Adam(parameters, 1e-3)
    inputs, targets = (library.randint(0, VOCABULARY, (BATCH, steps)) for _ in range(2))
    table, recurrent, readout = layers

    def step() -> None:
        optimizer.zero_grad()
        logits = readout(recurrent(table(inputs))[0])
        loss = nn.functional.cross_entropy(logits.reshape(-1, VOCABULARY), targets.reshape(-1))
        loss.backward()
        optimizer.step()

    return _warm(step)


def attention(library: Any, width: int, heads: int) -> Stopwatch:
    """Return causal self-attention on 8 sequences of 64 elements, with its backward."""
    library.manual_seed(0)
    given = [library.randn(8, heads, 64, width // heads, requires_grad=True) for _ in range(3)]
    attend = library.nn.functional.scaled_dot_product_attention

    def step() -> None:
        for one in given:
            one.grad = None
        attend(*given, is_causal=True).sum().backward()

    return _warm(step)


def _warm(step: Callable[[], None]) -> Stopwatch:
    step()
    return stopwatch(step)
