"""Errors of workers, under the names of PyTorch's elastic launcher."""

from __future__ import annotations

import pytest

from fastdist.distributed.elastic.multiprocessing.errors import (
    ChildFailedError,
    ErrorHandler,
    ProcessFailure,
    record,
)


def test_record_passes_an_error_to_the_handler_and_on() -> None:
    seen: list[BaseException] = []

    class Handler(ErrorHandler):
        def record_exception(self, e: BaseException) -> None:
            seen.append(e)

    def work(x: int) -> int:
        """Divide."""
        return 6 // x

    recorded = record(work, Handler())
    assert recorded(2) == 3 and recorded.__doc__ == "Divide." and seen == []
    with pytest.raises(ZeroDivisionError) as caught:
        recorded(0)
    assert seen == [caught.value]

    @record
    def plain() -> str:
        return "as it is"

    assert plain() == "as it is"


def test_the_first_failure_is_that_of_the_earliest_time() -> None:
    first = ProcessFailure(1, 11, 1, "", timestamp=5)
    error = ChildFailedError("job", {0: ProcessFailure(0, 10, 1, "", timestamp=7), 1: first})
    assert error.get_first_failure() == (1, first)
    assert str(error) == "job FAILED: workers [0, 1]"
    with pytest.raises(ValueError, match="at least one failure"):
        ChildFailedError("job", {})
