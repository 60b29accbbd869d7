"""Tangents of views follow the tangents of their base."""

from __future__ import annotations

import fastdist as fd
from fastdist.autograd import forward_ad


def test_a_view_sees_each_new_tangent_of_its_base() -> None:
    with forward_ad.dual_level():
        base = fd.zeros(4)
        view = base[:2]
        view.copy_(forward_ad.make_dual(fd.ones(2), fd.full((2,), 5.0)))
        assert forward_ad.unpack_dual(base).tangent.tolist() == [5.0, 5.0, 0.0, 0.0]
        assert forward_ad.unpack_dual(view).tangent.tolist() == [5.0, 5.0]
        base.copy_(forward_ad.make_dual(fd.ones(4), fd.full((4,), 7.0)))
        assert forward_ad.unpack_dual(view).tangent.tolist() == [7.0, 7.0]
        base.zero_()
        assert forward_ad.unpack_dual(view).tangent.tolist() == [0.0, 0.0]
