"""The benchmark of kernels builds only the chosen cases."""

from __future__ import annotations

from typing import Any

import pytest

from bench import harness, kernels


def test_no_case_is_built_that_was_not_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[tuple[str, int, bool, int | None]] = []
    monkeypatch.setattr(harness, "_chosen", "sum of rows and backward, 1e+04")
    monkeypatch.setattr(kernels, "peer_torch", lambda: None)
    monkeypatch.setattr(kernels, "compare", lambda cases, rounds: list(cases))
    monkeypatch.setattr(kernels, "_beside", lambda reading, case: case)

    def build(library: Any, name: str, size: int, backward: bool, length: int | None) -> Any:
        built.append((name, size, backward, length))
        return lambda: None

    monkeypatch.setattr(kernels, "_work", build)
    found: Any = kernels.run(2)
    assert built == [("sum of rows", 10_000, True, None)]
    reading, case = [one.name for one in found]
    assert reading == "dot product of halves, 1e+04"
    assert case == "sum of rows and backward, 1e+04"
