"""Files written by PyTorch 2.13 and by fastdist load with the same values and shared memory."""

from __future__ import annotations

import io
import os
import pickle
import sys
from collections import Counter, OrderedDict
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import fastdist
from fastdist import nn, optim
from fastdist.serialization import rebuilding

FILES = Path(__file__).parent / "files"
DTYPES = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64")


def values() -> dict[str, Any]:
    """Return the content of files/tensors.pt."""
    x = fastdist.arange(12.0).reshape(3, 4)
    return {
        "whole": x,
        "row": x[1],
        "turned": x.t(),
        "every_second": x[:, ::2],
        "expanded": x[0, :1].expand(3),
        "scalar": fastdist.tensor(2.5),
        "empty": fastdist.empty(0, 3),
        "leaf": x.clone().requires_grad_(),
        "parameter": nn.Parameter(x[2]),
        "frozen": nn.Parameter(x.clone(), requires_grad=False),
        "dtypes": [fastdist.tensor([0, 1, 2]).to(getattr(fastdist, name)) for name in DTYPES],
        "storage": fastdist.UntypedStorage([1, 2]),
    }


def sparse_values() -> dict[str, Any]:
    """Return the content of files/sparse.pt."""
    coo = fastdist.sparse_coo_tensor
    made = coo([[0, 2, 0], [1, 0, 1]], fastdist.tensor([1.0, 2.0, 3.5]), (3, 3))
    return {
        "as_made": made,
        "coalesced": made.coalesce(),
        "rows": coo([[0, 2]], fastdist.ones(2, 3, dtype=fastdist.float64), (4, 3)),
        "empty": coo(size=(2, 2)),
        "whole": coo([[1]], fastdist.tensor([2]), (3,)),
        "layout": fastdist.sparse_coo,
    }


def plain() -> dict[str, Any]:
    """Return the content of files/plain.pt."""
    return {
        "size": fastdist.Size([1, 2]),
        "dtype": fastdist.float16,
        "devices": (fastdist.device("cpu"), fastdist.device("cuda", 1)),
        "set": {1, 2},
        "bytes": b"\x00\xff",
        "complex": 1j,
        "ordered": OrderedDict(a=1),
        "counter": Counter("aab"),
        "nested": [(1, [2.5, {"k": None}]), True, False],
        "big": 2**100,
        "text": "grün",
        "negative": -7,
        "bytearray": bytearray(b"ab"),
    }


def ours(content: Any, tmp_path: Path, **options: Any) -> Path:
    path = tmp_path / "ours.pt"
    fastdist.save(content, path, **options)
    return path


@pytest.fixture(params=["torch", "ours", "protocol 5"])
def tensors(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return the path of a file of `values()`; PyTorch or fastdist has written the file."""
    if request.param == "torch":
        return FILES / "tensors.pt"
    return ours(values(), tmp_path, pickle_protocol=5 if request.param == "protocol 5" else 2)


@pytest.fixture(params=["torch", "ours", "protocol 5"])
def plain_file(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    if request.param == "torch":
        return FILES / "plain.pt"
    return ours(plain(), tmp_path, pickle_protocol=5 if request.param == "protocol 5" else 2)


@pytest.mark.parametrize("options", [{}, {"weights_only": False}, {"mmap": True}])
def test_tensors_come_back_as_they_were(tensors: Path, options: dict[str, Any]) -> None:
    found = fastdist.load(tensors, **options)
    for name, wanted in values().items():
        for one, want in zip(
            *[[it] if not isinstance(it, list) else it for it in (found[name], wanted)], strict=True
        ):
            assert type(one) is type(want)
            assert one.tolist() == want.tolist()
            if isinstance(want, fastdist.Tensor):
                assert (one.dtype, one.shape, one.stride()) == (
                    want.dtype,
                    want.shape,
                    want.stride(),
                )
                assert one.requires_grad == want.requires_grad and one.is_leaf


@pytest.mark.parametrize("options", [{}, {"weights_only": False}, {"mmap": True}])
@pytest.mark.parametrize("source", ["torch", "ours", "protocol 5"])
def test_sparse_tensors_come_back_with_their_entries(
    source: str, options: dict[str, Any], tmp_path: Path
) -> None:
    path = FILES / "sparse.pt"
    if source != "torch":
        protocol = 5 if source == "protocol 5" else 2
        path = ours(sparse_values(), tmp_path, pickle_protocol=protocol)
    found = fastdist.load(path, **options)
    assert found["layout"] is fastdist.sparse_coo
    for name, wanted in sparse_values().items():
        if name != "layout":
            one = found[name]
            assert (one._layout, one.shape, one.dtype) == (
                wanted._layout,
                wanted.shape,
                wanted.dtype,
            )
            assert one.is_coalesced() == wanted.is_coalesced()
            assert one._indices().tolist() == wanted._indices().tolist()
            assert one._values().tolist() == wanted._values().tolist()


def test_a_parameter_that_is_sparse_stays_one(tmp_path: Path) -> None:
    given = nn.Parameter(sparse_values()["coalesced"])
    found = fastdist.load(ours(given, tmp_path))
    assert type(found) is nn.Parameter and found.is_sparse and found.requires_grad


@pytest.mark.parametrize(
    ("layout", "data"),
    [
        ("torch.sparse_coo", lambda i, v: (i + 9, v, (3, 3), True)),
        ("torch.sparse_coo", lambda i, v: (-i, v, (3, 3))),
        ("torch.sparse_coo", lambda i, v: (i, v, (3,), True)),
        ("torch.sparse_coo", lambda i, v: (i, v)),
        ("torch.sparse_coo", lambda i, v: (1, v, (3, 3))),
        ("torch.sparse_coo", lambda i, v: (i, v, (3, "x"))),
        ("torch.strided", lambda i, v: (i, v, (3, 3))),
    ],
)
def test_sparse_parts_that_do_not_fit_are_refused(layout: str, data: Any) -> None:
    parts = data(fastdist.tensor([[0, 1], [1, 2]]), fastdist.ones(2))
    with pytest.raises((TypeError, ValueError)):
        rebuilding.rebuild_sparse_tensor(rebuilding.get_layout(layout), parts)


def test_other_sparse_layouts_are_refused_by_name() -> None:
    with pytest.raises(NotImplementedError, match=r"the layout 'torch\.sparse_csr'"):
        rebuilding.get_layout("torch.sparse_csr")


@pytest.mark.parametrize("options", [{}, {"weights_only": False}, {"mmap": True}])
def test_what_shared_memory_still_does(tensors: Path, options: dict[str, Any]) -> None:
    before = tensors.read_bytes()
    found = fastdist.load(tensors, **options)
    found["whole"][0, 0] = 99.0
    assert found["turned"][0, 0].item() == 99.0 and found["expanded"].tolist() == [99.0] * 3
    assert found["row"].untyped_storage() == found["whole"].untyped_storage()
    assert found["leaf"][0, 0].item() == 0.0
    assert tensors.read_bytes() == before


@pytest.mark.parametrize("options", [{}, {"weights_only": False}])
def test_plain_values_come_back(plain_file: Path, options: dict[str, Any]) -> None:
    found = fastdist.load(plain_file, **options)
    assert found == plain()
    assert [type(one) for one in found.values()] == [type(one) for one in plain().values()]


def test_a_model_and_its_optimizer_go_on_from_a_file_of_pytorchs() -> None:
    saved = fastdist.load(FILES / "training.pt")
    model = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
    optimizer = optim.Adam(model.parameters(), lr=0.5)
    assert str(model.load_state_dict(saved["model"])) == "<All keys matched successfully>"
    optimizer.load_state_dict(saved["optimizer"])
    np.testing.assert_allclose(model(fastdist.ones(1, 2)).detach().numpy(), saved["y"].numpy())
    assert optimizer.param_groups[0]["lr"] == 0.01 and saved["epoch"] == 3
    assert saved["model"]._metadata[""] == {"version": 1}


def test_a_whole_module_of_pytorchs_loads_where_code_may_run() -> None:
    model = fastdist.load(FILES / "module.pt", weights_only=False)
    saved = fastdist.load(FILES / "training.pt")
    assert type(model) is nn.Sequential and type(model[0]) is nn.Linear
    y = model(fastdist.ones(1, 2))
    np.testing.assert_allclose(y.detach().numpy(), saved["y"].numpy(), rtol=1e-6)
    y.sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_a_whole_module_of_ours_loads(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.Tanh())
    twin = fastdist.load(ours(model, tmp_path), weights_only=False)
    x = fastdist.ones(1, 2)
    assert twin(x).tolist() == model(x).tolist()


def test_a_file_that_needs_more_says_which_and_what_to_do() -> None:
    with pytest.raises(pickle.UnpicklingError, match=r"^Weights only load failed") as caught:
        fastdist.load(FILES / "module.pt")
    text = str(caught.value)
    assert "GLOBAL torch.nn.modules.container.Sequential was not an allowed global" in text
    assert "add_safe_globals([Sequential])" in text and "weights_only=False" in text


def test_safe_globals_let_more_through_for_as_long_as_they_are_there() -> None:
    allowed = [nn.Sequential, nn.Linear, nn.ReLU]
    with fastdist.serialization.safe_globals(allowed):
        assert fastdist.serialization.get_safe_globals() == allowed
        assert type(fastdist.load(FILES / "module.pt")) is nn.Sequential
    assert fastdist.serialization.get_safe_globals() == []
    fastdist.serialization.add_safe_globals([(nn.Linear, "some.where.Linear")])
    assert fastdist.serialization.get_safe_globals() == [(nn.Linear, "some.where.Linear")]
    fastdist.serialization.clear_safe_globals()
    with pytest.raises(pickle.UnpicklingError):
        fastdist.load(FILES / "module.pt")


class Point:
    def __init__(self, x: int) -> None:
        self.x = x


def test_own_classes_pass_once_they_are_added(tmp_path: Path) -> None:
    path = ours({"p": Point(3)}, tmp_path)
    with pytest.raises(pickle.UnpicklingError, match=r"GLOBAL .*Point was not an allowed"):
        fastdist.load(path)
    with fastdist.serialization.safe_globals([Point]):
        assert fastdist.load(path)["p"].x == 3


@pytest.mark.parametrize(
    "place",
    ["sim:1", fastdist.device("sim", 1), {"cpu": "sim:1"}, lambda s, _: s.to(device="sim:1")],
)
def test_map_location_says_where_tensors_go(place: Any) -> None:
    found = fastdist.load(FILES / "tensors.pt", map_location=place)
    assert str(found["row"].device) == "sim:1" and found["row"].tolist() == [4.0, 5.0, 6.0, 7.0]
    assert found["row"].untyped_storage() == found["whole"].untyped_storage()
    assert found["turned"].cpu().tolist() == values()["turned"].tolist()


def test_tensors_of_a_device_go_back_there_or_where_they_are_told(tmp_path: Path) -> None:
    x = fastdist.arange(6.0, device="sim:1").reshape(2, 3)
    path = ours({"x": x, "column": x[:, 1], "p": nn.Parameter(x)}, tmp_path)
    found = fastdist.load(path)
    assert str(found["x"].device) == "sim:1" and found["column"].tolist() == [1.0, 4.0]
    on_cpu = fastdist.load(path, map_location="cpu", mmap=True)
    assert on_cpu["p"].is_cpu and on_cpu["x"].tolist() == x.tolist()
    kept = fastdist.load(path, map_location=lambda storage, place: None)
    assert str(kept["x"].device) == "sim:1"


@pytest.mark.parametrize(
    ("place", "text"),
    [
        (
            "cuda",
            "Attempting to deserialize object on a CUDA device but fastdist.cuda.is_available",
        ),
        (
            "sim:7",
            r"Attempting to deserialize object on SIM device 7 but fastdist.sim.device_count",
        ),
        ("xpu:0", r"don't know how to restore data location .* \(tagged with xpu:0\)"),
    ],
)
def test_devices_that_are_not_here_are_told(
    place: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fastdist.core.errors import DeviceError
    from fastdist.serialization import locations

    backend_of = locations.backend_of

    def without_gpu(kind: str) -> Any:
        if kind == "cuda":
            raise DeviceError("no CuPy")
        return backend_of(kind)

    monkeypatch.setattr(locations, "backend_of", without_gpu)
    with pytest.raises(RuntimeError, match=text):
        fastdist.load(FILES / "tensors.pt", map_location=place)


def test_file_objects_are_read_from_where_they_stand() -> None:
    data = (FILES / "plain.pt").read_bytes()
    stream = io.BytesIO(b"before" + data)
    stream.seek(6)
    assert fastdist.load(stream) == plain()

    class Reader:
        """A file without readinto."""

        def __init__(self) -> None:
            self._stream = io.BytesIO(data)
            self.read, self.seek, self.tell = (
                self._stream.read, self._stream.seek, self._stream.tell,
            )  # fmt: skip

    assert fastdist.load(Reader()) == plain()


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: 3, AttributeError, "has no attribute 'read'"),
        (lambda: io.StringIO("text"), TypeError, "binary mode"),
        (io.BytesIO, EOFError, "Ran out of input"),
        (lambda: io.BytesIO(b"hello world\n" * 9), pickle.UnpicklingError, "text that begins with"),
        (lambda: io.BytesIO(pickle.dumps(1)), pickle.UnpicklingError, "a pickle, which is code"),
        (lambda: io.BytesIO(b"\x93NUMPY...."), pickle.UnpicklingError, "an array of NumPy's"),
        (lambda: io.BytesIO(bytes(range(40))), pickle.UnpicklingError, "the bytes 00 01 02"),
        (lambda: FILES / "script.pt", RuntimeError, "a TorchScript archive"),
        (lambda: FILES, IsADirectoryError, "directory"),
        (lambda: FILES / "none.pt", FileNotFoundError, "No such file"),
    ],
)
def test_what_is_no_such_file_is_told_what_it_is(make: Any, error: Any, text: str) -> None:
    with pytest.raises(error, match=text):
        fastdist.load(make())


def test_complex32_is_read() -> None:
    found = fastdist.load(FILES / "complex32.pt")
    assert found.dtype is fastdist.complex32 and found.tolist() == [1 + 2j]


def test_options_that_do_not_go_together_are_told() -> None:
    with pytest.raises(ValueError, match="f must be a file path in order to use the mmap"):
        fastdist.load(io.BytesIO(), mmap=True)
    with pytest.raises(RuntimeError, match="Can not safely load weights when explicit pickle_mod"):
        fastdist.load(FILES / "plain.pt", weights_only=True, pickle_module=pickle)
    with pytest.raises(TypeError, match="map_location is 3"):
        fastdist.load(FILES / "plain.pt", map_location=3)
    assert fastdist.load(FILES / "plain.pt", pickle_module=pickle) == plain()


def test_big_endian_files_are_turned_round(tmp_path: Path) -> None:
    data = (FILES / "tensors.pt").read_bytes()
    order = data.index(b"little")
    whole = np.arange(12, dtype="<f4").tobytes()
    # The replacement keeps all lengths, so that nothing else moves; the checksums become wrong.
    turned = data.replace(b"little", b"big\x00\x00\x00", 1)
    assert turned[order : order + 3] == b"big" and whole in data
    with pytest.raises(RuntimeError, match="checksum"):
        fastdist.load(io.BytesIO(turned))


def test_loading_has_one_copy_in_memory(tmp_path: Path) -> None:
    import tracemalloc

    path = ours({"x": fastdist.ones(4_000_000)}, tmp_path)
    tracemalloc.start()
    try:
        found = fastdist.load(path)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found["x"].shape == (4_000_000,) and most < 16_000_000 * 1.1
    assert os.path.getsize(path) < 16_000_000 + 4096


def test_memory_of_large_tensors_is_their_own_and_can_be_written(tmp_path: Path) -> None:
    given = fastdist.arange(3 << 20)
    fastdist.save(given, tmp_path / "large.pt")
    one, other = (fastdist.load(tmp_path / "large.pt") for _ in range(2))
    one[0] = 7
    assert other[0].item() == 0 and (one[1:] == given[1:]).all().item()
    assert one.untyped_storage().nbytes() == 24 << 20


class Defined(nn.Module):
    """A class that a program defines in a module below torch."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(1, 1)


def test_classes_in_modules_that_a_program_puts_below_torch_are_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    place = ModuleType("torch.testing._internal.own")
    place.Defined = Defined  # type: ignore[attr-defined]
    monkeypatch.setattr(Defined, "__module__", place.__name__)
    monkeypatch.setitem(sys.modules, place.__name__, place)
    # A PyTorch program that runs on fastdist sees fastdist under this name.
    monkeypatch.setitem(sys.modules, "torch", fastdist)
    file = io.BytesIO()
    fastdist.save(Defined(), file)
    assert isinstance(fastdist.load(io.BytesIO(file.getvalue()), weights_only=False), Defined)
    # If `torch` is PyTorch itself, names below torch are not mapped to fastdist.
    monkeypatch.setitem(sys.modules, "torch", ModuleType("torch"))
    with pytest.raises(AttributeError, match=r"needs torch\.testing\._internal\.own\.Defined"):
        fastdist.load(io.BytesIO(file.getvalue()), weights_only=False)
    monkeypatch.setitem(sys.modules, "torch", fastdist)
    monkeypatch.delattr(place, "Defined")
    with pytest.raises(AttributeError, match=r"needs torch\.testing\._internal\.own\.Defined"):
        fastdist.load(io.BytesIO(file.getvalue()), weights_only=False)
