"""PyTorch's API for classes and modes that override functions by `__torch_function__`."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter
from types import FunctionType
from typing import Any, Self

from . import fft, linalg, special
from .core.caller_warning import warn_caller
from .core.folded_frames import fold
from .core.missing import explain_missing
from .core.torch_function import (
    DisableTorchFunctionSubclass,
    ask,
    disabled_torch_function,
    full_name,
    is_offered,
    mode_is_open,
    overloaded,
    set_function_modes,
    thread,
)
from .graph.modes import count_tracers
from .nn import functional
from .tensor.subclasses import NOT_OFFERED, OfferedMethods, nowrap_functions, write_offers
from .tensor.tensor import Tensor

__all__ = [
    "BaseTorchFunctionMode",
    "DisableTorchFunctionSubclass",
    "TorchFunctionMode",
    "get_default_nowrap_functions",
    "get_ignored_functions",
    "get_overridable_functions",
    "get_testing_overrides",
    "handle_torch_function",
    "has_torch_function",
    "has_torch_function_unary",
    "has_torch_function_variadic",
    "is_tensor_like",
    "is_tensor_method_or_property",
    "resolve_name",
    "wrap_torch_function",
]


class TorchFunctionMode:
    """A context in which this object's `__torch_function__` is called for each call in this thread.
    The calls are those of functions, of methods and operators that compute, and of functions that
    make tensors, even if no argument is a Tensor. The result of `__torch_function__` replaces the
    result of the call. If it is NotImplemented, the overrides of the arguments are tried next.

    Note    the mode is inactive while its `__torch_function__` runs: calls inside it go to the next
            outer mode. The mode does not get internal calls of fastdist's functions, nor queries
            such as `x.shape` and `x.item()`
    """

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: tuple[type, ...],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Return the result for func(*args, **kwargs). `types` has the types of those arguments
        that override calls.
        """
        raise NotImplementedError

    def __enter__(self) -> Self:
        count_tracers(1)
        set_function_modes((*thread.modes, self))
        return self

    def __exit__(self, *error: object) -> None:
        set_function_modes(thread.modes[:-1])
        count_tracers(-1)

    @classmethod
    def push(cls, *args: Any, **kwargs: Any) -> Self:
        """Return cls(*args, **kwargs): an older way to open a mode, which some programs use."""
        warn_caller(
            "`Mode.push()` is no longer necessary and can be replaced with just `with Mode()`"
        )
        return cls(*args, **kwargs)


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that runs each call unchanged."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: tuple[type, ...],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Return func(*args, **kwargs)."""
        return func(*args, **(kwargs or {}))


def is_tensor_like(inp: Any) -> bool:
    """Return whether inp is a Tensor, or an instance of a class with `__torch_function__`."""
    return type(inp) is Tensor or hasattr(inp, "__torch_function__")


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Return whether an open mode, or an argument, currently overrides functions of Tensors."""
    return mode_is_open() or any(is_offered(one) for one in relevant_args)


def has_torch_function_unary(tensor: Any) -> bool:
    """Return whether an open mode, or the argument, currently overrides functions of Tensors."""
    return mode_is_open() or is_offered(tensor)


def has_torch_function_variadic(*args: Any) -> bool:
    """Return whether an open mode, or an argument, currently overrides functions of Tensors."""
    return has_torch_function(args)


def handle_torch_function(
    public_api: Callable[..., Any], relevant_args: Iterable[Any], *args: Any, **kwargs: Any
) -> Any:
    """Offer the call public_api(*args, **kwargs) to this thread's mode, then to the overrides of
    the relevant arguments. Return the first result other than NotImplemented.

    Raises  TypeError if the mode and all overrides return NotImplemented
    """
    try:
        asked = [] if thread.disabled else overloaded(relevant_args, _has_implementation)
        types = tuple([type(one) for one in asked])
        result = ask(asked, public_api, types, args, kwargs)
        if result is NotImplemented:
            raise TypeError(
                f"no implementation found for '{full_name(public_api)}' on types that implement "
                f"__torch_function__: {list(types)}"
            )
        return result
    except Exception as error:
        fold(error)
        raise


def _has_implementation(kind: type) -> bool:
    return getattr(kind, "__torch_function__", disabled_torch_function) is not (
        disabled_torch_function
    )


def wrap_torch_function(
    dispatcher: Callable[..., Iterable[Any]],
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator. The decorated function first offers each call to the overrides of the
    arguments that dispatcher returns.
    """

    def decorate(func: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(func)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            relevant_args = tuple(dispatcher(*args, **kwargs))
            if has_torch_function(relevant_args):
                return handle_torch_function(wrapped, relevant_args, *args, **kwargs)
            return func(*args, **kwargs)

        return wrapped

    return decorate


def get_default_nowrap_functions() -> frozenset[Callable[..., Any]]:
    """Return the functions whose results Tensor's `__torch_function__` does not convert."""
    return nowrap_functions()


def is_tensor_method_or_property(func: Any) -> bool:
    """Return whether func is a method of Tensor, or an accessor of one of its properties."""
    owner = getattr(func, "__self__", None)
    if isinstance(owner, property) or getattr(func, "__name__", "") == "__get__":
        return True
    return getattr(Tensor, getattr(func, "__name__", ""), None) is func


def resolve_name(f: Any) -> str | None:
    """Return the name by which errors and overrides refer to a function, such as `fastdist.add`."""
    known = any(f in functions for functions in get_overridable_functions().values())
    return full_name(f) if known else None


def get_ignored_functions() -> set[Callable[..., Any]]:
    """Return the public functions and methods that never call an override."""
    own = {getattr(Tensor, name) for name in NOT_OFFERED if hasattr(Tensor, name)}
    return own | {one for _, one in _functions() if one in _ignored()}


def get_overridable_functions() -> dict[Any, list[Callable[..., Any]]]:
    """Return the functions, methods and property accessors that call overrides before they run. The
    keys are the modules and classes in which users find them.
    """
    write_offers()
    found: dict[Any, list[Callable[..., Any]]] = {}
    for room, function in _functions():
        if function not in _ignored():
            found.setdefault(room, []).append(function)
    for name, offered in vars(OfferedMethods).items():
        if name[:1] != "_" or callable(offered):
            own = getattr(Tensor, name)
            known = own.__get__ if isinstance(own, property) else own
            found.setdefault(Tensor, []).append(known)
    return found


@functools.cache
def get_testing_overrides() -> dict[Callable[..., Any], Callable[..., Any]]:
    """Return a dict. Its keys are all functions that call overrides. Each value is a function with
    the same parameters that returns -1.
    """
    functions = (one for listed in get_overridable_functions().values() for one in listed)
    return {function: _dummy(function) for function in functions}


def _dummy(function: Callable[..., Any]) -> Callable[..., Any]:
    try:
        given = inspect.signature(function)
    except ValueError:  # an accessor of a property has no signature
        return lambda *args: -1
    names: dict[str, Any] = {}
    taken = []
    for parameter in given.parameters.values():
        if parameter.default is not parameter.empty:
            names[f"_default_{parameter.name}"] = parameter.default
            parameter = parameter.replace(default=_Said(f"_default_{parameter.name}"))
        taken.append(parameter.replace(annotation=parameter.empty))
    listed = str(inspect.Signature(taken)).removeprefix("(").removesuffix(")")
    return eval(f"lambda {listed}: -1", names)  # type: ignore[no-any-return]


class _Said(str):
    """A string whose repr is the string itself, without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _functions() -> Iterator[tuple[Any, Callable[..., Any]]]:
    """Yield (module, function) for each public function in modules with functions on Tensors."""
    for room in (sys.modules[__package__], functional, fft, linalg, special):
        for name in dir(room):
            found = getattr(room, name)
            own = str(getattr(found, "__module__", "")).startswith(__package__)
            if name[:1] != "_" and isinstance(found, FunctionType) and own and not _is_help(found):
                yield room, found


def _is_help(function: Callable[..., Any]) -> bool:
    """Return whether a function is an internal helper of fastdist, not a public function."""
    return function.__module__.startswith((f"{__package__}.core", f"{__package__}.dispatch"))


# Functions that never call an override: they take no Tensor, take any value, make a Tensor from
# data, or set or query modes.
_OF_NO_TENSOR = frozenset(
    """
    arange are_deterministic_algorithms_enabled as_tensor asarray autocast_decrement_nesting
    autocast_increment_nesting bartlett_window blackman_window broadcast_shapes can_cast
    clear_autocast_cache compile compiled_with_cxx11_abi cond empty empty_permuted empty_strided eye
    from_dlpack from_file from_numpy frombuffer full get_default_device get_default_dtype
    get_deterministic_debug_mode get_device_module get_file_path get_float32_matmul_precision
    get_num_interop_threads get_num_threads hamming_window hann_window initial_seed install_as_torch
    is_anomaly_check_nan_enabled is_anomaly_enabled is_autocast_cache_enabled
    is_autocast_cpu_enabled is_autocast_enabled is_deterministic_algorithms_warn_only_enabled
    is_grad_enabled is_inference_mode_enabled get_rng_state is_storage is_tensor is_vulkan_available
    is_warn_always_enabled kaiser_window linspace load logspace manual_seed norm_except_dim ones
    promote_types rand randint randn randperm range save scalar_tensor seed sparse_coo_tensor tensor
    to_dlpack tril_indices triu_indices typename use_deterministic_algorithms vmap while_loop zeros
    fft.fftfreq fft.rfftfreq Stream
    """.split()  # noqa: SIM905
)


@functools.cache
def _ignored() -> frozenset[Callable[..., Any]]:
    root = sys.modules[__package__]
    prefixes = ("get_autocast", "set_", "sym_")
    names = [name for name in dir(root) if name.startswith(prefixes)]
    return frozenset(attrgetter(name)(root) for name in (*_OF_NO_TENSOR, *names))


explain_missing(__name__)
