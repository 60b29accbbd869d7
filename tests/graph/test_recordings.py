"""Each watcher sees every start and end of a recording, while other watchers come and go."""

from __future__ import annotations

from fastdist.graph import recordings
from fastdist.instrumentation.time_ranges import Recording
from tests.disturbances.interleaving import Step, each_interleaving


def test_all_who_stay_hear_of_a_recording_while_another_goes() -> None:
    told: list[bool] = []
    open_ones: list[Recording] = []

    def prepare() -> tuple[Step, Step]:
        told.clear()
        goes: list[bool] = []
        open_ones[:] = [Recording()]
        leave = goes.append
        recordings.watch(leave)
        recordings.watch(told.append)
        return lambda: recordings.begin(open_ones[0]), lambda: recordings.unwatch(leave)

    for _ in each_interleaving(prepare, "graph/recordings.py"):
        recordings.end(open_ones[0])
        recordings.unwatch(told.append)
        assert told == [True, False]
