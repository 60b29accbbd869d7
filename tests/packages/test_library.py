"""Operators that programs define, and `torch.ops`, which calls operators."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Sequence
from typing import Any

import pytest

import fastdist as fd
from fastdist import library
from fastdist._ops import HigherOrderOperator, OpOverload, OpOverloadPacket, ops
from fastdist.core.aten_names import REFUSED

aten: Any = ops.aten


def test_operators_call_our_functions() -> None:
    x, y = fd.tensor([1.0, 2.0]), fd.tensor([3.0, 4.0])
    assert aten.add.Tensor(x, y).tolist() == aten.add(x, y).tolist() == [4, 6]
    assert aten.add.Tensor(x, y, alpha=2).tolist() == [7, 10]
    assert aten.mul.Scalar(x, 3).tolist() == [3, 6]
    assert aten.sum.dim_IntList(x, [0], True).tolist() == [3]
    assert aten.view.default(x, [2, 1]).shape == (2, 1)
    assert aten.linalg_norm.default(y).item() == 5
    assert aten._softmax.default(fd.zeros(2), 0).tolist() == [0.5, 0.5]
    assert aten.slice.Tensor(fd.arange(6).reshape(2, 3), -1, 0, 3, 2).tolist() == [[0, 2], [3, 5]]
    assert aten.sym_size.int(x, 0) == 2 and aten._local_scalar_dense.default(fd.tensor(3)) == 3
    copied = aten._to_copy.default(x, dtype=fd.float64)
    assert copied.dtype == fd.float64 and aten._to_copy.default(x) is not x
    viewed = aten.alias.default(x)
    assert viewed.data_ptr() == x.data_ptr() and viewed is not x
    aten.add_.Tensor(x, 1)
    assert x.tolist() == [2, 3]
    assert fd.ops.aten.add is aten.add


def test_operators_print_and_name_themselves_as_in_pytorch() -> None:
    assert repr(aten.add) == "<OpOverloadPacket(op='aten.add')>" and str(aten.add) == "aten.add"
    assert repr(aten.add.Tensor) == "<OpOverload(op='aten.add', overload='Tensor')>"
    assert str(aten.add.Tensor) == "aten.add.Tensor" and aten.add.Tensor.__name__ == "add.Tensor"
    assert aten.add.Tensor.name() == "aten::add.Tensor" and aten.relu.default.name() == "aten::relu"
    assert aten.add.Tensor is aten.add.Tensor is copy.deepcopy(aten.add.Tensor)
    assert aten.add.Tensor.overloadpacket is aten.add is copy.deepcopy(aten.add)
    assert isinstance(aten.add, OpOverloadPacket) and isinstance(aten.add.Tensor, OpOverload)
    assert aten.add.Tensor.namespace == "aten" and "add" in [*aten]
    assert "Tensor" in aten.add.overloads()


def test_operators_that_are_missing_can_be_named_and_refuse() -> None:
    table = {aten._pin_memory.default: 1, aten.native_layer_norm.default: 2}
    with pytest.raises(NotImplementedError, match=r"torch\.ops\.aten\._pin_memory: fastdist does"):
        next(iter(table))(fd.ones(1))
    with pytest.raises(AttributeError, match="'_OpNamespace' 'aten' object has no attribute 'qwy'"):
        _ = aten.qwy
    with pytest.raises(AttributeError, match="'_OpNamespace' 'mine' object has no attribute 'qwy'"):
        _ = ops.mine.qwy
    with pytest.raises(OSError, match=r"Could not load this library: /x.so"):
        ops.load_library("/x.so")
    with pytest.raises(NotImplementedError, match="no dispatcher"):
        HigherOrderOperator("x")
    here = sorted(name for name in REFUSED if callable(getattr(fd, name, None)))
    assert here == [], "these are here by now: remove them from core/aten_names.py"


def scaled(name: str) -> library.CustomOpDef:
    @library.custom_op(name, mutates_args=())
    def scale(x: fd.Tensor, by: float = 2.0, *, plus: float = 0.0) -> fd.Tensor:
        return x * by + plus

    made: library.CustomOpDef = scale
    return made


def test_a_custom_op_computes_and_has_the_gradient_that_was_registered() -> None:
    scale = scaled("tests::scale")

    def setup(ctx: Any, inputs: Any, keyword_only_inputs: Any, output: Any) -> None:
        assert len(inputs) == 2 and keyword_only_inputs == {"plus": 1.0}
        ctx.by = inputs[1]
        ctx.save_for_backward(output)

    scale.register_autograd(lambda ctx, g: (g * ctx.by, None), setup_context=setup)
    x = fd.ones(2, requires_grad=True)
    scale(x, by=5.0, plus=1.0).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [5, 5]
    operator: Any = ops.tests.scale
    assert operator(fd.ones(1)).tolist() == operator.default(fd.ones(1), 2.0).tolist() == [2]
    assert operator.overloads() == ["default"] and repr(scale) == "<CustomOpDef(tests::scale)>"
    with pytest.raises(AttributeError, match="has no overload name 'Tensor'"):
        _ = operator.Tensor
    with fd.no_grad():
        assert not scale(x).requires_grad


def test_without_a_formula_the_backward_says_so() -> None:
    scale = scaled("tests::plain")
    result = scale(fd.ones(2, requires_grad=True))
    words = r"Trying to backward through tests\.plain\.default but no autograd formula"
    with pytest.raises(RuntimeError, match=words):
        result.sum().backward()


def test_kernels_are_chosen_by_device() -> None:
    library.define("tests::by_device", "(Tensor x, int n=1) -> Tensor")
    operator: Any = ops.tests.by_device
    with pytest.raises(NotImplementedError, match=r"Could not run 'tests::by_device' .*'CPU'"):
        operator(fd.ones(1))
    library.impl("tests::by_device", "cuda", lambda x, n=1: x)
    with pytest.raises(NotImplementedError, match=r"it has kernels for \['cuda'\]"):
        operator(fd.ones(1))

    @library.impl("tests::by_device", "CPU")
    def on_cpu(x: fd.Tensor, n: int) -> fd.Tensor:
        return x + n

    assert operator(fd.ones(1), n=3).tolist() == [4]
    library.register_kernel("tests::by_device", "cpu", lambda x, n: x - n)
    assert operator(fd.ones(1)).tolist() == [0]
    with pytest.raises(TypeError, match="missing a required argument"):
        operator()


def test_a_library_defines_operators_with_overloads_and_direct_kernels() -> None:
    lib = library.Library("tests_lib", "DEF")
    assert lib.define("double.Tensor(Tensor x) -> Tensor") == "double.Tensor"
    lib.define("double.Scalar(Tensor x, Scalar n) -> Tensor")
    lib.impl("double.Tensor", lambda x: x * 2, "CompositeImplicitAutograd")
    lib.impl("double.Scalar", lambda x, n: x * 2 * n, "CompositeImplicitAutograd")
    operator: Any = ops.tests_lib.double
    assert operator.overloads() == ["Tensor", "Scalar"]
    assert operator.Scalar(fd.ones(1), 3).tolist() == [6]
    x = fd.ones(1, requires_grad=True)
    operator.Tensor(x).backward()  # the operator's kernel calls ops, which are recorded
    assert x.grad is not None and x.grad.tolist() == [2]
    lib.impl("double.Tensor", library.fallthrough_kernel, "CPU")
    for wrong, words in [("XX", "Unsupported kind: XX"), ("DEF", "aten is a reserved namespace")]:
        with pytest.raises(ValueError, match=words):
            library.Library("aten", wrong)
    with pytest.raises(TypeError, match="required to be a callable"):
        lib.impl("double.Tensor", 3)  # type: ignore[arg-type]
    with pytest.raises(NotImplementedError, match="no dispatcher"):
        lib.fallback(print)


def test_operators_that_change_an_argument() -> None:
    @library.custom_op("tests::fill_in", mutates_args={"out"})
    def fill_in(x: fd.Tensor, out: fd.Tensor) -> None:
        out.copy_(x)

    out = fd.zeros(2)
    assert fill_in(fd.ones(2), out) is None and out.tolist() == [1, 1]
    text = library.infer_schema(fill_in._kernels["any"], mutates_args={"out"})
    assert text == "(Tensor x, Tensor(a1!) out) -> ()"


def test_fake_functions_wait_for_their_operator() -> None:
    @library.register_fake("tests::late")
    def fake(x: fd.Tensor) -> fd.Tensor:
        return x

    library.define("tests::late", "(Tensor x) -> Tensor")
    assert library._defined["tests::late"]._fake is fake
    with pytest.raises(ValueError, match='of the form "namespace::name"'):
        library.register_fake("late", fake)
    library.impl("tests::later", "CPU", lambda x: x * 2)
    library.register_autograd("tests::later", lambda ctx, g: g * 7)
    assert not hasattr(ops.tests, "later")
    library.define("tests::later", "(Tensor x) -> Tensor")
    x = fd.ones(1, requires_grad=True)
    later: Any = ops.tests.later
    assert later(x).item() == 2
    later(x).backward()
    assert x.grad is not None and x.grad.item() == 7
    with pytest.raises(ValueError, match="unexpected type for op"):
        library.register_vmap(3)
    for name in ("get_ctx", "opcheck", "triton_op", "wrap_triton", "register_torch_dispatch"):
        with pytest.raises(NotImplementedError, match=rf"^fastdist\.library\.{name}: "):
            getattr(library, name)()


def test_a_rule_for_batches_is_used_by_vmap() -> None:
    scale = scaled("tests::batched")

    @scale.register_vmap
    def rule(info: Any, in_dims: Any, x: fd.Tensor, by: float, plus: float) -> Any:
        assert info.batch_size == 3
        return x * by + 100, in_dims[0]

    assert fd.vmap(scale)(fd.ones(3, 2)).tolist() == [[102, 102]] * 3


def test_a_list_of_tensors_with_gradients_is_refused() -> None:
    @library.custom_op("tests::total", mutates_args=())
    def total(xs: Sequence[fd.Tensor]) -> fd.Tensor:
        return xs[0] + xs[1]

    assert total([fd.ones(1), fd.ones(1)]).tolist() == [2]
    with pytest.raises(NotImplementedError, match="gradient of a list of tensors"):
        total([fd.ones(1), fd.ones(1, requires_grad=True)])


def test_schemas_come_from_annotations() -> None:
    def many(
        x: fd.Tensor,
        sizes: list[int],
        mask: fd.Tensor | None = None,
        *,
        kind: str = "a",
        dtype: fd.dtype = fd.float32,
        on: bool = True,
    ) -> tuple[fd.Tensor, fd.Tensor]:
        return x, x

    assert library.infer_schema(many, mutates_args=(), op_name="f") == (
        'f(Tensor x, SymInt[] sizes, Tensor? mask=None, *, str kind="a", ScalarType '
        "dtype=float32, bool on=True) -> (Tensor, Tensor)"
    )

    def wrong(x: dict[str, int]) -> None: ...
    def bare(x) -> None: ...  # type: ignore[no-untyped-def]

    with pytest.raises(ValueError, match="Parameter x has unsupported type"):
        library.infer_schema(wrong, mutates_args=())
    with pytest.raises(ValueError, match="Parameter x must have a type annotation"):
        library.infer_schema(bare, mutates_args=())


def test_schemas_are_read_from_text() -> None:
    from fastdist.op_schemas import parse_schema

    schema = parse_schema("f(Tensor(a!) x, int[2] n=[1, 2], *, str s='a, b', int? k=None) -> ()")
    assert schema.names == ("x", "n", "s", "k") and schema.mutates
    assert schema.bind((1,), {"k": 4}) == (1, [1, 2], "a, b", 4)
    assert schema.split((1, 2, 3, 4)) == ((1, 2), {"s": 3, "k": 4})
    kinds = [one.kind for one in schema.signature.parameters.values()]
    assert kinds.count(inspect.Parameter.KEYWORD_ONLY) == 2
    with pytest.raises(ValueError, match="a schema reads"):
        parse_schema("Tensor x")


def test_namespaces_are_found_under_the_package_of_operators_too() -> None:
    scaled("tests_here::scale")
    here: Any = fd.ops
    assert here.tests_here.scale(fd.ones(1)).tolist() == [2]
    assert here.prims.convert_element_type.default(fd.ones(1), fd.int64).dtype == fd.int64
    with pytest.raises(AttributeError, match=r"module 'fastdist\.ops' has no attribute 'tests_no'"):
        _ = here.tests_no


def test_the_earlier_module_has_the_same_names() -> None:
    assert fd._custom_ops.custom_op is library.custom_op
    assert fd._custom_ops.impl_abstract is library.register_fake


def test_dispatch_keys_form_sets_and_dispatch_nothing() -> None:
    from fastdist._C import DispatchKey, DispatchKeySet, _ExcludeDispatchKeyGuard

    both = DispatchKeySet(DispatchKey.AutocastCPU) | DispatchKeySet(DispatchKey.CPU)
    assert both.has(DispatchKey.CPU) and not both.has(DispatchKey.CUDA)
    left = both - DispatchKeySet(DispatchKey.CPU)
    assert not left.has(DispatchKey.CPU) and (both & left).has(DispatchKey.AutocastCPU)
    with pytest.raises(NotImplementedError, match="there is no dispatcher"):
        _ExcludeDispatchKeyGuard(both)
