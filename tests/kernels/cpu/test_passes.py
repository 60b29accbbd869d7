"""The Numba passes that kernels skip exist, and skipping them changes no result."""

from __future__ import annotations

import itertools
import operator
from typing import Any

import numba
import numpy as np
import pytest
from numba.core import compiler, types
from numba.core.registry import cpu_target

from fastdist.kernels.cpu.jit import numba_passes
from fastdist.kernels.cpu.jit.compiler import compiled, entry_point

KINDS = [types.int8, types.int64, types.uint64, types.float32, types.float64, types.boolean]
ONE_NUMBER = (operator.neg, operator.pos, operator.invert)


def test_each_pass_that_is_left_out_is_one_of_numbas() -> None:
    state = compiler.StateDict()
    state.func_ir, state.flags = None, compiler.Flags()
    every = {
        each.__name__ for each, _ in numba_passes._builder.define_nopython_pipeline(state).passes
    }
    left = {
        each.__name__
        for each, _ in numba_passes.passes_with(state, numba_passes._KernelLowering).passes
    }
    assert every - left == {*numba_passes._NEEDLESS, "NativeLowering"}
    assert left - every == {"_KernelLowering"}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", sorted(one.__name__ for one in numba_passes._OPERATORS))
def test_an_operator_of_numbers_is_found_as_numba_finds_it(name: str) -> None:
    what = next(one for one in numba_passes._OPERATORS if one.__name__ == name)
    context: Any = cpu_target.typing_context
    context.refresh()
    ours = numba_passes._Typing(context)
    function = context.resolve_value_type(what)
    given = [*KINDS, types.literal(3), types.literal(True)]
    for args in itertools.product(given, repeat=1 if what in ONE_NUMBER else 2):
        found = []
        for each in (context, ours, ours):
            try:
                found.append(each.resolve_function_type(function, args, {}))
                assert each.resolve_function_type(what, args, {}) == found[-1]
            except numba.core.errors.TypingError:
                found.append(None)
        assert found[0] == found[1] == found[2], args
        if found[2] is not None:
            assert function.get_impl_key(found[2]) == function.get_impl_key(found[0])


def test_functions_of_others_are_typed_by_numba_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def add(x: Any, y: Any) -> Any:
        return x * y + x

    kept: dict[Any, Any] = {}
    monkeypatch.setattr(numba_passes, "_signatures", kept)
    numba.njit((types.float32, types.float32))(add)
    assert not kept
    numba.njit((types.float32, types.float32), pipeline_class=numba_passes.KernelCompiler)(add)
    assert {kind.typing_key for kind, _ in kept} == {operator.mul, operator.add}


def test_a_kernel_gives_what_numbas_own_pipeline_makes_of_it() -> None:
    def moved(x: Any, out: Any, shift: Any) -> None:
        total = np.empty(3, np.float64)
        total[:] = 0.0
        for i in range(len(x)):
            k = i % 3
            total[k] += x[i] ** 2
            out[i] = total[k] / (i // 3 + 1) + min(i, shift) if x[i] > 0 else -total[k]

    x = np.random.default_rng(0).standard_normal(1000)
    found, expected = np.empty_like(x), np.empty_like(x)
    array = numba.float64[::1]
    entry_point(compiled("a sample")(moved), (array, array, numba.int64))(x, found, 7)
    numba.njit(error_model="numpy")(moved)(x, expected, 7)
    np.testing.assert_array_equal(found, expected)
