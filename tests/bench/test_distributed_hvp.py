"""The benchmark times Hessian-vector products by two methods, in a group of three workers."""

from __future__ import annotations

import pytest

from bench.distributed import distributed_hvp

pytestmark = pytest.mark.usefixtures("forks")


@pytest.mark.one_in(5)
def test_a_group_tells_the_seconds_of_both_ways() -> None:
    found = distributed_hvp.run_group(2)
    assert set(found) == {*distributed_hvp.CASES}
    for seconds in found.values():
        assert [len(way) for way in seconds] == [2, 2] and all(
            s > 0 for way in seconds for s in way
        )


def test_a_case_gives_a_row_with_its_ratio(monkeypatch: pytest.MonkeyPatch) -> None:
    figures = {"8x8": [[1.0, 1.0], [2.0, 2.0]]}
    monkeypatch.setattr(distributed_hvp, "run_group", lambda rounds: figures)
    (row,) = distributed_hvp.run(2)
    assert row.ratio is not None and row.ratio.median == 0.5 and "8x8" in row.name
