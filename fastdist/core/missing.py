"""Errors for missing names of public modules: they suggest similar names, or what to do instead."""

from __future__ import annotations

import functools
import importlib
import opcode
import re
import sys
from collections.abc import Iterable, Mapping
from types import FrameType, ModuleType
from typing import Any, NoReturn

from .folded_frames import fold
from .module_aliases import real_name
from .refusal_words import NO_COLLECTIVES as NO_COLLECTIVES
from .refusal_words import NO_GRAPHS as NO_GRAPHS
from .refusal_words import NO_HUB as NO_HUB
from .refusing import refusing as refusing

_PACKAGE = __name__.partition(".")[0]
# An error lists at most this many names; if there are more, it refers to `dir`.
_LISTED = 60
# Full missing name -> the hint for it: what to use instead, or why there is no substitute.
_INSTEAD: dict[str, str] = {}


# Patterns for groups of PyTorch's names -> why fastdist lacks them, and what to use instead.
_FAMILIES = (
    (
        r"""
        (mkldnn|miopen|cudnn|fbgemm|native)_\w+ batch_norm_(backward_)?(elemt|reduce|update_stats)
        batch_norm_(gather_)?stats\w* slice_inverse hash_tensor to_mkldnn
        """,
        "an internal function of PyTorch's libraries: use the functions of nn.functional",
    ),
    (
        r"""
        \w*quantize\w* quantized_\w+ q_\w+ QU?Int\w+ int_repr per_(tensor|channel)_\w+
        choose_qparams\w* empty_quantized fused_moving_avg\w* qscheme
        """,
        "quantized tensors are not supported: compute in float16 or float32",
    ),
    (
        r"""
        Script\w+ \w+Type (Compilation|Execution)\w+ (import|parse)_\w+ Graph Block Node Value Use
        Code Argument\w* FunctionSchema JITException LiteScriptModule ErrorReport fork wait
        """,
        f"part of TorchScript; {NO_GRAPHS}",
    ),
    (
        r"""
        AliasDb Benchmark\w+ BufferDict CallStack Capsule Concrete\w+ DeepCopyMemoTable FileCheck
        \w+StorageContext \w*Dispatch\w+ Disable\w+ GraphExecutorState IODescriptor \w+Logger
        (Module|Parameter)Dict OperatorInfo PyTorchFile\w+ StaticModule Tag Type TracingState
        USE_\w+ init_num_threads prepare_multiprocessing_environment sym_(con|fresh)\w+
        """,
        "part of PyTorch's C++ library, which is not here; nn has modules and their containers",
    ),
    (r"(get|set|is)_autocast_(ipu|xla)_\w+", "there are no IPUs and TPUs here"),
    (
        r"""
        sparse_(bsc|bsr|csc|csr|compressed)(_tensor)? (ccol|col|crow|row)_indices\w*
        to_sparse_(bsc|bsr|csc|csr) to_padded_tensor jagged nested
        """,
        "sparse_coo is the only sparse layout: to_sparse() makes it",
    ),
    (r"chalf", "call to(fastdist.complex32)"),
)


def missing(module: str, name: str) -> AttributeError | ImportError:
    """Return the error for a name that a public module lacks.

    Note    `from module import name` gets an ImportError: Python would replace the message of an
            AttributeError
    """
    found = sys.modules[module]
    if not name.startswith("__") and _is_from_import():
        told = _told(f"{module}.{name}", name, found)
        text = f"cannot import name {name!r} from {module!r}{told}"
        return ImportError(text, name=module, path=getattr(found, "__file__", None))
    return _MissingName(module, name)


class _MissingName(AttributeError):
    """The error for a name that a module lacks. It looks for similar names only when it is shown:
    that takes up to 4 ms, and `hasattr`, with which programs probe for names, shows no error.
    """

    def __init__(self, module: str, name: str) -> None:
        text = f"module {module!r} has no attribute {name!r}"
        super().__init__(text, name=name, obj=sys.modules[module])
        self._module = module

    @functools.cached_property
    def _text(self) -> str:
        whole = f"{self._module}.{self.name}"
        return f"{self.args[0]}{_told(whole, str(self.name), sys.modules[self._module])}"

    def __str__(self) -> str:
        return self._text

    def __reduce__(self) -> tuple[type[AttributeError], tuple[str]]:
        return AttributeError, (self._text,)


# Tracebacks and reports name the class of which this is a kind.
_MissingName.__name__ = _MissingName.__qualname__ = "AttributeError"
_MissingName.__module__ = "builtins"


def missing_module(asked: str, own: str, rooms: Iterable[str]) -> ModuleNotFoundError:
    """Return the error for a missing module that was imported as `asked`. `own` would be its full
    name in fastdist. `rooms` lists the modules of the top-level package.
    """
    parent, _, name = own.rpartition(".")
    found = sys.modules.get(parent)
    names = sorted(room for room in rooms if not room.startswith("_"))
    told = "" if found is None else _told(own, name, found, None if "." in parent else names)
    return ModuleNotFoundError(f"No module named {asked!r}{told}", name=asked)


def instead(names: dict[str, str]) -> None:
    """Register hints for missing full names: what to use instead, or why there is no substitute."""
    _INSTEAD.update(names)


class MissingMethod:
    """A method of PyTorch's tensors that fastdist lacks: accessing it raises an AttributeError that
    gives the reason. A `__getattr__` would slow down all other attributes.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, instance: Any, owner: type | None = None) -> NoReturn:
        what = "type object 'Tensor'" if instance is None else "'Tensor' object"
        text = f"{what} has no attribute {self._name!r}; {_said_of_family('fastdist', self._name)}"
        raise AttributeError(text, name=self._name, obj=instance)


def _told(whole: str, name: str, module: ModuleType, names: list[str] | None = None) -> str:
    from .missing_modules import SAID

    said = _INSTEAD.get(whole) or _said_of_family(module.__name__, name) or SAID.get(whole)
    if said is not None:
        return f"; {said}"
    # No hint for dunder names, nor for _mock_name, which pytest reads from each imported module.
    if name.startswith("__") or name == "_mock_name":
        return ""
    from difflib import get_close_matches

    names = _offered(module) if names is None else names
    near = get_close_matches(name, names, 3)
    if near:
        return f"; nearest in {module.__name__}: {', '.join(near)}"
    listed = ", ".join(names) if len(names) <= _LISTED else f"what dir({module.__name__}) lists"
    return f"; it has: {listed}. CONTRIBUTING.md describes how to add one"


def _said_of_family(module: str, name: str) -> str | None:
    """Return the hint for the group that a name belongs to, if PyTorch has that group in the
    module.
    """
    if module not in ("fastdist", "fastdist.nn.functional"):
        return None
    for patterns, said in _FAMILIES:
        if any(re.fullmatch(pattern, name) for pattern in patterns.split()):
            return said
    return None


def _offered(module: ModuleType) -> list[str]:
    """Return the public names of a module, without names that it imported for internal use."""
    names: list[str] | None = getattr(module, "__all__", None)
    if names is None:
        names = dir(module)
        if "__dir__" not in vars(module):  # a `__dir__` lists public names only
            names = [name for name in names if _is_function(vars(module).get(name))]
    return sorted(name for name in names if not name.startswith("_"))


def _is_function(value: object) -> bool:
    # The value is None for a name that is imported on first access.
    return value is None or (callable(value) and not isinstance(value, type))


def _is_from_import() -> bool:
    """Return whether `from module import name` is looking up the name."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and str(frame.f_globals.get("__name__")).startswith("fastdist"):
        frame = frame.f_back
    if frame is None:
        return False
    return frame.f_code.co_code[frame.f_lasti] == _IMPORT_FROM


_IMPORT_FROM = opcode.opmap["IMPORT_FROM"]


def explain_missing(*modules: str) -> None:
    """Make an access to a missing name of the modules raise an error with an explanation, and let
    `dir` show only public names. The modules must have no names that load on first access.
    """
    for module in modules:
        vars(sys.modules[module])["__getattr__"] = functools.partial(_load, module, {})
        show_public(module)


def show_public(*modules: str, also: Iterable[str] = ()) -> None:
    """Let `dir` show only the public names of modules and those in `also`, for tab completion, and
    so for the files of packages that are imported so far.
    """
    for module in modules:
        names = vars(sys.modules[module])
        names["__dir__"] = functools.partial(public_names, module, also)
        for value in list(names.values()):
            if isinstance(value, ModuleType) and value.__name__.startswith(f"{module}."):
                below = functools.partial(public_names, value.__name__)
                vars(value).setdefault("__dir__", below)


def public_names(module: str, also: Iterable[str] = ()) -> list[str]:
    """Return the public names of a module and those in `also`. The names of the module are those in
    `__all__`; without `__all__`, those of objects that the module, or one below it, defines.
    """
    names = vars(sys.modules[module])
    listed = names.get("__all__")
    if listed is None:
        listed = [name for name, value in names.items() if _is_of(module, value)]
    return sorted({name for name in (*listed, *also) if not name.startswith("_")})


def _is_of(module: str, value: object) -> bool:
    home = getattr(value, "__module__", None)
    return isinstance(home, str) and f"{home}.".startswith(f"{module}.")


def load_later(module: str, places: Mapping[str, str]) -> None:
    """Let a package load names on first access, and raise the error of `missing` for any other
    name.

    `places` maps each name to the module that has it, relative to the package (".x.y" is module x.y
    next to it). A name that maps to "" is a module itself.
    """
    names = vars(sys.modules[module])
    names["__getattr__"] = functools.partial(_load, module, places)
    show_public(module, also=places)


def _load(module: str, places: Mapping[str, str], name: str) -> Any:
    if name not in places:
        try:
            return find_late(module, name)
        except AttributeError as error:
            fold(error)
            raise
    if not places[name]:
        return importlib.import_module(f"{module}.{name}")
    home = importlib.import_module(f".{places[name]}", module)
    found = getattr(home, name)
    if name in vars(home):  # cache no other names: they may depend on installed packages
        vars(sys.modules[module])[name] = found
    return found


def find_late(module: str, name: str) -> Any:
    """Return a name that a module loads on first access, or a placeholder that raises when used.

    Raises  the error of `missing` if the tables have no such name
    """
    if not name.startswith("__") and name != "_mock_name":
        whole = f"{module}.{name}"
        if real_name(whole) is not None:
            return importlib.import_module(whole)
        from .late_names import late_name

        found = late_name(module, name)
        if found is not None:
            return found
    raise missing(module, name)
