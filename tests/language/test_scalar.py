"""The parser of the scalar language, and the positions in its errors."""

from __future__ import annotations

import ast
import math
import pickle

import pytest

from fastdist.core.errors import ScalarSyntaxError
from fastdist.language import scalar
from fastdist.language.scalar import (
    Body,
    Call,
    Literal,
    Name,
    Node,
    parse,
    render,
    substitute,
    to_text,
    walk,
)

X, Y = Name("x"), Name("y")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x + y", Call("add", (X, Y))),
        ("x ** y", Call("pow", (X, Y))),
        ("-x / y", Call("div", (Call("neg", (X,)), Y))),
        ("x // y", Call("floor_divide", (X, Y))),
        ("x % y", Call("remainder", (X, Y))),
        ("~x & y", Call("bitwise_and", (Call("bitwise_not", (X,)), Y))),
        ("x >= y", Call("ge", (X, Y))),
        ("min(x, y)", Call("minimum", (X, Y))),
        ("where(x > T(0), x, T(-2))", Call("where", (Call("gt", (X, Literal(0))), X, Literal(-2)))),
        ("t = exp(x); t * t", Call("mul", (Call("exp", (X,)), Call("exp", (X,))))),
    ],
)
def test_parse_reads_operators_as_primitives(text: str, expected: Node) -> None:
    assert parse(text, ("x", "y")).tree is expected


@pytest.mark.parametrize(
    ("number", "value"),
    [
        ("0.5", 0.5),
        ("-2", -2),
        ("pi", math.pi),
        ("-inf", -math.inf),
        ("2 / pi ** 0.5", 2 / math.pi**0.5),
        ("1e30", 1e30),
    ],
)
def test_parse_reads_numbers_inside_t(number: str, value: float) -> None:
    tree = parse(f"T({number})", ()).tree
    assert isinstance(tree, Literal) and tree.value == value and type(tree.value) is type(value)


@pytest.mark.parametrize(
    ("text", "word", "column", "why"),
    [
        ("x + 1", "1", 5, "T(1)"),
        ("x + z", "z", 5, "unknown name"),
        ("x * expp(x)", "expp", 5, "did you mean exp"),
        ("pow(x)", "pow", 1, "takes 2 arguments, not 1"),
        ("x < x < x", "x < x < x", 1, "do not chain"),
        ("abs(T(x))", "x", 7, "T takes a number"),
        ("T(1 / 0)", "1 / 0", 3, "zero"),
        ("x and x", "x and x", 1, "logical_and"),
        ("x if x else x", "x if x else x", 1, "where"),
        ("abs(x=x)", "abs(x=x)", 1, "positional"),
        ("x.real", "x.real", 1, "Attribute"),
        ("exp = x; exp", "exp = x", 1, "is already defined"),
        ("x + ", "", 4, ""),
    ],
)
def test_parse_names_the_word_and_its_column(text: str, word: str, column: int, why: str) -> None:
    with pytest.raises(ScalarSyntaxError) as caught:
        parse(text, ("x",))
    message = str(caught.value)
    assert message.startswith(repr(word)[:-1]) and why in message
    if word:
        assert f"at column {column} of" in message


def test_parse_refuses_an_input_named_like_a_primitive() -> None:
    with pytest.raises(ScalarSyntaxError, match="'exp' cannot name an input"):
        parse("exp", ("exp",))


def test_bodies_are_interned_and_pickle_to_themselves() -> None:
    body = parse("x * y", ("x", "y"))
    assert parse(" x * y ", ["x", "y"]) is body
    assert pickle.loads(pickle.dumps(body)) is body
    assert pickle.loads(pickle.dumps(body.tree)) is body.tree
    assert parse("x * y", ("y", "x")) is not body


def test_literals_of_different_type_or_sign_are_different() -> None:
    assert (
        len({Literal(0), Literal(0.0), Literal(-0.0), Literal(math.nan), Literal(float("nan"))})
        == 4
    )


def test_used_lists_only_the_inputs_that_the_tree_mentions() -> None:
    body = parse("x * T(2)", ("x", "y"))
    assert body.names == ("x", "y") and body.used == {"x"}


def test_substitute_puts_nodes_in_the_place_of_names() -> None:
    assert (
        substitute(parse("x * y", ("x", "y")).tree, {"x": Call("exp", (Y,))})
        is parse("exp(y) * y", ("y",)).tree
    )


def test_render_meets_a_common_piece_once() -> None:
    met: list[Node] = []

    def emit(node: Node, args: list[str]) -> str:
        met.append(node)
        return node.id if isinstance(node, Name) else f"({' '.join(args)})"

    assert render(parse("exp(x) * exp(x)", ("x",)).tree, emit) == "((x) (x))"
    assert len(met) == 3


def test_to_text_of_a_deep_shared_tree_parses_to_the_same_tree() -> None:
    tree: Node = X
    for _ in range(300):
        tree = Call("add", (tree, tree))
    for _ in range(300):
        tree = Call("sin", (tree,))
    assert Body.of(tree, ("x",)).tree is tree
    assert len(list(walk(tree))) == 601 and len(to_text(tree)) < 30_000


def test_nodes_cannot_be_changed() -> None:
    with pytest.raises(AttributeError, match="shared"):
        X.id = "z"


class Unsure:
    """A replacement for `ast` whose first calls of `parse` fail; pytest needs the real module."""

    def __init__(self, num_failures: int) -> None:
        self.num_failures = num_failures

    def parse(self, text: str) -> ast.Module:
        self.num_failures -= 1
        if self.num_failures >= 0:
            raise SystemError("AST constructor recursion depth mismatch")
        return ast.parse(text)


def test_text_that_python_failed_to_parse_is_parsed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scalar, "ast", unsure := Unsure(2))
    assert scalar._statements("x + y")[0].value.left.id == "x"  # type: ignore[attr-defined]
    assert unsure.num_failures == -1


def test_text_that_python_never_parses_raises_its_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scalar, "ast", Unsure(1000))
    with pytest.raises(SystemError, match="depth mismatch"):
        scalar._statements("x + y")
