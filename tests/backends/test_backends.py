"""PyTorch's backend switches can be set and read; context managers restore them."""

from __future__ import annotations

import fastdist as fd
from fastdist.backends import cudnn, mkldnn


def test_switches_can_be_set_and_say_what_they_are() -> None:
    assert (cudnn.enabled, cudnn.benchmark, cudnn.deterministic) == (True, False, False)
    with cudnn.flags(enabled=False, benchmark=True, deterministic=True):
        assert (cudnn.enabled, cudnn.benchmark, cudnn.deterministic) == (False, True, True)
    with mkldnn.flags(enabled=False):
        assert not mkldnn.enabled
    assert (cudnn.enabled, cudnn.benchmark, mkldnn.enabled) == (True, False, True)
    fd.backends.cuda.matmul.allow_tf32 = False
    with fd.backends.cuda.sdp_kernel(enable_flash=False):
        assert not fd.backends.cuda.flash_sdp_enabled() and fd.backends.cuda.math_sdp_enabled()
    assert fd.backends.cuda.flash_sdp_enabled()


def test_libraries_that_are_not_in_use_say_so() -> None:
    named = (cudnn, mkldnn, fd.backends.mps, fd.backends.mkl, fd.mps, fd.xpu)
    assert not any(one.is_available() for one in named)
    assert fd.backends.openmp.is_available() and cudnn.version() is None
    assert not fd.backends.mps.is_built() and fd.cpu.is_available()
