"""Choose the tests to run for a mutant by the paths and names of files, without tracing lines.

First come tests whose file has the changed file's name, or that import the changed file. Then come
rows of the op tables whose names contain an op that the changed file declares or computes. The
remaining tests of the matching test folder come last. No packages are listed here, so that files
may move.
"""

from __future__ import annotations

import ast
import functools
import re
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

_TABLES: Final = ("test_pointwise.py", "test_table*.py", "test_*batching*.py")
_ON_FIBRES: Final = "test_*fibres*.py"
_MOST_FILES: Final = 8
_MOST_NAMES: Final = 12
_LEVELS: Final = 3  # how many levels of imports are followed
_PROCESSES: Final = re.compile(
    r"\b(?:subprocess|multiprocessing|run_group|tests\.\S*workers|tests\.launch)\b"
)
# Common ops of all kinds, for a file on which all ops depend.
_SAMPLE: Final = ("add", "mul", "exp", "where", "sum", "softmax", "matmul", "cat", "permute")


@dataclass(frozen=True)
class Step:
    """A run of pytest: test files, and words; a test runs if its name contains one of the words."""

    files: tuple[str, ...]
    words: tuple[str, ...] = ()


class Choice:
    """Chooses tests for the source files of a tree."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._tests = sorted((root / "tests").rglob("test_*.py"))
        self._texts = {path: path.read_text() for path in self._tests}

    def steps(self, file: str, line: int, within: str = "") -> list[Step]:
        """List the pytest runs for a mutant at a line of a file. The runs that are most likely to
        detect the mutant come first.
        """
        path = Path(file)
        area = self._area(path)
        names = self._names(path, line)
        found = [Step(self._near(path))]
        is_of_ops = bool(names) or path.parts[1] in ("dispatch", "ops", "cpu", "cuda")
        words = names or _SAMPLE
        if "kernels" in path.parts:
            own = [*_words_of(within), *self._callers(path, within), *_words_of(path.stem)]
            words = tuple(dict.fromkeys([*own, *words]))
        if is_of_ops:
            patterns = (_ON_FIBRES,) if "cuda" in path.parts else _TABLES
            found.append(Step(self._matching("tests/ops", patterns), words))
        if names and "ops" in path.parts:
            found.append(Step(self._matching("tests/ops", (_ON_FIBRES,)), words))
            found.append(Step(self._matching(area, ("test_*.py",)), words))
        else:
            rest = self._without_other_packages(area, self._matching(area, ("test_*.py",)))
            found.append(Step(tuple(one for one in rest if one not in found[0].files)))
        return [step for step in dict.fromkeys(self._quick_first(found)) if step.files]

    def _quick_first(self, steps: list[Step]) -> list[Step]:
        """Move the tests that start processes to one last step."""
        quick, slow = list[Step](), list[str]()
        for step in steps:
            starts = [] if step.words else [one for one in step.files if self._starts(one)]
            slow += starts
            files = tuple(one for one in step.files if one not in starts)
            quick.append(Step(files, step.words))
        return [*quick, Step(tuple(dict.fromkeys(slow)))]

    def _starts(self, file: str) -> bool:
        return _PROCESSES.search(self._texts[self._root / file]) is not None

    def _area(self, path: Path) -> str:
        """Return the test folder that mirrors a source folder, or its nearest existing parent."""
        parts = path.parts[1:-1] if path.parts[0] == "fastdist" else path.parts[:-1]
        while parts and not (self._root / "tests" / Path(*parts)).is_dir():
            parts = parts[:-1]
        return Path("tests", *parts).as_posix()

    def _matching(self, folder: str, patterns: tuple[str, ...]) -> tuple[str, ...]:
        there = {one for pattern in patterns for one in (self._root / folder).rglob(pattern)}
        # A test file that was added after this run started is not in the copies of the tree.
        found = there.intersection(self._tests)
        return tuple(one.relative_to(self._root).as_posix() for one in sorted(found))

    def _without_other_packages(self, area: str, files: tuple[str, ...]) -> tuple[str, ...]:
        """Leave out the test folders of packages that are nested in the package of `area`."""
        package = self._root / "fastdist" / Path(area).relative_to("tests")
        below = {one.name for one in package.iterdir() if one.is_dir()} if package.is_dir() else ()
        depth = len(Path(area).parts)
        return tuple(one for one in files if Path(one).parts[depth] not in below)

    # ---- tests found by the file's name ---------------------------------------------------------

    def _near(self, path: Path) -> tuple[str, ...]:
        area = self._root / self._area(path)
        module = ".".join(path.with_suffix("").parts)
        module = module if module.startswith("fastdist") else f"fastdist.{module}"
        parent, _, stem = module.rpartition(".")
        if stem == "__init__":
            parent, _, stem = parent.rpartition(".")
        imports = re.compile(
            rf"{re.escape(parent)}\.{stem}\b|from {re.escape(parent)} import [^\n]*\b{stem}\b"
        )
        ranks = {}
        for test in self._tests:
            own = test.stem.removeprefix("test_")
            if own == stem and area in test.parents:
                ranks[test] = 0
            elif own == stem or (area in test.parents and _are_kin(own, stem)):
                ranks[test] = 1
            elif path.suffix == ".py" and imports.search(self._texts[test]):
                ranks[test] = 2 if area in test.parents else 3
        if not ranks and path.suffix == ".py":
            ranks = self._naming_classes(path)
        best = islice(sorted(ranks, key=lambda one: (ranks[one], one)), _MOST_FILES)
        return tuple(one.relative_to(self._root).as_posix() for one in best)

    def _naming_classes(self, path: Path) -> dict[Path, int]:
        """Rank test files by how often they name a public class of a source file, because tests may
        import the class from the package.
        """
        body = ast.parse((self._root / path).read_text()).body
        names = [one.name for one in body if isinstance(one, ast.ClassDef)]
        public = [name for name in names if not name.startswith("_")]
        word = re.compile(rf"\b(?:{'|'.join(public)})\b")
        counts = {test: len(word.findall(text)) for test, text in self._texts.items()}
        return {test: -count for test, count in counts.items() if public and count}

    # ---- tests found by the ops that a file declares or computes --------------------------------

    def _names(self, path: Path, line: int) -> tuple[str, ...]:
        """Return the public ops that a file declares or computes. If the file declares an op at the
        given line, that op comes first.
        """
        seen, now, names, is_of_ops = {path}, [path], list[str](), "ops" in path.parts
        for _ in range(_LEVELS):
            names += [name for one in now for name in self._declared(one, line, one == path)]
            if is_of_ops and names:
                break
            users = {user for one in now for user in self._users(one)} - seen
            seen |= users
            now = sorted(users)
        names = list(dict.fromkeys(self._covered_by.get(name, name) for name in names))
        if len(names) > _MOST_NAMES and line and names:
            step = len(names) / _MOST_NAMES
            names = [names[int(k * step)] for k in range(_MOST_NAMES)]
        return tuple(names)

    def _callers(self, path: Path, within: str) -> list[str]:
        """Return the public functions of a Python file that call the function named in `within`."""
        name = within.partition(".")[0]
        if path.suffix != ".py" or not name.startswith("_"):
            return []
        body = ast.parse((self._root / path).read_text()).body
        functions = [node for node in body if isinstance(node, ast.FunctionDef)]
        calls = re.compile(rf"\b{name}\(")
        return [
            node.name
            for node in functions
            if not node.name.startswith("_") and calls.search(ast.unparse(node))
        ]

    def _declared(self, path: Path, line: int, is_own: bool) -> list[str]:
        if "ops" in path.parts:
            ops = _ops_of(self._root / path)
            nearest = [name for name, first in ops.items() if is_own and first <= line][-1:]
            return [*nearest, *(name for name in ops if name not in nearest)]
        if path.suffix == ".py" and "kernels" in path.parts:
            return self._by_kernel.get(path.stem, [])
        return []

    def _users(self, path: Path) -> set[Path]:
        """Return the files of the same package that import or include the given file."""
        package = Path(*path.parts[:2])
        if path.suffix == ".py":
            used = re.compile(rf"\bimport [^\n]*\b{path.stem}\b|\.{path.stem} import ")
        else:
            used = re.compile(rf"\b{re.escape(path.name)}\b|[\"']{path.stem}[\"'.]")
        found = set()
        for other, text in self._sources(package).items():
            if other != path and used.search(text):
                found.add(other)
        if path.with_suffix(".py") in self._sources(package):
            found.add(path.with_suffix(".py"))
        return found - {path}

    @functools.cache  # noqa: B019  # one for each run
    def _sources(self, package: Path) -> dict[Path, str]:
        return {
            one.relative_to(self._root): one.read_text()
            for one in sorted((self._root / package).rglob("*"))
            if one.suffix in (".py", ".cu", ".cuh")
        }

    @functools.cached_property
    def _by_kernel(self) -> dict[str, list[str]]:
        """The names of ops, by the name of the file that has the op's kernel."""
        found: dict[str, list[str]] = {}
        for path in self._sources(Path("fastdist/ops")):
            for name, kernel in _kernels_of(self._root / path):
                found.setdefault(kernel.partition(".")[0], []).append(name)
        return found

    @functools.cached_property
    def _covered_by(self) -> dict[str, str]:
        """For each op without a public function, the name of the table row that tests the op."""
        found: dict[str, str] = {}
        for path in sorted((self._root / "tests" / "ops").rglob("*_cases.py")):
            for node in ast.parse(path.read_text()).body:
                is_it = isinstance(node, ast.Assign) and "COVERED_BY" in ast.unparse(
                    node.targets[0]
                )
                if is_it and isinstance(node.value, ast.Dict):  # type: ignore[attr-defined]
                    for key, value in zip(node.value.keys, node.value.values, strict=True):  # type: ignore[attr-defined]
                        if isinstance(key, ast.Constant) and isinstance(value, ast.Constant):
                            found[str(key.value)] = str(value.value)
        return found


def _words_of(name: str) -> list[str]:
    return [one for one in re.split(r"[._]+", name) if len(one) >= 3]


def _are_kin(one: str, other: str) -> bool:
    """Return whether two file names have words with the same first five letters."""
    stems = [{word[:5] for word in name.split("_") if len(word) >= 4} for name in (one, other)]
    return bool(stems[0] & stems[1])


def _decorated(path: Path) -> list[tuple[ast.FunctionDef, list[ast.expr]]]:
    return [
        (node, node.decorator_list)
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef)
    ]


def _ops_of(path: Path) -> dict[str, int]:
    """Return the ops that a file declares, each with the first line of its declaration."""
    if path.suffix != ".py":
        return {}
    return {
        node.name: min(node.lineno, *(one.lineno for one in decorators))
        for node, decorators in _decorated(path)
        if decorators
        and not node.name.startswith("_")
        and "cache" not in ast.unparse(decorators[0])
    }


def _kernels_of(path: Path) -> list[tuple[str, str]]:
    """Return the structured ops of a file, each with the name of its kernel."""
    return [
        (node.name, str(one.args[0].value))
        for node, decorators in _decorated(path)
        for one in decorators
        if isinstance(one, ast.Call) and one.args and isinstance(one.args[0], ast.Constant)
        if re.fullmatch(r"\w+\.\w+", str(one.args[0].value))
    ]
