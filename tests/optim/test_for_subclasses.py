"""Private functions of `torch.optim` that other packages import for their optimisers."""

from __future__ import annotations

import pytest

import fastdist
from fastdist.optim import optimizer as private


def leaf(value: float = 1.0, dtype: fastdist.dtype = fastdist.float32) -> fastdist.Tensor:
    return fastdist.tensor([value], dtype=dtype, requires_grad=True)


def test_no_foreach_step_is_chosen_on_the_cpu_and_a_fused_one_where_it_exists() -> None:
    params = [leaf(), leaf()]
    choose = private._default_to_fused_or_foreach
    assert choose(params, differentiable=False) == (False, False)
    assert choose(params, differentiable=False, use_fused=True) == (True, False)
    assert choose(params, differentiable=True, use_fused=True) == (False, False)


def test_columns_are_grouped_by_the_device_and_dtype_of_the_first_list() -> None:
    a, b, c = leaf(), leaf(dtype=fastdist.float64), leaf()
    group = private._group_tensors_by_device_and_dtype
    found = group([[a, b, c], [None, None, a]], True)
    assert {key[1]: places for key, (_, places) in found.items()} == {
        fastdist.float32: [0, 2],
        fastdist.float64: [1],
    }
    lists, _ = found[a.device, a.dtype]
    assert lists[0][1] is c and lists[1] == [None, a]
    assert fastdist.optim.Optimizer._group_tensors_by_device_and_dtype([]) == {}


def test_scalars_come_out_of_tensors() -> None:
    assert private._get_value(fastdist.tensor(2.0)) == 2.0
    assert private._to_scalar(fastdist.tensor([2.0])).shape == ()
    assert private._dispatch_sqrt(9) == 3.0
    assert private._get_scalar_dtype() is fastdist.float32


def test_complex_columns_become_real_views() -> None:
    params, grads = [fastdist.zeros(2, dtype=fastdist.complex64)], [fastdist.zeros(2, 2)]
    grads[0] = fastdist.zeros(2, dtype=fastdist.complex64)
    private._view_as_real(params, grads)
    assert params[0].shape == grads[0].shape == (2, 2)


def test_a_parameter_without_a_fused_step_is_refused() -> None:
    private._device_dtype_check_for_fused(leaf())
    with pytest.raises(RuntimeError, match="floating point Tensors of supported devices"):
        private._device_dtype_check_for_fused(fastdist.tensor([1]))


def test_another_private_name_is_refused_in_words() -> None:
    with pytest.raises(AttributeError, match="_no_such_thing"):
        private._no_such_thing  # noqa: B018
