"""The benchmark of many workers reports the costs of a group, or its failure."""

from __future__ import annotations

import pytest

from bench.distributed import many_workers

pytestmark = pytest.mark.usefixtures("forks")


@pytest.mark.one_in(3)
def test_each_figure_is_told_of_each_worker() -> None:
    found = many_workers.run_group(3)
    assert set(found) == {*many_workers.PHASES, "descriptors", "threads", "resident_mb"}
    assert all(len(figures) == 3 and min(figures) > 0 for figures in found.values())


def test_two_rounds_are_enough_and_the_last_worker_counts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    figures = {"descriptors": [50.0, 60.0], "threads": [8.0, 9.0], "resident_mb": [40.0, 44.0]}
    asked: list[int] = []

    def run_group(size: int) -> dict[str, list[float]]:
        asked.append(size)
        last_s = 2.0 + len(asked) % 2
        return {**figures, **{phase: [1.0, last_s] for phase in many_workers.PHASES}}

    monkeypatch.setattr(many_workers, "SIZES", (2,))
    monkeypatch.setattr(many_workers, "run_group", run_group)
    rows = many_workers.run(25)
    assert asked == [2, 2]
    assert [row.name for row in rows] == [f"2 workers: {phase}" for phase in many_workers.PHASES]
    assert {row.ours_s.median for row in rows} == {2.5}
    assert capsys.readouterr().out == (
        "2 workers: at most 60 descriptors and 9 threads each, 42 MB resident each on average, "
        "44 MB at most\n"
    )


def test_a_group_that_does_not_end_well_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FASTDIST_TRANSPORTS", "none of them")
    with pytest.raises(RuntimeError, match="2 workers ended with status 1, 0 of them well"):
        many_workers.run_group(2)
