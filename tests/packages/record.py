"""List all names of torch that a package needs and fastdist lacks, from one run.

 python -m tests.packages.record PACKAGE [MODULE ...]
 python -m tests.packages.record --script PROGRAM [ARGUMENT ...]

The modules are imported, or the program is run, with fastdist as `torch`. Each missing name becomes
a placeholder, so that the import continues. The name is listed with the places that use it. A
placeholder is a class: it can be called, subclassed, indexed and used as a decorator, which returns
the function unchanged. Some names are only probed, by hasattr() or by getattr() with a default.
Such a name is listed as a probe and stays missing.
"""

from __future__ import annotations

import argparse
import builtins
import dis
import functools
import importlib
import runpy
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from importlib.machinery import ModuleSpec
from types import CodeType, FrameType, ModuleType
from typing import Any, NamedTuple

USES = frozenset({"LOAD_ATTR", "LOAD_METHOD", "IMPORT_FROM", "IMPORT_NAME"})


class Missing(NamedTuple):
    """A missing name, how it is used ("use" or "probe"), and "file:line" of the lookup."""

    name: str
    how: str
    place: str


class Kind(type):
    """The metaclass of placeholders: each attribute, call or index returns a placeholder."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return placeholder(f"{cls.__module__}.{cls.__qualname__}.{name}")

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if "is_placeholder" not in vars(cls):
            return super().__call__(*args, **kwargs)
        if len(args) == 1 and not kwargs and callable(args[0]):
            return args[0]
        return cls

    def __getitem__(cls, key: Any) -> Any:
        return cls

    def __iter__(cls) -> Iterator[Any]:
        return iter(())

    def __or__(cls, other: Any) -> Any:
        return cls

    __ror__ = __or__

    def __bool__(cls) -> bool:
        return "is_placeholder" not in vars(cls)

    def __enter__(cls) -> Any:
        return cls

    def __exit__(cls, *error: object) -> None:
        pass


def placeholder(name: str) -> Any:
    """Return a placeholder class for a full name."""
    module, _, own = name.rpartition(".")
    return Kind(own, (), {"is_placeholder": True, "__module__": module, "__qualname__": own})


class Recorder:
    """A context in which missing names below torch become placeholders; `missing` lists them."""

    def __init__(self) -> None:
        self.missing: list[Missing] = []
        self._made: dict[str, Any] = {}
        self._watched: set[str] = set()

    def __enter__(self) -> Recorder:
        self._import = builtins.__import__
        builtins.__import__ = self._imported
        sys.meta_path.insert(0, self)  # type: ignore[arg-type]
        self._watch_modules()
        return self

    def __exit__(self, *error: object) -> None:
        builtins.__import__ = self._import
        sys.meta_path.remove(self)  # type: ignore[arg-type]

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of an empty module below torch; None if another finder has the module."""
        if not name.startswith("torch."):
            return None
        for finder in sys.meta_path:
            if finder is not self:
                try:
                    if finder.find_spec(name, path, target) is not None:
                        return None
                except ModuleNotFoundError as error:
                    if error.name is not None and not f"{name}.".startswith(f"{error.name}."):
                        raise
        where = asker()
        self.missing.append(Missing(name, "use", place_of(where)))
        loader: Any = EmptyModule(self)
        return ModuleSpec(name, loader, is_package=True)

    def _imported(self, *args: Any, **kwargs: Any) -> Any:
        module = self._import(*args, **kwargs)
        self._watch_modules()
        return module

    def _watch_modules(self) -> None:
        """Let each newly imported module of torch return placeholders for missing names."""
        for name in [*sys.modules]:
            if name not in self._watched and name.partition(".")[0] in ("torch", "fastdist"):
                self._watched.add(name)
                module = sys.modules[name]
                if isinstance(module, ModuleType) and not name.startswith("fastdist.kernels"):
                    self._watch(module)

    def _watch(self, module: ModuleType) -> None:
        names = vars(module)
        if isinstance(names.get("__getattr__"), Watched):
            return
        names["__getattr__"] = Watched(self, module, names.get("__getattr__"))

    def find(self, module: ModuleType, name: str, ask: Callable[[str], Any] | None) -> Any:
        """Return a module's attribute, or a placeholder if the attribute is missing."""
        try:
            if ask is None:
                raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
            found = ask(name)
            self._watch_modules()
            return found
        except (AttributeError, ImportError):
            frame = asker()
            if name.startswith("__") or frame is None:
                raise
            whole = f"{module.__name__}.{name}".replace("fastdist", "torch", 1)
            used = operation(frame) in USES
            self.missing.append(Missing(whole, "use" if used else "probe", place_of(frame)))
            if not used:
                raise
        if whole not in self._made:
            self._made[whole] = placeholder(whole)
        return self._made[whole]


class Watched:
    """The `__getattr__` of a watched module, which records missing names."""

    def __init__(
        self, recorder: Recorder, module: ModuleType, ask: Callable[[str], Any] | None
    ) -> None:
        self._find = functools.partial(recorder.find, module, ask=ask)

    def __call__(self, name: str) -> Any:
        """Return the attribute, or the placeholder of a missing one."""
        return self._find(name)


class EmptyModule:
    """The loader of a missing module."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def create_module(self, spec: ModuleSpec) -> None:
        """Let importlib create the module."""

    def exec_module(self, module: ModuleType) -> None:
        """Leave the module empty: its names are recorded when they are looked up."""
        names: Any = module
        names.__path__ = []
        # Set `__getattr__` now: otherwise `from module import name` would look for a submodule.
        names.__getattr__ = Watched(self._recorder, module, None)


def asker() -> FrameType | None:
    """Return the frame that looked up the name, or None if code of fastdist looked it up."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and (
        frame.f_code.co_filename == __file__
        or str(frame.f_globals.get("__name__")).startswith(("importlib", "_frozen_importlib"))
    ):
        frame = frame.f_back
    if frame is None or str(frame.f_globals.get("__name__")).partition(".")[0] == "fastdist":
        return None
    return frame


@functools.cache
def operations(code: CodeType) -> dict[int, str]:
    """Return the name of the instruction at each offset of a code object."""
    return {one.offset: one.opname for one in dis.get_instructions(code)}


def operation(frame: FrameType) -> str:
    """Return the name of the current instruction of a frame."""
    return operations(frame.f_code).get(frame.f_lasti, "")


def place_of(frame: FrameType | None) -> str:
    """Return "file:line" of a frame, where the file is the last three parts of the path."""
    if frame is None:
        return "?"
    return "/".join(frame.f_code.co_filename.split("/")[-3:]) + f":{frame.f_lineno}"


def report(missing: Sequence[Missing]) -> str:
    """Return one line for each name, in the order of the first lookups."""
    places: dict[tuple[str, str], list[str]] = {}
    for one in missing:
        places.setdefault((one.how, one.name), []).append(one.place)
    lines = [
        f"{how:6}{name:60} {where[0]}" + (f" and {len(where) - 1} more" if where[1:] else "")
        for (how, name), where in places.items()
    ]
    return "\n".join([*lines, f"{len(places)} names"])


def main(argv: Sequence[str] | None = None) -> int:
    """Record the missing names of the given package; return 1 if the run failed nevertheless."""
    parser = argparse.ArgumentParser(prog="tests.packages.record")
    parser.add_argument("--script", action="store_true", help="the first is a program to run")
    parser.add_argument("what", nargs=argparse.REMAINDER)
    args = parser.parse_args(argv)
    importlib.import_module("fastdist").install_as_torch()
    importlib.import_module("torch")
    failed = False
    with Recorder() as recorder:
        try:
            if args.script:
                sys.argv = args.what
                runpy.run_path(args.what[0], run_name="__main__")
            else:
                for name in args.what:
                    importlib.import_module(name)
        except Exception:
            traceback.print_exc()
            failed = True
    sys.stdout.write(report(recorder.missing) + "\n")
    return int(failed)


if __name__ == "__main__":
    raise SystemExit(main())
