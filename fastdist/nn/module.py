"""Module, the class that models are made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, Self, TypeVar

from ..compiler import runs_as_it_is
from ..core.device import Device, no_such_device
from ..core.dtypes import DType, bfloat16, float16, float32, float64
from ..core.errors import DeviceError, NoDataError
from ..core.folded_frames import fold
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
    """A module to type checkers: a call takes the arguments of its `forward`."""

    @property
    def forward(self) -> Callable[P, R_co]: ...


def _no_forward(self: Module, *args: Any, **kwargs: Any) -> Any:
    raise NotImplementedError(
        f'Module [{type(self).__name__}] is missing the required "forward" function'
    )


class Module(StateDict):
    """A function with parameters. Subclasses assign parameters and other modules as attributes in
    `__init__`, after super().__init__(), and define forward; calling the module runs it.

    Thread  any number may call a module at once; change it (parameters, mode, hooks) from one

    A subclass calls `super().__init__()` first. `state_dict` and `load_state_dict` save and restore
    its parameters and buffers by name, `to` moves them, `train` and `eval` switch its mode.

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
    # Whether __init__ passes what it is given on to the next class, for modules that are also
    # something else.
    call_super_init = False
    # Legacy flag, ignored; kept for compatibility.
    dump_patches = False
    # Typed so because each module's forward has its own parameters.
    forward: Callable[..., Any] = _no_forward

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

    # PyTorch's names for a call, with its hooks and without, which packages use.
    _call_impl = _wrapped_call_impl = __call__

    def _slow_forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.forward(*args, **kwargs)

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call hook(module, args) before forward; what it returns takes the arguments' place.

        Note    with_kwargs: hook(module, args, kwargs), which returns None or both
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
        """Call hook(module, args, output) after forward; what it returns takes the output's place.

        Note    with_kwargs: hook(module, args, kwargs, output); always_call: also when forward
                raised, with None for the output
        """
        entry = Hook(hook, with_kwargs, always_call)
        return add_hook(self._forward_hooks, entry, prepend=prepend)

    def register_full_backward_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call hook(module, grad_input, grad_output) when the gradients of a call's arguments are
        there; what it returns takes grad_input's place.

        Note    keyword arguments are not passed to the hook
        """
        self.__require_other("old")
        # Among the forward hooks, so that a module without any asks for nothing more at a call.
        return add_hook(self._forward_hooks, Hook(hook, backward="full"), prepend=prepend)

    def register_backward_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call hook(module, grad_input, grad_output) with the gradients of the last operation of a
        call, as PyTorch's older programs do; register_full_backward_hook tells those of the call.

        Raises  RuntimeError where the module has hooks of the other kind
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
        """Call hook(module, grad_output) when the gradients of a call's results are there; what it
        returns takes their place.
        """
        return add_hook(self._forward_hooks, Hook(hook, backward="pre"), prepend=prepend)

    @property
    def _backward_hooks(self) -> dict[int, Callable[..., Any]]:
        """The functions of register_full_backward_hook and register_backward_hook, as packages
        read them; a copy.
        """
        return hooks_of_backward(self._forward_hooks, "full", "old")

    @property
    def _backward_pre_hooks(self) -> dict[int, Callable[..., Any]]:
        """The functions of register_full_backward_pre_hook; a copy."""
        return hooks_of_backward(self._forward_hooks, "pre")

    @property
    def _is_full_backward_hook(self) -> bool | None:
        """Whether the backward hooks see the gradients of a call; None without any."""
        kinds = {hook.backward for hook in self._forward_hooks.values()} & {"full", "old"}
        return "full" in kinds if kinds else None

    def train(self, mode: bool = True) -> Self:
        """Put this module and all below it into training mode, or out of it.

        Raises  ValueError for a value that is not a bool
        """
        if not isinstance(mode, bool):
            raise ValueError(f"training mode is expected to be boolean, got {short_repr(mode)}")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self) -> Self:
        """Put this module and all below it into evaluation mode."""
        return self.train(False)

    def apply(self, fn: Callable[[Module], Any]) -> Self:
        """Call fn on every module, children before their parents."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Ask for gradients of all parameters, or no longer."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters, or write zeros into them."""
        for parameter in self.parameters():
            clear_grad(parameter, set_to_none=set_to_none)

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Move this module's tensors to a device, or convert its floating ones to a dtype.

        Called as to(device), to(dtype), to(device, dtype), to(tensor) or to(memory_format=...),
        which is for tensors with four or five axes

        Raises  TypeError for a dtype that is not floating, RuntimeError for such a tensor of other
                axes than the format orders

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
                "Cannot copy out of meta tensor; no data! Please use Module.to_empty() instead of "
                "Module.to() when moving module from meta to a different device."
            ) from None

    # Module.to, not self.to: a subclass may override `to` by calls of these methods.
    def float(self) -> Self:
        """Convert floating parameters and buffers to float32."""
        return Module.to(self, float32)

    def double(self) -> Self:
        """Convert floating parameters and buffers to float64."""
        return Module.to(self, float64)

    def half(self) -> Self:
        """Convert floating parameters and buffers to float16."""
        return Module.to(self, float16)

    def bfloat16(self) -> Self:
        """Convert floating parameters and buffers to bfloat16."""
        return Module.to(self, bfloat16)

    def type(self, dst_type: DType) -> Self:
        """Convert all parameters and buffers to a dtype."""
        return self._apply(lambda tensor: tensor.to(dst_type))

    def cpu(self) -> Self:
        """Move this module's tensors to main memory."""
        return Module.to(self, "cpu")

    def cuda(self, device: int | str | Device | None = None) -> Self:
        """Move this module's tensors to an NVIDIA GPU, this thread's own unless told otherwise."""
        if isinstance(device, int):
            device = f"cuda:{device}"
        return Module.to(self, "cuda" if device is None else device)

    def xpu(self, device: Any = None) -> Self:
        """Raise RuntimeError: there are no Intel GPUs here."""
        raise DeviceError(no_such_device("xpu"))

    def ipu(self, device: Any = None) -> Self:
        """Raise RuntimeError: there are no IPUs here."""
        raise DeviceError(no_such_device("ipu"))

    def mtia(self, device: Any = None) -> Self:
        """Raise RuntimeError: there are no accelerators of Meta's here."""
        raise DeviceError(no_such_device("mtia"))

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Leave the module as it is, and say so once: it runs as it is written."""
        runs_as_it_is("compile()")

    def share_memory(self) -> Self:
        """Move the memory of parameters, their gradients and buffers to where processes that get
        this module see it, as Tensor.share_memory_ does; return the module.

        Note    a gradient is shared with a process that is forked alone; zero_grad() before, and
                each process has its own
        """
        parameters = list(self.parameters())
        for one in (*parameters, *self.buffers()):
            if is_lazy(one):
                one.share_memory_()  # says that there is nothing to share
        grads = [parameter.grad for parameter in parameters if parameter.grad is not None]
        share([*parameters, *grads, *self.buffers()])
        return self

    def to_empty(self, *, device: Any, recurse: bool = True) -> Self:
        """Move this module to a device without its numbers: parameters and buffers are new there,
        and hold what nobody has set.
        """
        return self._apply(lambda tensor: empty_like(tensor, device=device), recurse)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        with no_grad():
            # Each parameter once, even if two modules share it: the second time would undo nothing,
            # but it costs a conversion.
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
        """Return the text between the parentheses of this module's repr; may be overridden."""
        return ""

    def __repr__(self) -> str:
        extra = self.extra_repr()
        children = [f"({name}): {_indented(repr(m))}" for name, m in self._modules.items()]
        return describe(self._get_name(), extra.split("\n") if extra else [], children)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        adopt_hooks(self.__dict__)


# Types, not strings: programs evaluate an instance's annotations in their own namespaces.
Module.__annotations__ = {
    "call_super_init": bool,
    "dump_patches": bool,
    "forward": Callable[..., Any],
    "training": bool,
}


def describe(name: str, extra: list[str], children: list[str]) -> str:
    """Return a module's repr: one line if it has no children, else a line for each part."""
    if not children and len(extra) <= 1:
        return f"{name}({''.join(extra)})"
    return "\n".join([f"{name}(", *[f"  {line}" for line in (*extra, *children)], ")"])


def _indented(text: str) -> str:
    return text.replace("\n", "\n  ")


def clear_grad(tensor: Tensor, *, set_to_none: bool) -> None:
    """Forget a tensor's gradient, or write zeros into it, outside of any graph."""
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
            flags.append(value)  # non_blocking, then copy
        elif value is not None:
            device = value
    found = None if device is None else Device.parse(device)
    return found, dtype, flags[0] if flags else non_blocking
