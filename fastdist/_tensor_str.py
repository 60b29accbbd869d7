"""Printing of tensors, under the names of PyTorch's module _tensor_str.py."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from .core.missing import find_late
from .graph.lazy_conj_neg import resolved
from .tensor import printing
from .tensor.printing import get_printoptions, set_printoptions
from .tensor.tensor import Tensor

__all__ = ["get_printoptions", "printoptions", "set_printoptions"]


@contextmanager
def printoptions(**kwargs: Any) -> Iterator[None]:
    """Change the print options of tensors in this block, for all threads; see set_printoptions."""
    before = printing._options
    set_printoptions(**kwargs)
    try:
        yield
    finally:
        printing._options = before


def _tensor_str(self: Tensor, indent: int) -> str:
    """Return the values of a tensor in brackets; the text starts at column `indent`."""
    if not self.numel():
        return "[]"
    return printing.format_values(
        resolved(self.detach()).cpu().to_numpy(), indent, printing._options
    )


def _add_suffixes(
    tensor_str: str, suffixes: Sequence[str], indent: int, force_newline: bool
) -> str:
    """Return the text with suffixes and the closing parenthesis appended.

    Args:
        tensor_str: The text, which begins with a name and an opening parenthesis.
        suffixes: The suffixes, such as "dtype=torch.int64".
        indent: The column at which new lines begin.
        force_newline: Whether the first suffix begins on a new line.
    """
    width = printing._options.linewidth
    text = tensor_str
    column = len(text) - (text.rfind("\n") + 1) + 2
    for place, note in enumerate(suffixes):
        if (force_newline and place == 0) or column + len(note) + 2 > width:
            text += f",\n{' ' * indent}{note}"
            column = indent + len(note)
        else:
            text += f", {note}"
            column += len(note) + 2
    return f"{text})"


def _str(self: Tensor, *, tensor_contents: str | None = None) -> str:
    """Return the repr of a tensor; `tensor_contents`, if given, replaces the text of its values."""
    return _str_intern(self, tensor_contents=tensor_contents)


def _str_intern(inp: Tensor, *, tensor_contents: str | None = None) -> str:
    if tensor_contents is None:
        return repr(inp)
    start = "tensor("
    return _add_suffixes(f"{start}{tensor_contents}", [], len(start), False)


def __getattr__(name: str) -> Any:
    """Return the current print options for the name PRINT_OPTS."""
    if name == "PRINT_OPTS":
        return printing._options
    return find_late(__name__, name)
