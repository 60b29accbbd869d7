"""The error of a pass keeps its class on every worker, and says where it occurred."""

from __future__ import annotations

import errno
import pickle

import pytest

import fastdist.distributed.autograd as da
from fastdist import Tensor
from fastdist.core.errors import GraphError
from fastdist.distributed import rpc
from fastdist.distributed.autograd.node_errors import with_node_named
from tests.distributed.autograd.fake_agent import FakeAgent
from tests.distributed.autograd.on_worker import on_worker
from tests.distributed.autograd.programs import leaf, with_hook


class OfTwo(Exception):
    """An error that passes all its arguments to Exception, and has a slot and an attribute."""

    __slots__ = ("first",)

    def __init__(self, first: str, second: int) -> None:
        super().__init__(first, second)
        self.first, self.second = first, second


class OfText(Exception):
    """An error that passes to Exception a text instead of its own arguments."""

    def __init__(self, first: str, second: int) -> None:
        super().__init__(f"{first} and {second}")


class OwnWords(RuntimeError):
    """An error that defines `__str__`."""

    def __str__(self) -> str:
        return "own words"


class NoWords(Exception):
    """An error whose `__str__` raises."""

    def __str__(self) -> str:
        raise ValueError


class Final(Exception):
    """An error whose class forbids subclasses."""

    def __init_subclass__(cls) -> None:
        raise TypeError("nobody inherits")


NO_FILE = FileNotFoundError(errno.ENOENT, "No such file", "name")
NO_TEXT = UnicodeDecodeError("ascii", b"\xff", 0, 1, "not in range")
TOLD = [
    (ValueError("bad"), ValueError, "bad"),
    (ValueError(), ValueError, ""),
    (RuntimeError("bad"), RuntimeError, "bad"),
    (Exception("bad"), GraphError, "bad"),
    (KeyError("key"), KeyError, "'key'"),
    (KeyError(4), KeyError, "4"),
    (OfTwo("one", 2), OfTwo, "('one', 2)"),
    (OfText("one", 2), OfText, "one and 2"),
    (OwnWords("given"), OwnWords, "own words"),
    (NoWords("given"), NoWords, "(its text is not available: ValueError)"),
    (Final("given"), GraphError, "Final: given"),
    (NO_FILE, FileNotFoundError, str(NO_FILE)),
    (NO_TEXT, UnicodeDecodeError, str(NO_TEXT)),
]


@pytest.mark.seed("E28")
@pytest.mark.parametrize(("error", "kind", "text"), TOLD)
def test_an_error_keeps_its_class_and_says_once_where_it_was(
    agent: FakeAgent, error: Exception, kind: type[Exception], text: str
) -> None:
    named = with_node_named(error)
    travelled = pickle.loads(pickle.dumps(named))
    for told in (named, with_node_named(named), with_node_named(travelled)):
        assert isinstance(told, kind) and isinstance(told, RuntimeError)
        assert str(told) == f"Error on Node 3: {text}"
    assert named.__cause__ is error
    if len(error.args) > 1:
        assert named.args == error.args


def fail_in_two(grad: Tensor) -> Tensor:
    raise OfTwo("one", 2)


@pytest.mark.seed("E28", "E33")
@on_worker(0)
def test_an_error_of_two_arguments_comes_through_two_workers_as_it_is() -> None:
    with da.context() as context_id:
        z = rpc.rpc_sync("w1", rpc.rpc_sync, ("w2", with_hook, (leaf(1) * 1, fail_in_two)))
        with pytest.raises(OfTwo) as caught:
            da.backward(context_id, [z.sum()])
    assert str(caught.value) == "Error on Node 2: ('one', 2)"
    assert isinstance(caught.value, RuntimeError)
    assert caught.value.args == (caught.value.first, caught.value.second) == ("one", 2)


def fail_without_words(grad: Tensor) -> Tensor:
    raise NoWords("given")


@pytest.mark.seed("E28", "E33")
@pytest.mark.parametrize("way", ["w1", "w2"])
@on_worker(0)
def test_an_error_whose_text_fails_ends_the_pass_as_any_other(way: str) -> None:
    with da.context() as context_id:
        z = rpc.rpc_sync("w1", rpc.rpc_sync, (way, with_hook, (leaf(1) * 1, fail_without_words)))
        with pytest.raises(RuntimeError) as caught:
            da.backward(context_id, [z.sum()])
    assert type(caught.value).__name__ in ("NoWords", "RemoteError")
    assert str(caught.value).startswith(f"Error on Node {way[1]}: (its text is not available")
    assert da._get_debug_info()["num_current_backward_passes"] == 0
