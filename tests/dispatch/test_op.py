"""A call of an op calls its public function."""

from __future__ import annotations

from typing import Any

import fastdist
from fastdist.dispatch.call import InPlace
from fastdist.dispatch.op import OPS
from fastdist.ops.index.indexing import gather
from fastdist.ops.pointwise.arithmetic import mul, neg


def test_a_called_op_runs_its_public_function() -> None:
    x = fastdist.tensor([1.0, 2.0])
    assert mul(x, 3.0).tolist() == [3.0, 6.0]
    assert mul.__call__ is mul.public
    assert mul(x, other=x).tolist() == [1.0, 4.0]


def test_the_first_call_makes_the_public_function() -> None:
    of: Any = OPS["neg"]
    twin: Any = InPlace(of)
    assert "public" not in vars(twin)
    x = fastdist.tensor([1.0, 2.0])
    assert twin(x) is x
    assert twin.__call__ is twin.public is not neg.public
    assert x.tolist() == [-1.0, -2.0]


def test_a_copy_calls_its_own_public_function() -> None:
    copy: Any = gather.in_steps()
    assert copy.__call__ != gather.__call__
    assert copy.public is not gather.public
