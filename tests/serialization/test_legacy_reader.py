"""Files in the format before PyTorch 1.6: their values, their rules, and errors if damaged."""

from __future__ import annotations

import io
import pickle
import random
import tracemalloc
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest

import fastdist
from fastdist import nn
from fastdist.serialization import safe_globals

from .forging import joined, named, number, text
from .make_legacy_files import DTYPES, values
from .old_files import MAGIC, floats, legacy, stored, tensor

FILES = Path(__file__).parent / "files"
PROTOCOLS = (2, 3, 4, 5)
FOUR = {"a": (4, floats(0, 1, 2, 3))}


def load(content: bytes, **options: Any) -> Any:
    return fastdist.load(io.BytesIO(content), **options)


def require_same(found: Any, wanted: Any) -> None:
    if isinstance(wanted, dict):
        assert type(found) is type(wanted) and found.keys() == wanted.keys()
        for key, one in wanted.items():
            require_same(found[key], one)
    elif isinstance(wanted, list):
        for one, other in zip(found, wanted, strict=True):
            require_same(one, other)
    elif isinstance(wanted, fastdist.Tensor):
        assert (type(found), found.dtype, found.shape) == (type(wanted), wanted.dtype, wanted.shape)
        assert found.requires_grad == wanted.requires_grad and found.is_sparse == wanted.is_sparse
        if wanted.is_sparse:
            found, wanted = found.to_dense(), wanted.to_dense()
        assert found.tolist() == wanted.tolist() and found.stride() == wanted.stride()
    else:
        assert found == wanted


@pytest.mark.parametrize("weights_only", [True, False])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_files_of_pytorchs_hold_what_was_saved(protocol: int, weights_only: bool) -> None:
    found = fastdist.load(FILES / f"legacy_{protocol}.pt", weights_only=weights_only)
    require_same(found, values(fastdist))
    assert [one.dtype for one in found["numbers"]] == [getattr(fastdist, one) for one in DTYPES]
    found["whole"][1, 0] = 99.0
    assert found["row"][0] == 99 and found["turned"][0, 1] == 99 and found["parameter"][0] == 8
    assert found["row"].untyped_storage() == found["whole"].untyped_storage()


def test_files_before_named_no_protocol_but_the_second() -> None:
    assert fastdist.load(FILES / "legacy.pt")["x"].shape == (3, 4)


def test_a_whole_module_loads_where_code_may_run() -> None:
    path = FILES / "legacy_module.pt"
    with pytest.raises(pickle.UnpicklingError, match=r"GLOBAL torch\.nn\..*Sequential was not"):
        fastdist.load(path)
    model = fastdist.load(path, weights_only=False)
    assert type(model) is nn.Sequential and model[0].weight.tolist()[1] == [2.0, 3.0]
    with safe_globals([nn.Sequential, nn.Linear, nn.ReLU]):
        twin = fastdist.load(path)
    x = fastdist.ones(1, 2)
    assert twin(x).tolist() == model(x).tolist()


@pytest.mark.parametrize("weights_only", [True, False])
def test_classes_with_their_source_are_classes(weights_only: bool) -> None:
    kind = named("torch.nn.modules.linear", "Identity")
    saved = joined(text("module"), kind, text("linear.py"), text("class Identity: ...")) + b"Q"
    with safe_globals([nn.Identity]):
        assert load(legacy(saved, {}), weights_only=weights_only) is nn.Identity
    with pytest.raises(pickle.UnpicklingError, match="not an allowed global"):
        load(legacy(saved, {}))


def test_quantised_tensors_are_refused_by_name() -> None:
    with pytest.raises(NotImplementedError, match="this file holds qint8"):
        fastdist.load(FILES / "legacy_quantised.pt")


def test_code_is_refused_as_in_the_format_of_today() -> None:
    for value in (named("os", "system") + text("id") + b"\x85R", named("builtins", "eval")):
        with pytest.raises(pickle.UnpicklingError, match=r"os\.system|builtins\.eval"):
            load(legacy(value, {}))


def test_tensors_go_where_map_location_says() -> None:
    for place in ("sim:1", {"cpu": "sim:1"}, lambda storage, _: storage.to(device="sim:1")):
        found = fastdist.load(FILES / "legacy_2.pt", map_location=place)
        assert str(found["row"].device) == "sim:1" and found["row"].tolist() == [4.0, 5.0, 6.0, 7.0]
        assert found["row"].untyped_storage() == found["whole"].untyped_storage()


def test_files_are_not_mapped() -> None:
    with pytest.raises(RuntimeError, match="mmap can only be used with files saved with"):
        fastdist.load(FILES / "legacy_2.pt", mmap=True)


def test_values_follow_one_another_in_a_stream() -> None:
    one = legacy(tensor(stored("Float", "a", 4), [4]), FOUR)
    stream = io.BytesIO(b"before" + one + one + b"behind")
    stream.seek(6)
    for _ in range(2):
        assert fastdist.load(stream).tolist() == [0.0, 1.0, 2.0, 3.0]
    assert stream.read() == b"behind"

    class Reader:
        """A file without readinto and readline."""

        def __init__(self) -> None:
            held = io.BytesIO(one)
            self.read, self.seek, self.tell = held.read, held.seek, held.tell

    assert fastdist.load(Reader()).tolist() == [0.0, 1.0, 2.0, 3.0]


def part(first: int, count: int) -> bytes:
    return joined(text("b"), number(first), number(count))


def test_parts_of_storages_share_memory() -> None:
    # Files that PyTorch wrote before 0.4 may contain parts of storages.
    whole = tensor(stored("Float", "a", 4), [4])
    other = tensor(stored("Float", "a", 4, part(1, 2)), [2])
    found = load(legacy(joined(whole, other), FOUR))
    assert found[1].tolist() == [1.0, 2.0]
    found[0][2] = 7.0
    assert found[1].tolist() == [1.0, 7.0]


def test_files_that_python_2_wrote() -> None:
    # In files of Python 2, strings are bytes and an OrderedDict is made from lists. Storages of a
    # GPU are in a separate module.
    key = b"U\x06weight"
    storage = joined(
        b"U\x07storage", named("torch.cuda", "FloatStorage"), b"U\x01a", b"U\x03cpu",
        number(4), b"N",
    ) + b"Q"  # fmt: skip
    pair = b"](" + key + tensor(storage, [4]) + b"e"
    value = named("collections", "OrderedDict") + b"](" + pair + b"e\x85R"
    content = legacy(value, FOUR)
    found = load(content)
    assert type(found) is OrderedDict and found["weight"].tolist() == [0.0, 1.0, 2.0, 3.0]
    odd = legacy(b"U\x01\xfc", {})
    with pytest.raises(pickle.UnpicklingError, match=r"not utf-8 .* such as encoding='latin1'"):
        load(odd)
    assert load(odd, encoding="latin1") == "ü" and load(odd, encoding="bytes") == b"\xfc"
    assert load(odd, weights_only=False, encoding="latin1") == "ü"


WHOLE = tensor(stored("Float", "a", 4), [4])


@pytest.mark.one_in(5)
@pytest.mark.parametrize(
    ("content", "words"),
    [
        (legacy(WHOLE, {"a": (5, floats(0, 1, 2, 3, 4))}), "should hold 16 bytes"),
        (legacy(WHOLE, {"a": (1 << 60, b"")}), "should hold 16 bytes"),
        (legacy(WHOLE, {"a": (-1, b"")}), "should hold 16 bytes"),
        (legacy(WHOLE, {"a": (4, floats(0, 1))}), "16 bytes should follow, and 8 are left"),
        (legacy(WHOLE, {}), "the file has 0 storages, and its value names 1"),
        (legacy(WHOLE, {**FOUR, "b": (1, floats(1))}), "the file has 2 storages"),
        (legacy(WHOLE, FOUR, keys=["a", "a"]), "the file has 2 storages"),
        (legacy(WHOLE, FOUR, keys=[1]), "keys of storages are a list of texts"),
        (legacy(WHOLE, FOUR, keys="a"), "keys of storages are a list of texts, not 'a'"),
        (legacy(tensor(stored("Float", "a", 1 << 60), [4]), FOUR), "should hold"),
        (legacy(tensor(stored("Float", "a", -4), [4]), FOUR), "should hold"),
        (legacy(tensor(stored("Float", "a", 4), [5]), FOUR), "out of bounds"),
        (legacy(tensor(stored("Float", "a", 4), [4], 1), FOUR), "out of bounds"),
        (legacy(tensor(stored("Float", "a", 4), [4], 0, 1 << 61), FOUR), "out of bounds"),
        (legacy(tensor(stored("Float", "a", 4), [4], -1), FOUR), "invalid storage offset"),
        (legacy(joined(WHOLE, stored("Double", "a", 4)), FOUR), "has two lengths"),
        (legacy(joined(WHOLE, stored("Float", "a", 3)), FOUR), "has two lengths"),
        (
            legacy(stored("Float", "a", 4, joined(text("b"), number(3), number(2))), FOUR),
            "not a pa",
        ),
        (
            legacy(stored("Float", "a", 4, joined(text("b"), number(-1), number(2))), FOUR),
            "not a p",
        ),
        (legacy(stored("Float", "a", 4, number(1)), FOUR), "a part of a storage is not written as"),
        (legacy(number(1) + b"Q", {}), "a storage is not written as 1"),
        (legacy(joined(text("module"), number(1), b"N", b"N") + b"Q", {}), "a class is not writ"),
        (legacy(named("torch", "IntStorage") + b"Q", {}), "a storage is not written as"),
        (legacy(b"N", {}, version=1000), "Invalid protocol version: 1000, expected 1001"),
        (legacy(b"N", {}, version="x" * (1 << 17)), "the head of the file has"),
        (legacy(b"N" + b"t", {}), "the pickle at byte [0-9]+ is damaged"),
        (legacy(b"\x8e" + b"\xff" * 8, {}), "bytes should follow|is damaged, or cut off"),
        (legacy(b"c" + b"a" * (1 << 17) + b"\nb\n", {}), "cut off, or far too long"),
    ],
)
@pytest.mark.parametrize("weights_only", [True, False])
def test_files_that_lie_fail_in_words(content: bytes, words: str, weights_only: bool) -> None:
    tracemalloc.start()
    try:
        with pytest.raises((RuntimeError, pickle.UnpicklingError, IndexError), match=words):
            load(content, weights_only=weights_only)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 4_000_000


def test_bytes_behind_the_last_storage_of_a_file_are_told(tmp_path: Path) -> None:
    path = tmp_path / "x.pt"
    path.write_bytes(legacy(WHOLE, FOUR) + b"more")
    with pytest.raises(RuntimeError, match="4 bytes follow the last storage of the file"):
        fastdist.load(path)


@pytest.mark.parametrize("weights_only", [True, False])
def test_a_path_with_several_values_gives_the_first(tmp_path: Path, weights_only: bool) -> None:
    path = tmp_path / "x.pt"
    other = legacy(tensor(stored("Float", "a", 1), [1]), {"a": (1, floats(9))}, protocol=4)
    path.write_bytes(legacy(WHOLE, FOUR) + other)
    assert fastdist.load(path, weights_only=weights_only).tolist() == [0.0, 1.0, 2.0, 3.0]


def test_a_file_that_is_cut_off_anywhere_is_an_error() -> None:
    content = (FILES / "legacy_2.pt").read_bytes()
    numbers = random.Random(0)
    for length in {*range(1, 60), *(numbers.randrange(len(content)) for _ in range(60))}:
        with pytest.raises((RuntimeError, pickle.UnpicklingError)):
            load(content[:length])


@pytest.mark.parametrize("count", [400, pytest.param(20_000, marks=pytest.mark.slow)])
def test_any_flipped_bits_are_an_error_or_change_values_alone(count: int) -> None:
    # The files have no checksums, so numbers may change, but nothing outside of the file is read.
    numbers = random.Random(count)
    contents = [(FILES / f"legacy_{protocol}.pt").read_bytes() for protocol in PROTOCOLS]
    allowed = (
        RuntimeError, pickle.UnpicklingError, EOFError, ValueError, TypeError, NotImplementedError,
    )  # fmt: skip
    for _ in range(count):
        damaged = bytearray(numbers.choice(contents))
        for _ in range(numbers.randrange(1, 4)):
            damaged[numbers.randrange(len(damaged))] ^= 1 << numbers.randrange(8)
        try:
            found = load(bytes(damaged))
        except allowed:
            continue
        if isinstance(found, dict) and isinstance(found.get("whole"), fastdist.Tensor):
            assert found["whole"].numel() <= 1000 and len(found["whole"].tolist()) >= 0


def test_texts_of_protocol_0_are_walked_over_without_a_warning() -> None:
    # Python's parser warns about such a backslash, and the user may have made warnings errors.
    with pytest.raises(pickle.UnpicklingError, match="Unsupported operand 83"):
        load(legacy(b"S'a\\ b'\n", {}))


def test_no_file_is_called_a_pickle_to_be_read() -> None:
    for content in (pickle.dumps(1), pickle.dumps([1], 4), pickle.dumps(MAGIC + 1, 2)):
        with pytest.raises(pickle.UnpicklingError) as caught:
            load(content)
        text = str(caught.value)
        assert "pickle.load" not in text and "unless you trust who made it" in text
