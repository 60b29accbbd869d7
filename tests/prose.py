"""Extract the prose of a file, with line numbers: comments, docstrings, messages and pages."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

COMMENT, DOCSTRING, PAGE = "comment", "docstring", "page"
ERROR, LOG, WARNING, HELP, TEXT = "error", "log", "warning", "help", "text"
# Kinds of texts that users of the package read while it runs. TEXT is any other string of four or
# more words: a constant, or a part from which a message is made.
MESSAGES: Final = (ERROR, LOG, WARNING, HELP, TEXT)
KINDS: Final = (COMMENT, DOCSTRING, PAGE, *MESSAGES)
SUFFIXES: Final = frozenset({".py", ".md", ".cu", ".cuh", ".h", ".cpp"})

# Strings are matched as well, since a "#" or "//" inside a string does not start a comment.
_PYTHON_COMMENT: Final = re.compile(
    r'"""(?:\\.|.)*?"""|\'\'\'(?:\\.|.)*?\'\'\'|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\''
    r"|(?P<comment>\#[^\n]*)",
    re.DOTALL,
)
_C_COMMENT: Final = re.compile(
    r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|(?P<comment>//[^\n]*|/\*.*?\*/)', re.DOTALL
)
# Directives for tools are not prose.
_DIRECTIVE: Final = re.compile(r"#+ *(?:noqa|type: ?ignore|fmt:|pragma|mypy:|pyright:|ruff:|!)\b.*")
_FOUR_WORDS: Final = re.compile(r"(?:\b[A-Za-z][a-z']+,? +){3}[a-z]+")
_C_TEXT: Final = re.compile(r"\b__(?:device|global)__\b")
_CODE: Final = re.compile(r"``.+?``|`[^`]+`")
_LOG_METHODS: Final = frozenset(
    {"critical", "debug", "error", "exception", "info", "log", "warning"}
)
_PARSER_CALLS: Final = frozenset(
    {"ArgumentParser", "add_argument", "add_argument_group", "add_parser", "add_subparsers"}
)
_HELP_KEYWORDS: Final = frozenset({"description", "epilog", "help", "title", "usage"})


class Prose(NamedTuple):
    """One comment, docstring, message or paragraph, with its lines joined by spaces."""

    line: int
    kind: str
    text: str
    lines: int


def prose_of(path: Path) -> Iterator[Prose]:
    """Yield the prose of one file; code in backquotes is replaced by `x`, as it has no grammar."""
    source = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        found = [*_comments(source, _PYTHON_COMMENT), *_Strings().of(source)]
    elif path.suffix == ".md":
        found = list(_paragraphs(source))
    else:
        found = list(_comments(source, _C_COMMENT))
    for one in found:
        yield one._replace(text=" ".join(_CODE.sub("`x`", one.text).split()))


def _comments(source: str, pattern: re.Pattern[str]) -> Iterator[Prose]:
    """Yield each comment; comments on consecutive lines without code form one comment."""
    block: list[str] = []
    first = line = 1
    position = 0
    for found in pattern.finditer(source):
        line += source.count("\n", position, found.start())
        position = found.start()
        if found["comment"] is None:
            continue
        alone = not source[source.rfind("\n", 0, position) + 1 : position].strip()
        if block and not (alone and line == first + len(block)):
            yield from _comment(first, block)
            block = []
        first = first if block else line
        block += found["comment"].splitlines()
        if not alone:
            yield from _comment(first, block)
            block = []
    yield from _comment(first, block)


def _comment(line: int, lines: list[str]) -> Iterator[Prose]:
    """Yield a block of comments unless it consists of directives and separator lines."""
    text = " ".join(_DIRECTIVE.sub("", each).strip().strip("#:/*").strip() for each in lines)
    if text.strip():
        yield Prose(line, COMMENT, text, len(lines))


def _paragraphs(source: str) -> Iterator[Prose]:
    """Yield paragraphs, list items, table rows and titles of a page, without its code blocks."""
    block: list[str] = []
    fenced = False
    for number, line in enumerate([*source.splitlines(), ""], 1):
        stripped = line.strip()
        fence = stripped.startswith("```")
        begins = (
            stripped.startswith(("#", "|", "- ", "* ", ">")) or stripped[:2].rstrip(".").isdigit()
        )
        if block and (fence or begins or not stripped):
            yield Prose(number - len(block), PAGE, " ".join(block), len(block))
            block = []
        if fence:
            fenced = not fenced
        elif stripped and not fenced:
            block.append(stripped.lstrip("#>-*| "))


class _Strings(ast.NodeVisitor):
    """Finds docstrings and messages; the function that is called determines a message's kind."""

    def __init__(self) -> None:
        self.found: list[Prose] = []
        self._kind = TEXT

    def of(self, source: str) -> list[Prose]:
        self.visit(ast.parse(source))
        return self.found

    def _within(self, kind: str, *nodes: ast.AST | None) -> None:
        outer, self._kind = self._kind, kind
        for node in nodes:
            if node is not None:
                self.visit(node)
        self._kind = outer

    def visit_Expr(self, node: ast.Expr) -> None:
        """Treat a string that is a statement as a docstring of a module, function or attribute."""
        value = node.value
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            text = value.value.strip()
            self.found.append(Prose(node.lineno, DOCSTRING, text, text.count("\n") + 1))
        else:
            self.visit(value)

    def visit_Raise(self, node: ast.Raise) -> None:
        self._within(ERROR, node.exc)

    def visit_Assert(self, node: ast.Assert) -> None:
        self.visit(node.test)
        self._within(ERROR, node.msg)

    def visit_Call(self, node: ast.Call) -> None:
        kind = _kind_of_call(node.func)
        self.visit(node.func)
        if kind == HELP or any(keyword.arg == "help" for keyword in node.keywords):
            for keyword in node.keywords:
                self._within(HELP if keyword.arg in _HELP_KEYWORDS else TEXT, keyword.value)
            self._within(TEXT, *node.args)
        else:
            self._within(kind or self._kind, *node.args, *node.keywords)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str):
            self._message(node, node.value)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        self._message(node, _text_of(node))
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                self.visit(part.value)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if isinstance(node.op, ast.Add) and _is_text(node.left) and _is_text(node.right):
            self._message(node, _text_of(node))
        else:
            self.generic_visit(node)

    def _message(self, node: ast.expr, text: str) -> None:
        if _C_TEXT.search(text):
            self.found += (
                one._replace(line=node.lineno + one.line - 1) for one in _comments(text, _C_COMMENT)
            )
        elif self._kind != TEXT or _FOUR_WORDS.search(text):
            self.found.append(Prose(node.lineno, self._kind, text, 1))


def _kind_of_call(called: ast.expr) -> str | None:
    """Return the kind of the messages that a call has as arguments, or None to keep the kind."""
    if isinstance(called, ast.Name):
        name, owner = called.id, ""
    elif isinstance(called, ast.Attribute):
        name, owner = called.attr, ast.unparse(called.value).rpartition(".")[2]
    else:
        return None
    if name in _LOG_METHODS and "log" in owner.lower():
        return LOG
    if name in _PARSER_CALLS:
        return HELP
    if "warn" in name:
        return WARNING
    if name.endswith(("Error", "Exception")) or (name in {"error", "exit", "fail"}):
        return ERROR
    return None


def _is_text(node: ast.expr) -> bool:
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.Add) and _is_text(node.left) and _is_text(node.right)
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def _text_of(node: ast.expr) -> str:
    """Return the text of a string; formatted values become {}."""
    if isinstance(node, ast.BinOp):
        return _text_of(node.left) + _text_of(node.right)
    if isinstance(node, ast.JoinedStr):
        return "".join(_text_of(part) for part in node.values)
    return node.value if isinstance(node, ast.Constant) else "{}"
