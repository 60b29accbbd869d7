"""Composites check whether their result needs a gradient or a tangent."""

from __future__ import annotations

import fastdist as fd
from fastdist.autograd import forward_ad
from fastdist.dispatch.tangents import has_tangents, is_differentiated, is_recorded


def test_a_tensor_without_a_tangent_has_none_while_others_have() -> None:
    plain = fd.ones(2)
    assert not has_tangents((plain,))
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(fd.ones(2), fd.ones(2))
        assert not has_tangents((plain, 3.0)) and not is_differentiated(plain)
        assert has_tangents((plain, dual)) and is_differentiated(plain, dual)


def test_a_result_is_recorded_where_an_operand_has_an_edge_and_grad_mode_is_on() -> None:
    leaf = fd.ones(2, requires_grad=True)
    assert is_recorded((3.0, leaf)) and not is_recorded((fd.ones(2),))
    with fd.no_grad():
        assert not is_recorded((leaf,))


def test_a_batch_is_differentiated_where_what_it_holds_is() -> None:
    def asked(x: fd.Tensor) -> fd.Tensor:
        seen.append(is_differentiated(x))
        return (x * x).sum()

    seen: list[bool] = []
    fd.func.vmap(asked)(fd.ones(2, 3))
    fd.func.vmap(fd.func.grad(asked))(fd.ones(2, 3))
    assert seen == [False, True]
