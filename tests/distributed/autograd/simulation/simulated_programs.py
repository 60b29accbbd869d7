"""Programs for simulated workers, and their results in one process."""

# All numbers are small positive integers in float64, so sums are exact in any order. The results of
# workers must equal those of one process to the last bit.

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

import fastdist
import fastdist.autograd.forward_ad as fwAD
from fastdist import Tensor
from fastdist.distributed import rpc

EXACT = 2.0**52
_CALLS = ("sync", "sync", "async", "async", "remote")
# Calls whose result the root may not depend on. Fast mode does not support such calls.
_LOOSE_CALLS = ("unused", "unwaited", "detached")
# Steps that only wait, so that other workers can fail and rejoin meanwhile.
_PAUSES = {"pause", "pause backward"}
_STEPS = ("mix", "mix", "weight", "watch", "watch", "product", *sorted(_PAUSES))
_FAILURES = {"fails", "fails backward"}
ON_PURPOSE = "on purpose"


class Step(NamedTuple):
    """One step of a worker's plan. A call contains the plan that the called worker follows."""

    kind: str
    to: int = -1
    plan: tuple[Step, ...] = ()
    number: int = 1


class Program(NamedTuple):
    """A program that one worker starts: a forward pass, which may call others, and its backward."""

    plan: tuple[Step, ...]
    length: int
    mode: str
    passes: int
    has_tangents: bool

    def steps(self) -> set[str]:
        """Return the kinds of steps on all workers."""
        return {kind for kind, _ in _all_steps(self.plan, -1)}

    def fails(self) -> bool:
        """Return whether a step of the program is planned to fail."""
        return bool(self.steps() & _FAILURES)

    def must_fail(self) -> bool:
        """Return whether a failing step lies outside of loose calls, so that the program fails."""
        return _must_fail(self.plan)

    def pauses(self) -> bool:
        """Return whether a step pauses."""
        return bool(self.steps() & _PAUSES)

    def is_loose(self) -> bool:
        """Return whether a call may have results that the root does not depend on."""
        return bool(self.steps() & {*_LOOSE_CALLS})


class Found(NamedTuple):
    """The value, tangent and gradients of a program; a worker's rank names its weight's gradient.

    Each tensor is represented by its distinct elements.
    """

    value: list[float]
    tangent: list[float] | None
    gradients: dict[str, list[float] | None]


class Place(Protocol):
    """The environment in which a plan runs: one process, or a simulated worker."""

    def call(self, kind: str, to: int, plan: tuple[Step, ...], a: Tensor, b: Tensor) -> Wait: ...

    def weight(self) -> Tensor: ...

    def watch(self, grad: Tensor) -> None: ...

    def pause(self) -> None: ...

    def fail(self, grad: Tensor) -> None: ...


Wait = Callable[[], Tensor]


class FailedOnPurpose(RuntimeError):
    """The error that a program raises when its plan contains a failure."""


def follow(plan: tuple[Step, ...], a: Tensor, b: Tensor, place: Place) -> Tensor:
    """Run a worker's plan; the result depends on both a and b."""
    later: list[Wait] = []
    for kind, to, inner, number in plan:
        if kind == "mix":
            a, b = a * number + b, b + a
        elif kind == "product":
            a = a * b
        elif kind == "weight":
            a = a * place.weight()
        elif kind == "watch":
            a = _with_hook(a, place.watch)
        elif kind == "pause":
            place.pause()
        elif kind == "pause backward":
            a = _with_hook(a, lambda grad: place.pause())
        elif kind == "fails backward":
            a = _with_hook(a, place.fail)
        elif kind == "fails":
            place.fail(a)
        elif kind in ("sync", "remote"):
            a = place.call(kind, to, inner, a, b)()
        elif kind == "async":
            later.append(place.call(kind, to, inner, a, b))
        elif kind == "detached":
            later.append(place.call("async", to, inner, a.detach(), b.detach()))
        elif kind == "unused":
            place.call("async", to, inner, a, b)()
        else:
            assert kind == "unwaited", kind
            place.call("async", to, inner, a, b)
    for wait in later:
        a = a + wait()
    return a + b


def _with_hook(a: Tensor, hook: Callable[[Tensor], None]) -> Tensor:
    a = a * 1
    if a.requires_grad:  # false if all inputs were detached
        a.register_hook(hook)
    return a


class InOneProcess:
    """A `Place` in which calls to other workers are ordinary function calls."""

    def __init__(self, at: int, weights: Mapping[int, Tensor]) -> None:
        self._at = at
        self._weights = weights

    def call(self, kind: str, to: int, plan: tuple[Step, ...], a: Tensor, b: Tensor) -> Wait:
        found = follow(plan, a, b, InOneProcess(to, self._weights))
        return lambda: found

    def weight(self) -> Tensor:
        return self._weights[self._at]

    def watch(self, grad: Tensor) -> None:
        pass

    def pause(self) -> None:
        pass

    fail = watch  # no error: a program can only succeed if its planned failure does not matter


def call_worker(kind: str, to: int, function: Callable[..., Tensor], *args: object) -> Wait:
    """Call a function on another worker, and return a function that waits for the result."""
    if kind == "sync":
        found = rpc.rpc_sync(f"w{to}", function, args)
        return lambda: found
    if kind == "remote":
        return rpc.remote(f"w{to}", function, args).to_here
    return rpc.rpc_async(f"w{to}", function, args).wait


def leaf(value: float, length: int) -> Tensor:
    """Return a leaf tensor of a program."""
    return fastdist.full((length,), value, dtype=fastdist.float64, requires_grad=True)


def run(
    program: Program,
    place: Place,
    backward: Callable[[Tensor, bool], None],
    gradients: Callable[[Tensor, Tensor], dict[str, Tensor | None]],
) -> Found:
    """Run a program at its first worker; `backward(root, retain_graph)` runs a backward pass."""
    a, b = leaf(2.0, program.length), leaf(3.0, program.length)
    tangent = None
    if program.has_tangents:
        with fwAD.dual_level():
            dual = fwAD.make_dual(a, fastdist.full_like(a.detach(), 2.0))
            out = follow(program.plan, dual, b, place)
            out, tangent = fwAD.unpack_dual(out)
    else:
        out = follow(program.plan, a, b, place)
    root = out.sum()
    for left in reversed(range(program.passes)):
        backward(root, left > 0)
    return Found(
        numbers(out),
        None if tangent is None else numbers(tangent),
        {name: None if grad is None else numbers(grad) for name, grad in gradients(a, b).items()},
    )


def numbers(tensor: Tensor) -> list[float]:
    """Return a tensor's distinct elements; a correct tensor has one distinct element."""
    return sorted(set(tensor.detach().numpy().tolist()))


def expected(program: Program, rank: int) -> Found:
    """Return the results of a program in one process."""
    used = weights_used(program, rank)
    weights = {other: leaf(1.0 + other % 3, program.length) for other in used}

    def backward(root: Tensor, retain_graph: bool) -> None:
        root.backward(retain_graph=retain_graph)

    def gradients(a: Tensor, b: Tensor) -> dict[str, Tensor | None]:
        found = {"a": a.grad, "b": b.grad}
        for other in sorted(used):
            found[str(other)] = weights[other].grad
        return found

    return run(program, InOneProcess(rank, weights), backward, gradients)


def _must_fail(plan: tuple[Step, ...]) -> bool:
    return any(
        step.kind in _FAILURES or (step.kind not in _LOOSE_CALLS and _must_fail(step.plan))
        for step in plan
    )


def weights_used(program: Program, rank: int) -> set[int]:
    """Return the ranks of the workers whose weight a program uses."""
    return {at for kind, at in _all_steps(program.plan, rank) if kind == "weight"}


def _all_steps(plan: tuple[Step, ...], at: int) -> list[tuple[str, int]]:
    found = [(step.kind, at) for step in plan]
    for step in plan:
        found += _all_steps(step.plan, step.to)
    return found


def make_program(rng: random.Random, ranks: Sequence[int]) -> Program:
    """Return a program for a random worker, including the plans of all workers that it calls."""
    mode = rng.choice(("auto", "auto", "fast"))
    plan = make_plan(rng, ranks, mode, depth=rng.choice((1, 2, 2, 3)))
    if rng.random() < 0.1:
        plan = with_failure(rng, plan, Step(rng.choice(("fails", "fails backward"))))
    length = rng.choice((3, 3, 3, 4000))
    has_tangents = rng.random() < 0.25
    return Program(plan, length, mode, rng.choice((1, 1, 1, 2, 3)), has_tangents)


def make_plan(rng: random.Random, ranks: Sequence[int], mode: str, depth: int) -> tuple[Step, ...]:
    """Return a plan in which workers call each other at most `depth` deep."""
    steps: list[Step] = []
    for _ in range(rng.randint(1, 4)):
        if depth and rng.random() < 0.6:
            loose = rng.random() < (0.3 if mode == "auto" else 0.02)
            kind = rng.choice(_LOOSE_CALLS if loose else _CALLS)
            inner = make_plan(rng, ranks, mode, depth - 1)
            steps.append(Step(kind, rng.choice(ranks), inner))
        else:
            kind = rng.choice(_STEPS)
            steps.append(Step(kind, number=rng.randint(1, 3)))
    return tuple(steps)


def with_failure(rng: random.Random, plan: tuple[Step, ...], failure: Step) -> tuple[Step, ...]:
    """Return the plan with a failing step inserted into the plan of one worker."""
    calls = [at for at, step in enumerate(plan) if step.plan]
    if calls and rng.random() < 0.8:
        at = rng.choice(calls)
        step = plan[at]
        inner = step._replace(plan=with_failure(rng, step.plan, failure))
        return (*plan[:at], inner, *plan[at + 1 :])
    at = rng.randint(0, len(plan))
    return (*plan[:at], failure, *plan[at:])
