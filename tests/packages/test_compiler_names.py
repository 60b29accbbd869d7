"""PyTorch's names for compilers and exporters: hints do nothing, and capturing raises an error."""

from __future__ import annotations

import importlib
import re
import sys
import types
from typing import Any

import pytest

import fastdist as fd
from fastdist.core.refused import refused_in
from fastdist.core.refusing import rows_of_modules

OTHERS = [module for module in rows_of_modules() if not module.startswith("fastdist.distributed.")]


@pytest.mark.parametrize("module", OTHERS)
def test_every_name_of_the_table_can_be_imported_and_refuses_in_use(module: str) -> None:
    found = importlib.import_module(module)
    for name in refused_in(module):
        words = re.escape(rows_of_modules()[module][0])
        with pytest.raises(NotImplementedError, match=rf"{name}: {words}"):
            getattr(found, name)(fd.ones(2))


def test_hints_to_the_compiler_do_nothing() -> None:
    dynamo = fd._dynamo
    x = fd.ones(2)
    for hint in (dynamo.mark_dynamic, dynamo.mark_static, dynamo.maybe_mark_dynamic):
        hint(x, 0)
    dynamo.mark_static_address(x)
    dynamo.graph_break()
    dynamo.reset()
    dynamo.reset_code_caches()
    assert dynamo.disable(len) is dynamo.allow_in_graph(len) is dynamo.run(len) is len
    assert dynamo.disable()(len) is dynamo.substitute_in_graph(len)(len) is len
    assert dynamo.register_backend(len) is dynamo.register_backend(name="x")(len) is len
    assert not dynamo.is_compiling() and not dynamo.is_dynamo_supported()
    assert not dynamo.utils.is_compile_supported("cpu") and dynamo.list_backends() == []
    with dynamo._trace_wrapped_higher_order_op.TransformGetItemToIndex():
        assert x[0] == 1
    with pytest.warns(UserWarning, match=r"_dynamo\.optimize\(\) returns its argument unchanged"):
        assert dynamo.optimize("inductor")(len) is len
    assert dynamo.decorators is dynamo
    assert issubclass(dynamo.exc.Unsupported, RuntimeError)


def test_no_module_is_a_compiled_one() -> None:
    kind = fd._dynamo.OptimizedModule
    assert kind is fd._dynamo.eval_frame.OptimizedModule
    assert not isinstance(fd.nn.Linear(1, 1), kind)
    with pytest.raises(NotImplementedError, match="OptimizedModule: programs are not captured"):
        kind(fd.nn.Linear(1, 1), None)


@pytest.mark.parametrize("module", ["_dynamo.config", "_inductor.config"])
def test_settings_are_kept_and_put_back(module: str) -> None:
    config: Any = importlib.import_module(f"fastdist.{module}")
    name = "verbose" if module == "_dynamo.config" else "freezing"
    assert getattr(config, name) is False
    with config.patch({name: 1}, new_one=2):
        assert (getattr(config, name), config.new_one) == (1, 2)
    assert getattr(config, name) is False and not hasattr(config, "new_one")

    @config.patch(name, 3)
    def read() -> Any:
        return getattr(config, name)

    assert read() == read() == 3 and getattr(config, name) is False


def test_sizes_are_numbers_and_patterns_are_not_replaced() -> None:
    from fastdist.fx.experimental import proxy_tensor, symbolic_shapes

    with pytest.raises(NotImplementedError, match="replace_pattern: programs are not captured"):
        fd.fx.replace_pattern()
    assert proxy_tensor.get_proxy_mode() is None
    assert symbolic_shapes.guard_or_false(3 > 2) is True
    assert symbolic_shapes.statically_known_true(0) is False
    assert symbolic_shapes.statically_known_false(0) is True
    assert symbolic_shapes.guard_int(3) == symbolic_shapes.hint_int(3) == 3
    assert symbolic_shapes.free_symbols(3) == set() and not symbolic_shapes.is_symbolic(3)
    assert symbolic_shapes.sym_eq((1, 2), (1, 2))
    from fastdist.fx._compatibility import compatibility

    assert compatibility(is_backward_compatible=True)(len) is len


def test_modules_that_have_two_names() -> None:
    assert fd.quantization is fd.ao.quantization
    assert importlib.import_module("fastdist.nn.quantized") is fd.ao.nn.quantized
    with pytest.raises(AttributeError, match="has no attribute 'qwyx'"):
        _ = fd.export.qwyx
    with pytest.raises(AttributeError, match="has no attribute 'qwyx'"):
        _ = fd.fx.qwyx


def test_onnx_has_its_constants_and_lets_packages_register_operators() -> None:
    onnx = fd.onnx
    assert onnx.TrainingMode.TRAINING.value == 2
    assert onnx.OperatorExportTypes.ONNX_ATEN_FALLBACK.value == 2
    onnx.register_custom_op_symbolic("tests::op", len, 11)
    onnx.unregister_custom_op_symbolic("tests::op", 11)
    helper = importlib.import_module("fastdist.onnx.symbolic_helper")
    assert helper.parse_args("v", "i")(len) is len is helper.quantized_args(True)(len)
    assert helper.cast_pytorch_to_onnx["Float"] == 1
    operators = importlib.import_module("fastdist.onnx.operators")
    shape = operators.shape_as_tensor(fd.ones(2, 3))
    assert shape.tolist() == [2, 3] and shape.dtype == fd.int64
    assert operators.reshape_from_tensor_shape(fd.ones(6), shape).shape == (2, 3)
    assert not onnx.is_onnxrt_backend_supported()


def test_decorators_of_torchscript_return_their_functions() -> None:
    from fastdist import _jit_internal, jit

    assert jit._overload(len) is jit._overload_method(len) is jit.interface(len) is len
    assert _jit_internal._copy_to_script_wrapper(len) is _jit_internal.ignore(len) is len
    assert _jit_internal.ignore(drop=True)(len) is len and not _jit_internal.is_scripting()
    assert jit.wait(jit.fork(sum, [1, 2])) == 3
    assert jit.annotations.BroadcastingList2[int]
    choose = _jit_internal.boolean_dispatch("flag", 1, False, max, min, "some.module", "choose")
    either: Any = _jit_internal.boolean_dispatch(
        "flag", 1, False, lambda x, flag=False: (x, flag), lambda x, flag=False: x, "m", "either"
    )
    assert (either(3), either(3, True), either(3, flag=True)) == (3, (3, True), (3, True))
    assert choose.__name__ == "choose" and choose.__module__ == "some.module"
    with pytest.raises(NotImplementedError, match="_get_trace_graph: programs are not captured"):
        jit._get_trace_graph(len)
    assert issubclass(jit.Error, RuntimeError)


def test_classes_of_the_compiled_half_are_there_for_annotations() -> None:
    from fastdist import _C
    from fastdist._subclasses import fake_tensor

    for kind in (_C.Graph, _C.Value, _C.Node, fd.PyTorchFileReader):
        assert not isinstance(fd.ones(1), kind)
        with pytest.raises(NotImplementedError, match=kind.__name__):
            kind("x")
    assert not fake_tensor.is_fake(fd.ones(1))
    assert fake_tensor.maybe_get_fake_mode(fd.ones(1)) is None


@pytest.mark.parametrize("name", ["sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc", "jagged"])
def test_no_tensor_has_the_other_layouts(name: str) -> None:
    layout = getattr(fd, name)
    assert isinstance(layout, fd.layout) and repr(layout) == f"fastdist.{name}"
    assert fd.ones(1).layout != layout != fd.ones(1).to_sparse().layout
    with pytest.raises(TypeError, match=rf"must be fastdist\.strided, not fastdist\.{name}"):
        fd.empty(1, layout=layout)


def test_progress_of_downloads_is_shown_by_tqdm_or_not_at_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from fastdist.utils import model_zoo

    monkeypatch.setitem(sys.modules, "tqdm", None)
    with model_zoo.tqdm([1, 2], total=2) as bar:
        assert [*bar] == [1, 2]
        bar.update(1)
        bar.close()
    shown = types.SimpleNamespace(tqdm=list)
    monkeypatch.setitem(sys.modules, "tqdm", shown)
    assert model_zoo.tqdm is list
    with pytest.raises(AttributeError, match="has no attribute 'qwyx'"):
        _ = model_zoo.qwyx


def test_classes_of_torchscript_are_found_at_the_top_too() -> None:
    assert fd.ScriptModule is fd.jit.ScriptModule and fd.ScriptFunction is fd.jit.ScriptFunction
    assert not isinstance(fd.nn.Linear(1, 1), fd.ScriptModule)
