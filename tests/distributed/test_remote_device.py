"""The string format of a device on another worker."""

from __future__ import annotations

import pytest

import fastdist.distributed
from fastdist.core.errors import DeviceError
from fastdist.distributed.remote_device import _remote_device


@pytest.mark.parametrize(
    ("text", "worker", "rank", "device"),
    [
        ("ps/cpu", "ps", None, "cpu"),
        ("ps/cuda:1", "ps", None, "cuda:1"),
        ("ps", "ps", None, "cpu"),
        ("rank:3/cpu", None, 3, "cpu"),
        ("rank:3", None, 3, "cpu"),
        ("cpu", None, None, "cpu"),
        ("cuda:1", None, None, "cuda:1"),
    ],
)
def test_a_remote_device_is_a_worker_and_a_device(
    text: str, worker: str | None, rank: int | None, device: str
) -> None:
    found = _remote_device(text)
    assert (found.worker_name(), found.rank(), str(found.device())) == (worker, rank, device)
    assert found == _remote_device(repr(found)) and hash(found) == hash(_remote_device(repr(found)))


@pytest.mark.parametrize("text", ["", "/cpu", "a/b/cpu", "rank:x/cpu", "host:1/cpu", "rank:1:2"])
def test_what_is_written_otherwise_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"^Could not parse remote_device: "):
        _remote_device(text)


def test_a_device_alone_is_one_of_this_worker_and_no_device_is_an_error() -> None:
    assert repr(_remote_device(fastdist.device("cuda:1"))) == "cuda:1"
    with pytest.raises(DeviceError, match="tpu"):
        _remote_device("ps/tpu")
    with pytest.raises(TypeError, match=r"^Invalid type for remote_device: <class 'int'>"):
        _remote_device(3)  # type: ignore[arg-type]


def test_pytorch_has_it_at_the_top_as_well() -> None:
    assert fastdist.distributed._remote_device is _remote_device
