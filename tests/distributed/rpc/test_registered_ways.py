"""Transports and channels are registered by name; the available one of highest priority wins."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from fastdist.core.errors import RpcError
from fastdist.distributed.pipe.context import Context
from fastdist.distributed.pipe.registry import NotViable, transports
from fastdist.distributed.rpc.options import channels

PYTORCHS_TRANSPORTS = {"shm": 200, "ibv": 100, "uv": 0}
CPU_CHANNELS = {"cma": 1200, "mpt_uv": 1100, "basic": 1000}
CUDA_CHANNELS = {"cuda_xth": 400, "cuda_ipc": 300, "cuda_gdr": 200, "cuda_basic": 0}


def priorities(registry: Any) -> dict[str, int]:
    return {entry.name: entry.priority for entry in registry.by_priority()}


def member_of(registry: Any, name: str) -> Any:
    return next(entry.member for entry in registry.by_priority() if entry.name == name)


@pytest.fixture(params=["transport", "channel"])
def registered(request: pytest.FixtureRequest) -> Iterator[tuple[Any, Any]]:
    """Yield a registry, and an available entry that is also named "high" and "higher"."""
    registry, name = (transports, "uv") if request.param == "transport" else (channels, "basic")
    member = member_of(registry, name)
    registry.register("high", 5000, member)
    registry.register("higher", 5001, member)
    yield registry, member
    for other in ("high", "higher"):
        registry.unregister(other)


def chosen(registry: Any, names: list[str] | None = None) -> list[str]:
    """Return the entries that a worker would offer, by decreasing priority."""
    if registry is transports:
        return [entry.name for entry in Context(names).transports]
    return [entry.name for entry in registry.choose(names)]


@pytest.mark.seed("T1", "T2", "T3")
def test_the_higher_of_two_that_can_be_had_wins(registered: tuple[Any, Any]) -> None:
    registry, _ = registered
    assert chosen(registry)[:2] == ["higher", "high"]
    registry.register("higher", 5001, NotViable("of the test"))
    assert chosen(registry)[0] == "high" and "higher" not in chosen(registry)
    registry.register("high", -1, registered[1])
    assert chosen(registry)[-1] == "high"


@pytest.mark.seed("T3", "T4")
def test_what_is_registered_can_be_named_and_what_is_not_is_unknown(
    registered: tuple[Any, Any],
) -> None:
    registry, _ = registered
    assert chosen(registry, ["high"]) == ["high"]
    assert chosen(registry, ["high", "higher"]) == ["high", "higher"]
    registry.unregister("high")
    expected = rf"^Unknown {registry.kind}: high; known, fastest first: higher, "
    with pytest.raises(RpcError, match=expected):
        chosen(registry, ["high"])


@pytest.mark.seed("T1")
def test_transports_rank_as_pytorchs_with_the_one_that_always_works_last() -> None:
    found = priorities(transports)
    assert {name: found[name] for name in PYTORCHS_TRANSPORTS} == PYTORCHS_TRANSPORTS
    assert chosen(transports)[-1] == "uv" and min(found.values()) == found["uv"]
    assert member_of(transports, "uv").why_not_viable() is None


@pytest.mark.seed("T2")
def test_channels_rank_as_pytorchs_and_all_of_the_cpu_before_those_of_gpus() -> None:
    found = priorities(channels)
    assert found == {"arena": found["arena"], **CPU_CHANNELS, **CUDA_CHANNELS}
    gpu = {name for name in found if name.startswith("cuda_")}
    assert gpu == set(CUDA_CHANNELS)
    assert min(found[name] for name in found.keys() - gpu) > max(found[name] for name in gpu)


@pytest.mark.seed("T1", "T2")
@pytest.mark.parametrize("registry", [transports, channels], ids=["transports", "channels"])
def test_each_that_cannot_be_had_says_why_and_others_carry_something(registry: Any) -> None:
    viable = set(chosen(registry))
    for entry in registry.by_priority():
        reason = entry.member.why_not_viable()
        assert (reason is None) == (entry.name in viable)
        if reason is not None:
            assert len(reason) > 20
            with pytest.raises(RpcError, match=f"{entry.name}: {reason[:20]}"):
                chosen(registry, [entry.name])
