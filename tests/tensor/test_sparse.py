"""Copies and pickles of sparse tensors consist of coordinates and values."""

from __future__ import annotations

import copy
import pickle

import pytest

import fastdist as fd
from fastdist.distributed.rpc.message import body
from fastdist.tensor.pickling import rebuild_sparse


def sample() -> fd.Tensor:
    return fd.sparse_coo_tensor([[0, 1, 0], [1, 1, 1]], [1.0, 2.0, 3.0], (2, 3)).requires_grad_()


def test_pickled_and_copied_ones_are_the_same() -> None:
    s = sample()
    for twin in (pickle.loads(pickle.dumps(s)), copy.deepcopy(s), copy.copy(s)):
        assert repr(twin) == repr(s) and not twin.is_coalesced()
    assert pickle.loads(pickle.dumps(s.detach().coalesce())).is_coalesced()


def test_a_message_carries_the_parts_as_tensors() -> None:
    s = sample().detach()
    for value in (s, [s, fd.ones(2)]):
        tensors: list[fd.Tensor] = []
        text, encoding = body.serialize(value, tensors)
        assert len(tensors) == (2 if value is s else 3)
        assert repr(body.deserialize(text, encoding, tensors)) == repr(value)


def test_parts_that_do_not_fit_are_refused() -> None:
    places, values = fd.tensor([[0, 9]]), fd.ones(2)
    for given in ((places, values, (3,)), (places, values, (10, 2)), (places[0], values, (10,))):
        with pytest.raises(ValueError, match="do not fit"):
            rebuild_sparse(*given, False, False)


def test_a_parameter_stays_one_through_pickle_and_copies() -> None:
    given = fd.nn.Parameter(fd.sparse_coo_tensor([[0, 2]], fd.tensor([1.0, 2.0]), (3,)))
    given.to_dense().sum().backward()
    for made in (pickle.loads(pickle.dumps(given)), copy.deepcopy(given), copy.copy(given)):
        assert type(made) is fd.nn.Parameter and made.is_sparse and made.requires_grad
        assert made.detach().to_dense().tolist() == [1, 0, 2]
    held = copy.deepcopy(given).grad
    assert held is not None and held.is_sparse and held.to_dense().tolist() == [1, 0, 1]


def test_assert_close_compares_sums_of_entries() -> None:
    one = fd.sparse_coo_tensor([[0, 0]], fd.tensor([1.0, 2.0]), (3,))
    fd.testing.assert_close(one, one.coalesce())
    with pytest.raises(AssertionError, match="Mismatched elements"):
        fd.testing.assert_close(one, one * 2)
    with pytest.raises(AssertionError, match="'layout' do not match"):
        fd.testing.assert_close(one, one.to_dense())
    fd.testing.assert_close(one, one.to_dense(), check_layout=False)
