"""A carrier's abilities follow from its base class, not from its attributes."""

from __future__ import annotations

from typing import Any

import pytest

import fastdist as fd
from fastdist import distributed as dist
from fastdist.distributed.process_group.alone import Alone
from fastdist.distributed.process_group.carriers import GroupingTransport, QueueingCarrier
from fastdist.distributed.process_group.device_transport import DeviceTransport
from fastdist.distributed.process_group.foreign import ForeignGroup
from fastdist.distributed.process_group.memory import HOST, memory_of
from fastdist.distributed.process_group.nccl import NcclCarrier


def test_carriers_of_gpus_have_their_abilities_and_those_of_the_cpu_do_not() -> None:
    assert issubclass(NcclCarrier, QueueingCarrier)
    assert issubclass(DeviceTransport, GroupingTransport)
    assert not isinstance(Alone(), QueueingCarrier | GroupingTransport)


def test_a_carrier_that_lacks_a_method_of_its_ability_cannot_be_made() -> None:
    class Half(QueueingCarrier):
        def start(self, *args: Any, **named: Any) -> Any:
            return None

    with pytest.raises(TypeError, match=r"abstract methods.*abort.*start_message"):
        Half()  # type: ignore[abstract]


def test_attributes_of_a_transport_give_it_no_ability() -> None:
    class Busy(Alone):
        memory = start = start_message = start_batch = grouped = grouped_calls = None
        count = 5

    group = dist.ProcessGroup(0, 1)
    group._carriers["gloo"] = carrier = Busy()
    x = fd.ones(2)
    group.allreduce([x]).wait()
    group.allreduce_coalesced([x]).wait()
    group.allgather_into_tensor_coalesced([fd.zeros(2)], [x]).wait()
    assert memory_of(carrier) is HOST
    # One allreduce, one coalesced call and one gather; the carrier's own count is ignored.
    assert group._get_sequence_number_for_group() == 3
    group.shutdown()


@pytest.mark.parametrize(
    ("methods", "expected"),
    [
        ((), []),
        (("shutdown",), ["shutdown"]),
        (("abort", "shutdown"), ["abort", "shutdown"]),
        (("close", "shutdown"), ["close"]),
    ],
)
def test_objects_of_programs_are_ended_by_the_methods_that_they_have(
    methods: tuple[str, ...], expected: list[str]
) -> None:
    called: list[str] = []

    def noting(name: str) -> Any:
        return lambda *_: called.append(name)

    theirs = type("Theirs", (), {name: noting(name) for name in methods})()
    group = ForeignGroup(0, 1)
    group.foreign = group._carriers["theirs"] = theirs
    assert not group.is_transport()
    group.abort()
    assert called == expected
