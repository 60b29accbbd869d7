"""Base classes of data pipes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from fastdist.utils.data import DataLoader, IterDataPipe, MapDataPipe, functional_datapipe


class Numbers(IterDataPipe):
    def __iter__(self) -> Iterator[int]:
        return iter(range(4))


def test_pipes_are_chained_by_methods_and_loaded() -> None:
    @functional_datapipe("doubled_for_a_test")
    class Doubled(IterDataPipe):
        def __init__(self, source: Any, times: int = 2) -> None:
            self.source, self.times = source, times

        def __iter__(self) -> Iterator[int]:
            return (self.times * one for one in self.source)

    chained = Numbers().doubled_for_a_test(3)
    assert [*chained] == [0, 3, 6, 9] and repr(chained).endswith("Doubled")
    assert [batch.tolist() for batch in DataLoader(chained, batch_size=2)] == [[0, 3], [6, 9]]
    with pytest.raises(Exception, match="already taken"):
        functional_datapipe("doubled_for_a_test")(Doubled)
    with pytest.raises(AttributeError, match="has no attribute 'tripled'"):
        _ = chained.tripled
    with pytest.raises(TypeError, match="can only decorate"):
        functional_datapipe("other")(int)
    assert not hasattr(MapDataPipe(), "doubled_for_a_test")
