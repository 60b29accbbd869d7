"""Mutation testing of any package: random mutants, and tests that are chosen by name.

    python -m tests.mutate dispatch --draw 300 --seed 0 [--minutes 8] [--keep FILE] [--jobs 2]
    python -m tests.mutate dispatch --again FILE [--survived] [--tree BEFORE] [--keep OTHER]
    python -m tests.mutate distributed/device_mesh.py --draw 10 [--test-within 20]

Each mutant is made in a copy of the tree. The steps of tests/mutate_choice.py run until a test
fails that passes in the unchanged tree. Verdicts are stored in .mutate/PACKAGE-SEED.jsonl, or in
the file that --keep names, so an interrupted run resumes. A mutant with a stored verdict is not
tried again, except that --survivors tries survivors again.

--again FILE repeats the mutants of a result file; it finds a mutant by its text if the code has
moved. --tree BEFORE makes the mutants in the checkout BEFORE of another commit, and runs the tests
of that checkout. This compares two test suites: if a mutant survives here but is caught there, this
suite has become worse. --survived repeats only the survivors in the result file.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from queue import Queue
from typing import Any, Final

from tests.mutants import breaks_of
from tests.mutants_drawn import Mutant, draw
from tests.mutants_in_texts import breaks_of_cuda
from tests.mutate_choice import Choice, Step
from tests.mutate_copy import Copy
from tests.mutate_pick import PICKED

_MOST_TESTS: Final = 1000
_STEP_S: Final = 240.0
_TEST_S: Final = 40.0
_CACHE: Final = ".kernel-cache"


@dataclass(frozen=True)
class Found:
    """A mutant, its index among mutants with the same text, and the verdict."""

    mutant: Mutant
    nth: int
    caught: bool
    by: str
    seconds: float

    def entry(self) -> dict[str, Any]:
        """Return the entry for the result file."""
        file, within, old, new = self.mutant.key
        named = {"file": file, "within": within, "old": old, "new": new, "nth": self.nth}
        return {**named, "caught": self.caught, "by": self.by, "seconds": self.seconds}


Key = tuple[str, str, str, str, int]


def folder_of(root: Path, package: str) -> str:
    """Return the folder of a package, or the file of a module, in fastdist or the kernels.

    Raises  ValueError if the folder or file does not exist
    """
    for name in (f"fastdist/{package}", package):
        if (root / name).is_dir() or (name.endswith(".py") and (root / name).is_file()):
            return name
    raise ValueError(
        f"no package {package!r}: neither fastdist/{package} nor {package} is a folder or a module"
    )


def mutants_in(root: Path, folder: str) -> dict[Key, Mutant]:
    """Return all mutants of a folder or file by their keys, including mutants of CUDA sources."""
    found: dict[Key, Mutant] = {}
    likes = Counter[tuple[str, ...]]()
    top = root / folder
    for path in sorted(top.rglob("*")) if top.is_dir() else [top]:
        if path.suffix not in (".py", ".cu", ".cuh"):
            continue
        source, name = path.read_bytes(), path.relative_to(root).as_posix()
        breaks = breaks_of(source) if path.suffix == ".py" else breaks_of_cuda(source)
        for change in breaks:
            mutant = Mutant(name, change, *change.lines(source))
            likes[mutant.key] += 1
            found[*mutant.key, likes[mutant.key]] = mutant
    return found


def found_again(
    entries: Iterable[dict[str, Any]], mutants: dict[Key, Mutant]
) -> Iterator[tuple[dict[str, Any], Key | None]]:
    """Yield each entry with the key of the mutant that matches it now, or None.

    The match is the same mutant in the same file. If there is none, it is the only mutant with the
    same text in files of the same name, or else the only mutant with the same text in any file.
    """
    by_text: dict[tuple[Any, ...], list[Key]] = {}
    for key in mutants:
        by_text.setdefault(key[1:], []).append(key)
    for one in entries:
        text = one["within"], one["old"], one["new"], one["nth"]
        if (one["file"], *text) in mutants:
            yield one, (one["file"], *text)
            continue
        others = by_text.get(text, [])
        same_name = [key for key in others if Path(key[0]).name == Path(one["file"]).name]
        yield one, next((some[0] for some in (same_name, others) if len(some) == 1), None)


def read_entries(path: Path) -> dict[Key, dict[str, Any]]:
    """Read a result file; if a mutant has several entries, the last one counts."""
    found: dict[Key, dict[str, Any]] = {}
    for text in path.read_text().splitlines() if path.exists() else ():
        try:
            one = json.loads(text)
        except ValueError:
            continue  # an interrupted run left this line incomplete
        found[one["file"], one["within"], one["old"], one["new"], one["nth"]] = one
    return found


# ---- one mutant ---------------------------------------------------------------------------------


class Bench:
    """A copy of the tree with a separate kernel cache, in which mutants are made and tests run."""

    def __init__(self, root: Path, folder: Path, test_s: float = _TEST_S) -> None:
        self._root, self._test_s = root, test_s
        self._copy = Copy(root, folder)
        (folder / _CACHE).unlink()
        self._begun = folder / "begun"
        self._passes: dict[tuple[str, ...], bool] = {}
        self._link_cache()

    def _link_cache(self) -> None:
        """Copy the tree's kernel cache, so that broken kernels do not enter it."""
        cache = self._copy.folder / _CACHE
        shutil.rmtree(cache, ignore_errors=True)
        shutil.copytree(self._root / _CACHE, cache, copy_function=os.link)

    def try_one(self, mutant: Mutant, steps: Sequence[Step]) -> tuple[bool, str]:
        """Return (True, the test that catches the mutant) or (False, how many steps passed)."""
        path = self._copy.folder / mutant.file
        source = path.read_bytes()
        broken = mutant.change.of(source)
        doubted: dict[str, str] = {}
        number = 0
        try:
            for step in steps:
                self._copy.write(path, broken)
                code, begun, said = self._run(step.files, step.words)
                if code in (0, 5):
                    number += code == 0
                    continue
                # The test may have timed out because the machine was busy.
                if (code is None or "Timeout (>" in said) and self._ends_alone(begun):
                    doubted[begun] = "it took too long, but not alone"
                    continue
                self._copy.write(path, source)
                if self._do_pass((begun,) if begun else step.files, bool(begun)):
                    return True, begun or f"collection: {_last_line(said)}"
                doubted[begun] = "it fails without the break, too"
        finally:
            self._copy.write(path, source)
            if "kernels" in Path(mutant.file).parts:
                self._link_cache()
        told = "".join(f"; {test}: {why}" for test, why in sorted(doubted.items()))
        return False, f"{number} of {len(steps)} steps pass{told}"

    def _ends_alone(self, test: str) -> bool:
        """Return whether a test passes in time when run alone; False if it times out again."""
        if not test:
            return True  # no test had started
        bound_s = 3 * self._test_s
        code, _ = self._copy.run([f"--timeout={2 * self._test_s}", test], bound_s)
        return code == 0

    def _do_pass(self, names: tuple[str, ...], is_test: bool) -> bool:
        """Return whether a test passes in the unchanged tree. If `names` are files, not a test,
        return whether pytest can collect them.
        """
        if names not in self._passes:
            arguments = names if is_test else (*names, "--collect-only")
            code, _ = self._copy.run(["-x", f"--timeout={self._test_s}", *arguments], _STEP_S)
            self._passes[names] = code == 0
        return self._passes[names]

    def _run(self, files: Sequence[str], words: Sequence[str]) -> tuple[int | None, str, str]:
        self._begun.write_text("")
        told = {"words": list(words), "most": _MOST_TESTS, "begun": str(self._begun)}
        arguments = ["-x", "-p", "tests.mutate_pick", f"--timeout={self._test_s}", *files]
        code, said = self._copy.run(arguments, _STEP_S, **{PICKED: json.dumps(told)})
        return code, self._begun.read_text(), said


def _last_line(text: str) -> str:
    return next((one for one in reversed(text.splitlines()) if one.startswith("E ")), "")[:120]


# ---- all mutants --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Run:
    """The options of a run."""

    folder: str
    number: int
    seed: int
    jobs: int
    minutes: float
    keep: Path
    again: Path | None
    survivors: bool
    survived: bool = False
    test_s: float = _TEST_S


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options for random mutants to the options of tests.mutate."""
    parser.add_argument("--draw", type=int, help="try so many breaks, with tests chosen by name")
    parser.add_argument("--again", type=Path, help="a file of results, whose breaks are tried")
    parser.add_argument("--keep", type=Path, help="the file for results")
    parser.add_argument("--minutes", type=float, default=math.inf, help="end after so long")
    parser.add_argument("--survivors", action="store_true", help="try what survived again")
    parser.add_argument(
        "--survived", action="store_true", help="with --again, only breaks that survived there"
    )
    parser.add_argument(
        "--test-within", type=float, default=_TEST_S, help="seconds for a test that is drawn upon"
    )
    parser.add_argument("--tree", type=Path, help="the checkout to break (default this one)")


def run_of(given: argparse.Namespace, root: Path) -> Run:
    """Return the run that the command line describes.

    Raises  ValueError for an unknown package, and for --survived without a file
    """
    if given.survived and given.again is None:
        raise ValueError("--survived needs --again FILE, which says what survived")
    name = f"{given.room.removesuffix('.py').replace('/', '-')}-{given.seed}.jsonl"
    return Run(
        folder_of(root, given.room),
        given.draw or 0,
        given.seed,
        given.jobs,
        given.minutes,
        given.keep or root / ".mutate" / name,
        given.again,
        given.survivors,
        given.survived,
        given.test_within,
    )


def look(root: Path, run: Run, why: Mapping[tuple[str, ...], str]) -> int:
    """Try mutants of a package, and print and store the verdicts. Return how many survivors have no
    explanation.
    """
    folder, mutants = run.folder, mutants_in(root, run.folder)
    may_survive = {key[1:] for key in why}  # no file name: code may have moved
    if run.again is None:
        keys = {id(mutant): key for key, mutant in mutants.items()}
        chosen = [keys[id(one)] for one in draw(root, [*mutants.values()], run.number, run.seed)]
        before: dict[Key, bool] = {}
        _say(f"{len(chosen)} of {len(mutants)} breaks of {folder}, seed {run.seed}")
    else:
        entries = read_entries(run.again).values()
        wanted = [one for one in entries if not (run.survived and one["caught"])]
        pairs = [*found_again(wanted, mutants)]
        before = {key: one["caught"] for one, key in pairs if key is not None}
        chosen = [*before]
        lost = [one for one, key in pairs if key is None]
        _say(f"{len(chosen)} of {len(pairs)} breaks of {run.again} are found again")
        for one in lost:
            _say(f"not there any more: {one['file']} in {one['within']}: {one['new']}")
    known = read_entries(run.keep)
    todo = [
        key for key in chosen if key not in known or (run.survivors and not known[key]["caught"])
    ]
    run.keep.parent.mkdir(parents=True, exist_ok=True)
    with run.keep.open("a") as file:
        for found in _tried(root, run, [(key, mutants[key]) for key in todo]):
            known[*found.mutant.key, found.nth] = found.entry()
            file.write(f"{json.dumps(found.entry())}\n")
            file.flush()
            if not found.caught and found.mutant.key[1:] not in may_survive:
                _say(f"{found.mutant.describe()}\n    survives: {found.by}, {found.seconds:.0f} s")
    explained = [
        key
        for key in chosen
        if key[1:4] in may_survive and key in known and not known[key]["caught"]
    ]
    tried = [known[key] for key in chosen if key in known and key not in explained]
    _say(f"{len(explained)} that survive are explained")
    return _summarise(tried, len(chosen) - len(explained), before, known)


def _tried(root: Path, run: Run, todo: Sequence[tuple[Key, Mutant]]) -> Iterator[Found]:
    choice, end = Choice(root), time.monotonic() + 60.0 * run.minutes
    with (
        tempfile.TemporaryDirectory(prefix="mutate-") as folder,
        ThreadPoolExecutor(run.jobs) as pool,
    ):
        benches: Queue[Bench] = Queue()
        for number in range(run.jobs):
            benches.put(Bench(root, Path(folder) / str(number), run.test_s))

        def try_one(key: Key, mutant: Mutant) -> Found | None:
            if time.monotonic() > end:
                return None
            change = mutant.change
            steps, bench = choice.steps(mutant.file, change.first, change.within), benches.get()
            begin = time.monotonic()
            try:
                caught, by = bench.try_one(mutant, steps)
            finally:
                benches.put(bench)
            return Found(mutant, key[-1], caught, by, round(time.monotonic() - begin, 1))

        # Each verdict is stored immediately. So an interrupted run loses only the results of the
        # mutants that it was trying.
        for future in as_completed([pool.submit(try_one, *one) for one in todo]):
            if (found := future.result()) is not None:
                yield found


def _summarise(
    entries: Sequence[dict[str, Any]],
    number: int,
    before: dict[Key, bool],
    known: dict[Key, dict[str, Any]],
) -> int:
    """Print the numbers of mutants per file and in total; return how many mutants survive."""
    files = Counter(one["file"] for one in entries)
    caught = Counter(one["file"] for one in entries if one["caught"])
    for file, count in sorted(files.items()):
        _say(f"{caught[file]:4} caught, {count - caught[file]:3} survived  {file}")
    for key, was_caught in before.items():
        if key in known and was_caught != known[key]["caught"]:
            which = "caught in the file, not here" if was_caught else "caught here, not in the file"
            _say(f"{which}: {key[0]} in {key[1]}\n    - {key[2]}\n    + {key[3]}")
    total, all_caught = len(entries), sum(caught.values())
    seconds = sum(one["seconds"] for one in entries) / max(total, 1)
    rest = f"; {number - total} not tried yet" if number > total else ""
    share = all_caught / max(total, 1)
    _say(f"caught {all_caught} of {total} ({share:.1%}), {seconds:.1f} s each{rest}")
    return total - all_caught


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
