"""save(_use_new_zipfile_serialization=False) writes the format before 1.6, which PyTorch reads."""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

import pytest

import fastdist
from fastdist import nn

from .make_legacy_files import values
from .test_legacy_reader import FILES, PROTOCOLS, require_same


def saved(value: Any, **options: Any) -> bytes:
    stream = io.BytesIO()
    fastdist.save(value, stream, _use_new_zipfile_serialization=False, **options)
    return stream.getvalue()


@pytest.mark.parametrize("weights_only", [True, False])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_what_is_saved_comes_back(protocol: int, weights_only: bool) -> None:
    content = saved(values(fastdist), pickle_protocol=protocol)
    found = fastdist.load(io.BytesIO(content), weights_only=weights_only)
    require_same(found, values(fastdist))
    found["whole"][1, 0] = 99.0
    assert found["row"][0] == 99.0


def test_a_path_is_written_whole_and_a_module_loads(tmp_path: Path) -> None:
    path, model = tmp_path / "x.pt", nn.Sequential(nn.Linear(2, 1))
    fastdist.save(model, path, _use_new_zipfile_serialization=False)
    twin = fastdist.load(path, weights_only=False)
    assert twin[0].weight.tolist() == model[0].weight.tolist()
    fastdist.save(model.state_dict(), path, _use_new_zipfile_serialization=False)
    assert fastdist.load(path).keys() == model.state_dict().keys()


def test_the_parts_of_a_file_are_those_of_pytorchs() -> None:
    # For the same values, PyTorch and fastdist write equal pickles, followed by the same bytes.
    for protocol in PROTOCOLS:
        ours = io.BytesIO(saved(fastdist.arange(3.0), pickle_protocol=protocol))
        theirs = io.BytesIO((FILES / f"legacy_{protocol}.pt").read_bytes())
        for _ in range(3):
            assert pickle.load(ours) == pickle.load(theirs)
    content = saved(fastdist.arange(3.0))
    assert content.endswith((3).to_bytes(8, "little") + fastdist.arange(3.0).numpy().tobytes())


def test_another_pickle_module_writes_it_too() -> None:
    class Other:
        """A pickle module that a user passes to save()."""

        Pickler = pickle._Pickler  # type: ignore[attr-defined]

    content = saved({"x": fastdist.ones(2)}, pickle_module=Other)
    found = fastdist.load(io.BytesIO(content), weights_only=False)
    assert found["x"].tolist() == [1.0, 1.0]


def test_memory_of_devices_and_empty_tensors() -> None:
    content = saved([fastdist.ones(2, device="sim:1"), fastdist.empty(0, 3), fastdist.tensor(2)])
    one, empty, number = fastdist.load(io.BytesIO(content))
    assert str(one.device) == "sim:1" and empty.shape == (0, 3) and number.item() == 2
