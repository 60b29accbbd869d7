"""Texts from Python's standard library, as numbered letters."""

from __future__ import annotations

import argparse
import codecs
import contextlib
import inspect
import io
import logging
import random
import subprocess
from types import ModuleType

import fastdist
from fastdist import Tensor

_DOCUMENTED: tuple[ModuleType, ...] = (argparse, logging, random, subprocess)


def zen() -> str:
    """Return the Zen of Python."""
    with contextlib.redirect_stdout(io.StringIO()):  # the module prints itself
        import this
    text: str = codecs.decode(this.s, "rot13")
    return text + "\n"


def docstrings() -> str:
    """Return the docstrings of some modules of the standard library, and of their members."""
    texts: dict[str, None] = {}
    for module in _DOCUMENTED:
        texts[inspect.getdoc(module) or ""] = None
        for _, each in inspect.getmembers(module, _is_documented):
            texts[inspect.getdoc(each) or ""] = None
            for _, method in inspect.getmembers(each, inspect.isfunction):
                texts[inspect.getdoc(method) or ""] = None
    return "\n\n".join(filter(None, texts))


def _is_documented(each: object) -> bool:
    return inspect.isclass(each) or inspect.isfunction(each)


class Letters:
    """The set of letters of a text, with a number for each."""

    def __init__(self, text: str) -> None:
        self._letters = sorted(set(text))
        self._numbers = {letter: number for number, letter in enumerate(self._letters)}

    def __len__(self) -> int:
        return len(self._letters)

    def encode(self, text: str) -> Tensor:
        """Return the numbers of a text's letters."""
        return fastdist.tensor([self._numbers[letter] for letter in text])

    def decode(self, numbers: Tensor) -> str:
        """Return the text of these letters."""
        return "".join(self._letters[number] for number in numbers.tolist())


def pieces(text: Tensor, length: int, n: int) -> tuple[Tensor, Tensor]:
    """Return n pieces (n, length) at random positions, and the pieces one letter further on."""
    starts = fastdist.randint(0, len(text) - length, (n, 1))
    places = starts + fastdist.arange(length)
    return text[places], text[places + 1]
