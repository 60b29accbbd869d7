"""Names of devices: equality, spelling of indices, and the devices of tensors."""

from __future__ import annotations

import pickle

import pytest

import fastdist as fd


def test_a_cpu_with_an_index_is_a_name_of_its_own() -> None:
    named = fd.device("cpu:0")
    assert str(named) == "cpu:0" and repr(named) == "device(type='cpu', index=0)"
    assert named.index == 0 and named != fd.device("cpu")
    assert named is fd.device("cpu", 0) is pickle.loads(pickle.dumps(named))


def test_tensors_made_on_a_cpu_with_an_index_are_on_the_cpu() -> None:
    for x in (
        fd.ones(2, device="cpu:0"),
        fd.ones(2).to("cpu:1"),
        fd.rand(2, device=fd.device("cpu", 0)),
        fd.as_tensor([1.0, 2.0], device="cpu:0"),
        fd.nn.Linear(2, 2).to("cpu:0").weight,
    ):
        assert x.device is fd.device("cpu") and (x + fd.ones(2)).device is fd.device("cpu")
    assert fd.Generator("cpu:0").device is fd.device("cpu")


@pytest.mark.parametrize("name", ["cpu:", "cpu:00", "cpu:-1", "cpu:a", "cuda:01"])
def test_an_index_is_written_in_one_way(name: str) -> None:
    with pytest.raises(RuntimeError, match=f"Invalid device string: '{name}'"):
        fd.device(name)


def test_devices_of_other_machines_are_named_and_compared_and_hold_no_tensor() -> None:
    for kind in ("mps", "xpu", "hpu", "xla", "privateuseone"):
        named = fd.device(kind)
        assert (named.type, named.index) == (kind, None) and named != fd.device("cpu")
        assert named is fd.device(kind) is pickle.loads(pickle.dumps(named))
        assert str(fd.device(kind, 1)) == f"{kind}:1"
        module = fd.nn.Linear(2, 2)
        for use in (fd.ones(2).to, fd.ones(2).new_zeros(2).to, module.to, fd.set_default_device):
            with pytest.raises(RuntimeError, match=f"{kind}: no such device here; available are"):
                use(named)
        with pytest.raises(RuntimeError, match=f"{kind}: no such device here; available are"):
            fd.ones(2, device=named)
