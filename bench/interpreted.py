"""Small calls under an interpreter: autocast, a function mode, dual tensors, a profile.

All calls are on 8x8 float32; `bench small` includes these cases with bounds.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

from bench import models
from bench.harness import Case, Row, Stopwatch, chosen, compare, peer_torch, stopwatch

Block = Callable[[Any, dict[str, Any]], AbstractContextManager[Any]]


class Call(NamedTuple):
    """A statement with the names of `_operands`, the context in which it runs, and its bound."""

    title: str
    statement: str
    block: Block
    bound: float


def _in_autocast(library: Any, names: dict[str, Any]) -> AbstractContextManager[Any]:
    return library.autocast("cpu", dtype=library.bfloat16)  # type: ignore[no-any-return]


def _in_mode(library: Any, names: dict[str, Any]) -> AbstractContextManager[Any]:
    class Passing(library.overrides.TorchFunctionMode):  # type: ignore[misc,name-defined]
        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            return func(*args, **(kwargs or {}))

    return Passing()


@contextlib.contextmanager
def _in_level(library: Any, names: dict[str, Any]) -> Iterator[None]:
    forward_ad = library.autograd.forward_ad
    with forward_ad.dual_level():
        names["dual"] = forward_ad.make_dual(names["x"], names["y"])
        yield


def _in_profile(library: Any, names: dict[str, Any]) -> AbstractContextManager[Any]:
    return library.profiler.profile(  # type: ignore[no-any-return]
        activities=[library.profiler.ProfilerActivity.CPU]
    )


CALLS = (
    Call("autocast, x @ y", "x @ y", _in_autocast, 2.0),
    Call("autocast, x @ w with grad", "x @ w", _in_autocast, 2.0),
    Call("autocast, x * y", "x * y", _in_autocast, 2.0),
    Call("autocast, Linear", "linear(x)", _in_autocast, 1.2),
    Call("function mode, x * y", "x * y", _in_mode, 3.0),
    Call("dual, exp", "dual.exp()", _in_level, 3.0),
    Call("dual, x * y", "dual * y", _in_level, 3.0),
    Call("dual, x @ y", "dual @ y", _in_level, 3.0),
    Call("dual, sum", "dual.sum()", _in_level, 3.0),
)
GPT = 0.9
"""The ratio of a step of a small GPT under autocast."""
PROFILED = ("x * y", "x @ y", "linear(x)")
ON_TO_OFF = 1.5
"""The ratio of a call's time while a profile is on to its time without."""


def run(rounds: int) -> list[Row]:
    """Compare the calls with torch, and calls under a profile with the same calls without one."""
    import fastdist

    return compare([*cases(fastdist, peer_torch())], rounds)


def cases(fastdist: Any, torch: Any) -> list[Case]:
    """Return the chosen cases."""
    found = []
    for call in CALLS:
        if chosen() in call.title:
            peer = _watch(torch, call.statement, call.block) if torch else None
            ours = _watch(fastdist, call.statement, call.block)
            found.append(Case(call.title, ours, peer, call.bound))
    title = "autocast, a step of GPT d 64"
    if chosen() in title:
        peer = stopwatch(_step_of_gpt(torch)) if torch else None
        found.append(Case(title, stopwatch(_step_of_gpt(fastdist)), peer, GPT))
    for statement in PROFILED:
        title = f"profile on beside off, {statement}"
        if chosen() in title:
            on = _watch(fastdist, statement, _in_profile)
            off = stopwatch(statement, **_operands(fastdist))
            found.append(Case(title, on, off, ON_TO_OFF, number=2000))
    return found


def _step_of_gpt(library: Any) -> Callable[[], None]:
    network, (letters, target) = models.gpt(64, texts=4)(library)
    optimizer = library.optim.AdamW(network.parameters(), lr=1e-3)
    cross_entropy = library.nn.functional.cross_entropy

    def step() -> None:
        optimizer.zero_grad()
        with library.autocast("cpu", dtype=library.bfloat16):
            scores = network(letters)
            loss = cross_entropy(scores.reshape(-1, scores.shape[-1]), target)
        loss.backward()
        optimizer.step()

    for _ in range(5):
        step()
    return step


def _watch(library: Any, statement: str, block: Block) -> Stopwatch:
    names = _operands(library)

    def watch(number: int) -> float:
        with block(library, names):
            return stopwatch(statement, **names)(number)

    watch(100)
    return watch


def _operands(library: Any) -> dict[str, Any]:
    import numpy as np

    rng = np.random.default_rng(0)

    def draw() -> Any:
        return library.tensor(rng.standard_normal((8, 8)).astype(np.float32))

    weight = draw().requires_grad_()
    return {"x": draw(), "y": draw(), "w": weight, "linear": library.nn.Linear(8, 8)}
