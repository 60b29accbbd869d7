"""Module, the base class of models and layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, Self, TypeVar

from ..compiler import runs_as_it_is
from ..core.device import Device, no_such_device
from ..core.dtypes import DType, bfloat16, float16, float32, float64
from ..core.errors import DeviceError, NoDataError
from ..core.folded_frames import fold, fold_constructor
from ..core.memory_format import MemoryFormat, preserve_format
from ..core.short_repr import short_repr
from ..graph.modes import no_grad
from ..graph.node import RemovableHandle
from ..ops.create.creation import empty_like
from ..tensor.shared_memory import share
from ..tensor.tensor import Tensor
from .module_hooks import (
    GLOBAL_HOOKS,
    GLOBAL_PRE_HOOKS,
    Hook,
    Hooks,
    add_hook,
    adopt_hooks,
    call_with_hooks,
    hooks_of_backward,
)
from .module_tree import ModuleTree
from .parameter import is_lazy, still_lazy
from .state_dict import StateDict

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class HasForward(Protocol[P, R_co]):
    """Protocol for type checkers: calling a module takes the arguments of its `forward`."""

    @property
    def forward(self) -> Callable[P, R_co]: ...


def _no_forward(self: Module, *args: Any, **kwargs: Any) -> Any:
    raise NotImplementedError(
        f'Module [{type(self).__name__}] is missing the required "forward" function'
    )


class Module(StateDict):
    """Base class of models and layers: a function with parameters.

    A subclass calls super().__init__() in its `__init__`, then assigns parameters and other modules
    as attributes, and defines `forward`. Calling the module runs `forward`. `state_dict` and
    `load_state_dict` save and restore the module's parameters and buffers by name. `to` moves them
    to a device. `train` and `eval` switch between training mode and evaluation mode.

    Thread  several threads may call a module concurrently; only one thread at a time may change the
            module's parameters, mode and hooks
    Raises  AttributeError when a parameter or module is assigned, if the subclass has not called
            super().__init__()

    Example:
        >>> class Scale(nn.Module):
        ...     def __init__(self, factor):
        ...         super().__init__()
        ...         self.factor = nn.Parameter(torch.tensor(factor))
        ...     def forward(self, x):
        ...         return self.factor * x
        >>> scale = Scale(3.0)
        >>> scale(torch.ones(2)).sum().backward()
        >>> scale.factor.grad
        tensor(2.)
        >>> list(scale.state_dict())
        ['factor']
    """

    _forward_hooks: Hooks
    _forward_pre_hooks: Hooks
    # Whether __init__ passes its arguments to the next class in the MRO. Cooperative multiple
    # inheritance needs this.
    call_super_init = False
    # Legacy flag, ignored; kept for compatibility.
    dump_patches = False
    # The type is any function, because each subclass's forward has its own signature.
    forward: Callable[..., Any] = _no_forward

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        fold_constructor(cls)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if not self.call_super_init and (args or kwargs):
            what = f"got an unexpected keyword argument {short_repr(next(iter(kwargs), None))}"
            if args:
                what = f"takes 1 positional argument but {len(args) + 1} were given"
            raise TypeError(f"{type(self).__name__}.__init__() {what}")
        super().__init__()
        object.__setattr__(self, "_forward_hooks", {})
        object.__setattr__(self, "_forward_pre_hooks", {})
        if self.call_super_init:
            super(ModuleTree, self).__init__(*args, **kwargs)

    if TYPE_CHECKING:

        def __call__(self: HasForward[P, R], *args: P.args, **kwargs: P.kwargs) -> R: ...

    else:

        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            try:
                if (
                    self._forward_hooks
                    or self._forward_pre_hooks
                    or GLOBAL_HOOKS
                    or GLOBAL_PRE_HOOKS
                ):
                    return call_with_hooks(self, args, kwargs)
                return self.forward(*args, **kwargs)
            except Exception as error:
                fold(error)
                raise

    # PyTorch's private names for `__call__` and, below, for a call without hooks: some packages use
    # these names.
    _call_impl = _wrapped_call_impl = __call__

    def _slow_forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.forward(*args, **kwargs)

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call hook(module, args) before forward; the hook's result replaces the arguments.

        Note    if with_kwargs is set, the call is hook(module, args, kwargs), which returns None or
                a pair of new args and kwargs
        """
        return add_hook(self._forward_pre_hooks, Hook(hook, with_kwargs), prepend=prepend)

    def register_forward_hook(
        self,
        hook: Callable[..., Any],
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> RemovableHandle:
        """Call hook(module, args, output) after forward; the hook's result replaces the output.

        Note    if with_kwargs is set, the call is hook(module, args, kwargs, output). If
                always_call is set, the hook also runs with output=None when forward raises
        """
        entry = Hook(hook, with_kwargs, always_call)
        return add_hook(self._forward_hooks, entry, prepend=prepend)

    def register_full_backward_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call hook(module, grad_input, grad_output) in the backward pass of each call.

        The hook runs when the gradients of the arguments have been computed. The hook's result
        replaces grad_input.

        Note    the hook does not see gradients of keyword arguments
        """
        self.__require_other("old")
        # Stored with the forward hooks, so that a call makes a single check for hooks.
        return add_hook(self._forward_hooks, Hook(hook, backward="full"), prepend=prepend)

    def register_backward_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call hook(module, grad_input, grad_output) in the backward pass of each call.

        This is PyTorch's older hook: it gets the gradients of the inputs and outputs of the call's
        last op. A hook of register_full_backward_hook gets the gradients of the whole call.

        Raises  RuntimeError if the module has full backward hooks
        """
        self.__require_other("full")
        return add_hook(self._forward_hooks, Hook(hook, backward="old"), prepend=False)

    def __require_other(self, kind: str) -> None:
        if any(hook.backward == kind for hook in self._forward_hooks.values()):
            raise RuntimeError(
                "Cannot use both regular backward hooks and full backward hooks on a single "
                "Module. Please use only one of them."
            )

    def register_full_backward_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call hook(module, grad_output) when the gradients of a call's outputs have been computed.

        The hook's result replaces grad_output.
        """
        return add_hook(self._forward_hooks, Hook(hook, backward="pre"), prepend=prepend)

    @property
    def _backward_hooks(self) -> dict[int, Callable[..., Any]]:
        """The hooks from register_full_backward_hook and register_backward_hook, in a new dict.

        PyTorch has an attribute of this name, which some packages read.
        """
        return hooks_of_backward(self._forward_hooks, "full", "old")

    @property
    def _backward_pre_hooks(self) -> dict[int, Callable[..., Any]]:
        """The hooks from register_full_backward_pre_hook, in a new dict."""
        return hooks_of_backward(self._forward_hooks, "pre")

    @property
    def _is_full_backward_hook(self) -> bool | None:
        """Whether the backward hooks are full backward hooks; None if there are no hooks."""
        kinds = {hook.backward for hook in self._forward_hooks.values()} & {"full", "old"}
        return "full" in kinds if kinds else None

    def train(self, mode: bool = True) -> Self:
        """Set training mode, or evaluation mode if mode is False, in this module and all modules in
        it.

        Raises  ValueError for a value that is not a bool
        """
        if not isinstance(mode, bool):
            raise ValueError(f"training mode is expected to be boolean, got {short_repr(mode)}")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self) -> Self:
        """Set evaluation mode in this module and all modules in it."""
        return self.train(False)

    def apply(self, fn: Callable[[Module], Any]) -> Self:
        """Call fn on every module, children before their parents."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Set requires_grad of all parameters."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Set the gradients of all parameters to None, or fill them with zeros."""
        for parameter in self.parameters():
            clear_grad(parameter, set_to_none=set_to_none)

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Move this module's tensors to a device, or convert its floating-point tensors to a dtype.

        Call it as to(device), to(dtype), to(device, dtype), to(tensor) or to(memory_format=...). A
        memory format applies to tensors with four or five axes.

        Raises  TypeError for a dtype that is not floating-point, RuntimeError if a tensor's number
                of axes does not fit the memory format

        Args:
            *args: A device, a dtype, a device and a dtype, or a tensor.
            **kwargs: The same by name, and non_blocking.

        Returns:
            The module itself.

        Example:
            >>> layer = nn.Linear(2, 2).to(torch.float64)
            >>> layer.weight.dtype
            fastdist.float64
        """
        try:
            memory_format: MemoryFormat = kwargs.pop("memory_format", None) or preserve_format
            device, dtype, late = parse_to(*args, **kwargs)
            if dtype is not None and not dtype.may_have_gradient:
                raise TypeError(
                    "nn.Module.to only accepts floating point or complex dtypes, but got desired "
                    f"dtype={short_repr(dtype)}; convert a buffer of integers separately"
                )

            def convert(tensor: Tensor) -> Tensor:
                how: dict[str, Any] = {
                    "dtype": dtype if tensor.is_floating_point() else None,
                    "non_blocking": late,
                }
                if memory_format is preserve_format or tensor.dim() not in (4, 5):
                    return tensor.to(device=device, **how)
                return tensor.to(device=device, memory_format=memory_format, **how)

            try:
                return self._apply(convert)
            except NoDataError:
                raise NoDataError(
                    "Cannot copy out of meta tensor; no data! Please use Module.to_empty() instead "
                    "of Module.to() when moving module from meta to a different device."
                ) from None
        except Exception as error:
            fold(error)
            raise

    # The methods below call Module.to, not self.to, because a subclass may define a `to` that calls
    # these methods.
    def float(self) -> Self:
        """Convert floating-point parameters and buffers to float32."""
        return Module.to(self, float32)

    def double(self) -> Self:
        """Convert floating-point parameters and buffers to float64."""
        return Module.to(self, float64)

    def half(self) -> Self:
        """Convert floating-point parameters and buffers to float16."""
        return Module.to(self, float16)

    def bfloat16(self) -> Self:
        """Convert floating-point parameters and buffers to bfloat16."""
        return Module.to(self, bfloat16)

    def type(self, dst_type: DType) -> Self:
        """Convert all parameters and buffers to a dtype."""
        return self._apply(lambda tensor: tensor.to(dst_type))

    def cpu(self) -> Self:
        """Move this module's tensors to main memory."""
        return Module.to(self, "cpu")

    def cuda(self, device: int | str | Device | None = None) -> Self:
        """Move this module's tensors to an NVIDIA GPU, by default this thread's current GPU."""
        if isinstance(device, int):
            device = f"cuda:{device}"
        return Module.to(self, "cuda" if device is None else device)

    def xpu(self, device: Any = None) -> Self:
        """Raise RuntimeError: Intel GPUs are not supported."""
        raise DeviceError(no_such_device("xpu"))

    def ipu(self, device: Any = None) -> Self:
        """Raise RuntimeError: IPUs are not supported."""
        raise DeviceError(no_such_device("ipu"))

    def mtia(self, device: Any = None) -> Self:
        """Raise RuntimeError: Meta's accelerators are not supported."""
        raise DeviceError(no_such_device("mtia"))

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Warn once and do nothing: the module runs uncompiled."""
        runs_as_it_is("compile()")

    def share_memory(self) -> Self:
        """Move parameters, their gradients and buffers to shared memory, and return the module.

        Processes that receive the module afterwards use the same memory: see Tensor.share_memory_.

        Note    only a forked process shares the gradients. Call zero_grad() before share_memory(),
                so that each process has its own gradients
        """
        parameters = list(self.parameters())
        for one in (*parameters, *self.buffers()):
            if is_lazy(one):
                one.share_memory_()  # raises the error for a tensor without memory
        grads = [parameter.grad for parameter in parameters if parameter.grad is not None]
        share([*parameters, *grads, *self.buffers()])
        return self

    def to_empty(self, *, device: Any, recurse: bool = True) -> Self:
        """Replace parameters and buffers by uninitialized tensors on a device; copy no values."""
        return self._apply(lambda tensor: empty_like(tensor, device=device), recurse)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        with no_grad():
            # Each parameter is converted once, even if two modules share it: a second conversion
            # would change nothing, but takes time.
            for parameter in self.parameters(recurse):
                grad = parameter.grad
                parameter.grad = None
                parameter.data = fn(parameter)
                if grad is not None:
                    grad.data = fn(grad)
                    parameter.grad = grad
            for module in self.modules() if recurse else (self,):
                for name, buffer in module._buffers.items():
                    if buffer is not None:
                        module._buffers[name] = still_lazy(buffer, fn(buffer))
        return self

    def _get_name(self) -> str:
        return self.__class__.__name__

    def extra_repr(self) -> str:
        """Return the text between the parentheses of the module's repr; subclasses override it."""
        return ""

    def __repr__(self) -> str:
        extra = self.extra_repr()
        children = [f"({name}): {_indented(repr(m))}" for name, m in self._modules.items()]
        return describe(self._get_name(), extra.split("\n") if extra else [], children)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        adopt_hooks(self.__dict__)


# These annotations are types instead of strings, because some programs evaluate annotations in
# their own namespaces, where the strings' names may be missing.
Module.__annotations__ = {
    "call_super_init": bool,
    "dump_patches": bool,
    "forward": Callable[..., Any],
    "training": bool,
}


def describe(name: str, extra: list[str], children: list[str]) -> str:
    """Return a module's repr: one line if there are no children and at most one item in `extra`,
    else each item of `extra` and `children` on a new line.
    """
    if not children and len(extra) <= 1:
        return f"{name}({''.join(extra)})"
    return "\n".join([f"{name}(", *[f"  {line}" for line in (*extra, *children)], ")"])


def _indented(text: str) -> str:
    return text.replace("\n", "\n  ")


def clear_grad(tensor: Tensor, *, set_to_none: bool) -> None:
    """Set a tensor's gradient to None, or fill the gradient with zeros outside the graph."""
    grad = tensor.grad
    if grad is None:
        return
    if set_to_none:
        tensor.grad = None
    elif grad.grad_fn is not None:
        tensor.grad = grad.detach().zero_()
    else:
        with no_grad():
            grad.zero_()


def parse_to(
    *args: Any,
    device: Any = None,
    dtype: DType | None = None,
    non_blocking: bool = False,
) -> tuple[Device | None, DType | None, bool]:
    """Return device, dtype and non_blocking from the arguments of Tensor.to."""
    flags = list[bool]()
    for value in args:
        if isinstance(value, Tensor):
            device, dtype = value.device, value.dtype
        elif isinstance(value, DType):
            dtype = value
        elif isinstance(value, bool):
            flags.append(value)  # the first bool is non_blocking, the second is copy
        elif value is not None:
            device = value
    found = None if device is None else Device.parse(device)
    return found, dtype, flags[0] if flags else non_blocking
