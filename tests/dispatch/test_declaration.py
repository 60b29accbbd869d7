"""Unknown names in a declaration are errors when the op is declared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import pytest

import fastdist as fd
from fastdist import Tensor
from fastdist.core.errors import DeclarationError
from fastdist.devices.find_kernel import find_kernel
from fastdist.dispatch.composite import COMPOSITES, composite
from fastdist.dispatch.op import OPS
from fastdist.dispatch.pointwise import PointwiseOp, pointwise
from fastdist.dispatch.structured import Plan, StructuredOp, structured
from fastdist.dispatch.view import ViewOp
from fastdist.kernels.cpu.small.kernels import GRADIENTS, LATER


def negative(input: Tensor) -> Tensor:
    """Return -input."""


def mixed(input: Tensor, other: Tensor | None, dim: int) -> Tensor:
    """Take a tensor, an optional tensor, and a number."""


def structured_op(function: Callable[..., Any] = mixed) -> StructuredOp:
    return StructuredOp(function, "shape.copying.cast")


def test_a_misspelt_dtype_is_refused_with_the_words_that_there_are() -> None:
    with pytest.raises(DeclarationError) as caught:
        PointwiseOp(negative, "-input", dtype="floatin")
    assert str(caught.value) == (
        "negative: dtype= is 'floatin', expected one of 'same', 'number', 'floating', 'bool', "
        "'integral', 'whole', 'first', 'counted'; did you mean 'floating'?"
    )


def test_misspelt_words_on_an_out_are_refused_with_those_that_there_are() -> None:
    with pytest.raises(
        DeclarationError, match=r"negative: out= is 'casts', .* did you mean 'cast'"
    ):
        PointwiseOp(negative, "-input", out="casts")
    with pytest.raises(DeclarationError, match=r"mixed: memory= is 'aprt', .* you mean 'apart'"):
        StructuredOp(mixed, "shape.copying.cast", memory="aprt")
    with pytest.raises(DeclarationError, match=r"negative: memory= is 'outsid', .* 'outside'"):
        composite(out="same", memory="outsid")(negative)


def test_as_many_partials_as_tensors_are_expected() -> None:
    with pytest.raises(DeclarationError, match="2 partials were given for the tensors input;"):
        PointwiseOp(negative, "-input", ["-g", "g"])


def test_partials_as_one_text_are_refused() -> None:
    with pytest.raises(DeclarationError, match="negative: partials is the text '-g'; expected a"):
        PointwiseOp(negative, "-input", "-g")


@pytest.mark.parametrize("partials", [None, 3, {"input": "-g"}])
def test_partials_that_are_no_list_are_refused(partials: Any) -> None:
    with pytest.raises(DeclarationError, match=r"negative: partials is .*; expected a list with a"):
        PointwiseOp(negative, "-input", partials)


def number(dim: int) -> Tensor:
    """Take no tensor."""


def test_a_pointwise_op_without_tensors_is_refused() -> None:
    with pytest.raises(DeclarationError, match="number: a pointwise op takes a tensor, but no"):
        PointwiseOp(number, "dim")


def test_a_parameter_that_no_text_uses_is_refused() -> None:
    with pytest.raises(DeclarationError, match=r"mixed: the body .* do not use the parameter dim:"):
        PointwiseOp(mixed, "input + other * dimension")
    PointwiseOp(mixed, "input + other", ["g", "g * dim"])


def moded(input: Tensor, mode: Any = "sum") -> Tensor:
    """Take a tensor and a text."""


def test_a_default_that_is_no_number_is_refused() -> None:
    with pytest.raises(DeclarationError, match="moded: the default of mode is 'sum', expected a n"):
        PointwiseOp(moded, "input * mode")


def test_an_unknown_option_of_a_decorator_is_refused_with_the_op_and_a_close_one() -> None:
    with pytest.raises(DeclarationError, match=r"negative: an option .* is 'linaer', .* 'linear'"):
        structured("shape.copying.cast", linaer=True)(negative)  # type: ignore[call-arg]
    with pytest.raises(DeclarationError, match=r"negative: the options .* argument: 'kernel'"):
        structured()(negative)  # type: ignore[call-arg]


def test_a_second_vjp_or_jvp_is_refused() -> None:
    op = structured_op()
    op.vjp("input", "other")(lambda g: (g, g))
    with pytest.raises(DeclarationError, match="mixed has a vjp by other already: leave one of th"):
        op.vjp("other")(lambda g: g)
    op.jvp(lambda input_t: input_t)
    with pytest.raises(DeclarationError, match="mixed has a jvp already: leave one of them out"):
        op.jvp(lambda input_t: input_t)


def test_a_jvp_of_a_linear_op_is_refused() -> None:
    op = StructuredOp(negative, "shape.copying.cast", linear=True)
    with pytest.raises(DeclarationError, match="negative is linear=True, so it is its own jvp: le"):
        op.jvp(lambda input_t: input_t)


def test_a_floating_result_without_a_vjp_is_refused_unless_the_declaration_says_so() -> None:
    op = structured_op(negative)
    op.plan(lambda input: Plan(input.shape, input.dtype))
    with pytest.raises(
        DeclarationError, match=r"no vjp: register one with @negative\.vjp, or decl"
    ):
        op.public(fd.ones(3))
    op = StructuredOp(negative, "shape.copying.cast", differentiable=False)
    op.plan(lambda input: Plan(input.shape, input.dtype))
    assert not op.public(fd.ones(3, requires_grad=True)).requires_grad
    with pytest.raises(DeclarationError, match="the declaration says differentiable=False: leave"):
        op.vjp("input")


def test_none_as_a_gradient_counts_as_zeros() -> None:
    op = structured_op(negative)
    op.plan(lambda input: Plan(input.shape, input.dtype))
    op.vjp("input")(lambda g: None)
    x = fd.ones(3, requires_grad=True)
    op.public(x).sum().backward()
    assert x.grad is None
    (op.public(x) + 2 * x).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [2.0, 2.0, 2.0]


def test_a_name_that_is_declared_twice_is_refused() -> None:
    def exp(input: Tensor) -> Tensor:
        """Return input."""
        return input

    with pytest.raises(DeclarationError, match="exp is declared twice"):
        pointwise("input")(exp)
    exp.__name__ = "cat"
    with pytest.raises(DeclarationError, match="cat is declared twice"):
        composite()(exp)


def test_an_op_without_a_plan_says_how_to_give_one() -> None:
    with pytest.raises(DeclarationError, match=r"no plan: register one with @negative\.plan"):
        structured_op(negative).public(fd.ones(3))


def test_a_second_plan_is_refused() -> None:
    op = structured_op(negative)
    op.plan(lambda input: Plan((), input.dtype))
    with pytest.raises(DeclarationError, match="negative has a plan already"):
        op.plan(lambda input: Plan((), input.dtype))


@pytest.mark.parametrize(
    ("returned", "told"),
    [
        ((3,), r"returned \(3,\); expected Plan\(shape, dtype, numbers\): a tuple, a dtype"),
        (Plan(3, fd.float32), "returned shape=3; expected Plan"),  # type: ignore[arg-type]
        (Plan((), "float32"), "returned dtype='float32'; expected Plan"),  # type: ignore[arg-type]
        (Plan((), fd.float32, 7), "returned numbers=7; expected Plan"),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_plan_is_refused_with_the_part_that_is_wrong(returned: Any, told: str) -> None:
    op = structured_op(negative)
    op.plan(lambda input: returned)
    with pytest.raises(DeclarationError, match=f"negative: its plan {told}"):
        op.public(fd.ones(3))


def test_a_plan_with_other_results_than_the_declaration_is_refused() -> None:
    op = structured_op(negative)
    op.plan(lambda input: Plan((3,), fd.int64, extra_outputs=(((3,), fd.int64),)))
    with pytest.raises(DeclarationError, match="has 2 results, but the declaration returns Tensor"):
        op.public(fd.ones(3))


def test_a_view_is_of_one_tensor_and_says_how_an_array_is_viewed() -> None:
    with pytest.raises(DeclarationError, match=r"mixed: a view is of one tensor, .* input, other"):
        ViewOp(mixed)
    with pytest.raises(DeclarationError, match=r"negative has no function .* @negative\.array"):
        ViewOp(negative).public(fd.ones(3))


@pytest.mark.parametrize("body", [3, None, negative])
def test_a_body_that_is_no_text_is_refused(body: Any) -> None:
    with pytest.raises(DeclarationError, match=r"negative: the body is .*, expected a text"):
        PointwiseOp(negative, body)


def test_a_partial_that_is_no_text_is_refused() -> None:
    with pytest.raises(DeclarationError, match="negative: a partial is -1, expected a text, or"):
        PointwiseOp(negative, "-input", [-1])  # type: ignore[list-item]


@pytest.mark.parametrize("decorator", [pointwise, structured])
def test_a_decorator_without_parentheses_is_refused(decorator: Any) -> None:
    with pytest.raises(DeclarationError, match="negative: the decorator has no parenthe"):
        decorator(negative)


def test_a_kernels_own_gradients_are_taken_only_by_ops_that_say_so() -> None:
    """If every op took them, they would silently shadow the vjp of an op that uses the kernel."""
    by_kernel = {op.kernel for op in OPS.values() if getattr(op, "kernel_gradients", False)}
    for module in LATER.values():  # importing these modules registers the other kernels
        import_module(f"fastdist.kernels.cpu.{module}")
    assert by_kernel == GRADIENTS.keys()
    op = StructuredOp(negative, "reduce.reductions.sum")
    op.plan(lambda input: Plan((), input.dtype, ((0,),)))
    op.vjp("input")(lambda g: g.reshape(1).expand(3) * 2)
    x = fd.ones(3, requires_grad=True)
    op.public(x).backward()
    assert x.grad is not None and x.grad.tolist() == [2.0, 2.0, 2.0]


def test_a_partial_over_an_unknown_name_is_refused() -> None:
    op = PointwiseOp(negative, "-input", ["-g * inptu"])
    with pytest.raises(fd.core.errors.ScalarSyntaxError, match="known: input, out, g"):
        _ = op.form.gradient_bodies


def test_a_home_that_there_is_not_is_refused() -> None:
    with pytest.raises(DeclarationError) as caught:
        pointwise("-input", homes="function methods")(negative)
    assert str(caught.value) == (
        "negative: a word of homes= is 'methods', expected one of 'function', 'method', 'inplace', "
        "'functional', 'activation', 'activation_', 'fft', 'linalg', 'special', 'nowhere'; did you "
        "mean 'method'?"
    )
    assert "negative" not in OPS
    with pytest.raises(DeclarationError, match=r"homes= is 'functon', .* did you mean 'function'"):
        composite(homes="functon")(negative)
    assert "negative" not in COMPOSITES


def test_an_op_is_found_where_its_declaration_says() -> None:
    homes = {
        "function": fd,
        "method": fd.Tensor,
        "functional": fd.nn.functional,
        "special": fd.special,
    }
    said = [(home, name) for name, op in OPS.items() for home in op.homes & homes.keys()]
    assert [one for one in said if not hasattr(homes[one[0]], one[1])] == []
    inplace = {name for name, op in OPS.items() if "inplace" in op.homes}
    assert {"exp", "tril"} <= inplace and "relu6" not in inplace
    assert [name for name in inplace if not hasattr(fd.Tensor, f"{name}_")] == []


def test_the_texts_of_all_ops_can_be_read() -> None:
    # A body is parsed at the first call of its op, so importing fastdist has not parsed it.
    ops = [op for op in OPS.values() if isinstance(op, PointwiseOp)]
    assert all(op.form.body.tree is not None and op.form.gradient_bodies for op in ops)


def annotated(annotation: Any) -> Callable[..., Any]:
    def op(input: Any) -> Any:
        """Return input."""

    op.__annotations__["input"] = annotation
    return op


@pytest.mark.parametrize(
    "annotation",
    [
        "fd.Tensor",
        "'Tensor'",
        "Tensro",
        "Tensor|None",
        "None | Tensor",
        "Sequence[Tensor]",
        "fd.nn.Parameter",
    ],
)
def test_a_tensor_in_other_words_is_refused(annotation: str) -> None:
    with pytest.raises(DeclarationError, match=r"expected 'Tensor' or 'Tensor \| None' for"):
        structured_op(annotated(annotation))


def test_an_annotation_that_is_no_text_is_refused() -> None:
    with pytest.raises(DeclarationError, match="from __future__ import annotations"):
        structured_op(annotated(Tensor))


def test_a_missing_annotation_is_refused() -> None:
    def op(input):  # type: ignore[no-untyped-def]
        """Return input."""

    with pytest.raises(DeclarationError, match="op: the annotation of input is missing"):
        structured_op(op)


@pytest.mark.parametrize("annotation", ["int", "Sequence[int] | None", "Any"])
def test_what_is_no_tensor_is_an_attribute(annotation: str) -> None:
    assert Sequence is not None
    assert structured_op(annotated(annotation)).attributes == ("input",)


def test_a_vjp_by_an_unknown_input_is_refused() -> None:
    with pytest.raises(DeclarationError, match=r"mixed: the input of a vjp is 'othr'.*'other'?"):
        structured_op().vjp("othr")


def test_a_vjp_or_jvp_of_what_nobody_gives_is_refused() -> None:
    op = structured_op()
    with pytest.raises(DeclarationError, match=r"the vjp by input: the name .* is 'grad'"):
        op.vjp("input")(lambda grad: grad)
    with pytest.raises(DeclarationError, match=r"the jvp: the name .* is 'input_tangent'"):
        op.jvp(lambda input_tangent: input_tangent)
    # Only a vjp for several inputs gets `wanted`.
    with pytest.raises(DeclarationError, match=r"the vjp by input: the name .* is 'wanted'"):
        op.vjp("input")(lambda g, wanted: g)
    op.vjp("input", "other")(lambda g, wanted: (g, g))


def test_a_plan_takes_the_parameters_of_its_op() -> None:
    with pytest.raises(DeclarationError, match=r"its plan takes \(input, dim\), expected .*other"):
        structured_op().plan(lambda input, dim: Plan((), fd.float32))


def test_a_plan_that_reads_values_is_refused_where_it_would_be_kept() -> None:
    op = structured_op(negative)
    op.plan(lambda input: Plan((), fd.int64 if input.sum() > 0 else fd.float32))
    with pytest.raises(DeclarationError, match=r"negative: its plan read values of input, but is"):
        op.public(fd.ones(3))


def test_a_view_s_preparation_that_reads_values_is_refused() -> None:
    op = ViewOp(negative)
    op.prepare(lambda input: (input.numpy().shape,))
    with pytest.raises(DeclarationError, match="negative: its plan read values of input"):
        op.public(fd.ones(3))


def test_every_structured_op_names_a_kernel_that_there_is() -> None:
    named = [op.kernel for op in OPS.values() if isinstance(op, StructuredOp) and op.kernel]
    assert all(callable(find_kernel("cpu", name)) for name in named)
