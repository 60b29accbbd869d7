"""RemoteModule: a module on another worker that is called like a local one."""

# A call sends an RRef of the module and the call's arguments, and receives the result. Both workers
# record the graph of the call as for any remote call. So a distributed backward pass goes through
# the module, and gradients stay with the parameters. The module's parameters, submodules and hooks
# are on the other worker. Methods of Module that access them raise errors here: otherwise they
# would report that the module has no parameters, submodules or hooks.

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, Self

from fastdist.concurrency.future import Future
from fastdist.core.device import CPU, Device
from fastdist.core.errors import MessageError
from fastdist.core.missing import explain_missing
from fastdist.distributed.rpc.message.body import register_reducer
from fastdist.nn.module import Module
from fastdist.tensor.parameter import Parameter
from fastdist.tensor.tensor import Tensor

from ....core.short_repr import short_repr
from ... import rpc
from ...remote_device import _remote_device
from ...rpc.agent import get_current_agent
from ...rpc.call_arguments import arguments_of, keywords_of
from ...rpc.message import gate

__all__ = ["RemoteModule"]

_NO_INTERFACES = (
    "_module_interface_cls: there is no TorchScript here, whose types module interfaces are; leave "
    "it out, and call the module with what its forward takes"
)


class _RemoteModule(Module):
    """The base of RemoteModule. PyTorch's class also accepts a TorchScript interface.

    Raises  NotImplementedError if an interface is passed; the errors of RemoteModule
    """

    on: str | int
    device: str
    is_device_map_set: bool
    is_scriptable = False
    module_rref: rpc.RRef[Any]

    def __init__(
        self,
        remote_device: str,
        module_cls: Callable[..., Module],
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        _module_interface_cls: object = None,
    ) -> None:
        super().__init__()
        self._find(remote_device, _module_interface_cls)
        given = (module_cls, arguments_of(args), keywords_of(kwargs), self.device)
        self.module_rref = rpc.remote(self.on, _create_module, given)

    @staticmethod
    def init_from_module_rref(
        remote_device: str,
        module_rref: rpc.RRef[Any],
        _module_interface_cls: object = None,
    ) -> RemoteModule:
        """Return a RemoteModule for an existing module on the worker and device `remote_device`.

        Raises  ValueError if the module is on a different worker; the errors of RemoteModule
        """
        made = RemoteModule.__new__(RemoteModule)
        Module.__init__(made)
        made._find(remote_device, _module_interface_cls)
        owner = module_rref.owner()
        if get_current_agent().get_worker_info(made.on) != owner:
            raise ValueError(
                f"RemoteModule: the module lives on {short_repr(owner.name)}, and remote_device is "
                f"{short_repr(remote_device)}; say '{owner.name}/{made.device}'"
            )
        made.module_rref = module_rref
        return made

    def _find(self, remote_device: str, module_interface_cls: object) -> None:
        if module_interface_cls is not None:
            raise NotImplementedError(_NO_INTERFACES)
        if not rpc._is_current_rpc_agent_set():
            raise AssertionError("RemoteModule only works in RPC. Call rpc.init_rpc before")
        place = _remote_device(remote_device)
        agent = get_current_agent()
        name, rank = place.worker_name(), place.rank()
        self.on = name or (agent.get_worker_info().name if rank is None else rank)
        self.device = str(place.device())
        self.is_device_map_set = bool(agent.device_map_to(agent.worker(self.on)))

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the module on its worker, and return the result.

        Raises  errors of the module or of its construction; RpcTimeoutError; WorkerLostError
        Note    the module's own hooks run on its worker
        """
        return rpc.rpc_sync(self.module_rref.owner(), _remote_forward, self._call(args, kwargs))

    def forward_async(self, *args: Any, **kwargs: Any) -> Future[Any]:
        """Call the module without waiting, and return a Future of the result."""
        return rpc.rpc_async(self.module_rref.owner(), _remote_forward, self._call(args, kwargs))

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        return self.module_rref, args, kwargs, self.device, self.is_device_map_set

    def remote_parameters(self, recurse: bool = True) -> list[rpc.RRef[Parameter]]:
        """Return RRefs of the module's parameters, for a DistributedOptimizer; if `recurse` is
        true, the parameters of submodules are included.
        """
        owner = self.module_rref.owner()
        found: list[rpc.RRef[Parameter]] = rpc.rpc_sync(
            owner, _param_rrefs, (self.module_rref, recurse)
        )
        return found

    def get_module_rref(self) -> rpc.RRef[Any]:
        """Return the RRef of the module."""
        return self.module_rref

    def train(self, mode: bool = True) -> Self:
        """Set the training mode of the module on its worker."""
        rpc.rpc_sync(self.module_rref.owner(), _set_training, (self.module_rref, mode))
        self.training = mode
        return self

    def __getstate__(self) -> NoReturn:
        raise RuntimeError(
            "Cannot pickle RemoteModule in python pickler. RemoteModule can only be pickled when "
            f"using RPC{_of_a_subclass(self)}"
        )

    def __setstate__(self, state: object) -> NoReturn:
        raise RuntimeError(
            "Cannot unpickle RemoteModule in python pickler. RemoteModule can only be unpickled "
            "when using RPC"
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({_written(self)})"


class RemoteModule(_RemoteModule):
    """A module on another worker, which constructs it as `module_cls(*args, **kwargs)`.

    `remote_device` is, for example, "worker1/cuda:0" or "rank:1/cpu"; the default device is the
    CPU. The arguments of a call are moved to the module's device. Results come back on the CPU,
    unless a device map maps the module's device to a device of the caller. A RemoteModule that is
    sent by RPC refers to the same module.

    Thread  any; forward and train wait for the other worker
    Raises  AssertionError before rpc.init_rpc; ValueError for another format of remote_device;
            DeviceError. Errors of module_cls are raised by the first call

    Args:
        remote_device: The worker and the device of the module.
        module_cls: A class, or function, that the other worker can import.
        args: The positional arguments of `module_cls`; none if None.
        kwargs: The keyword arguments of `module_cls`; none if None.
    """

    def __init__(
        self,
        remote_device: str,
        module_cls: Callable[..., Module],
        args: Sequence[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(remote_device, module_cls, args, kwargs)


# ---- members of Module that exist only on the other worker --------------------------------------

_NOT_HERE = (
    "_apply", "add_module", "apply", "bfloat16", "buffers", "children", "cpu", "cuda", "double",
    "extra_repr", "float", "half", "ipu", "load_state_dict", "modules", "mtia", "named_buffers",
    "named_children", "named_modules", "named_parameters", "parameters", "register_backward_hook",
    "register_buffer", "register_forward_hook", "register_forward_pre_hook",
    "register_full_backward_hook", "register_full_backward_pre_hook", "register_parameter",
    "requires_grad_", "share_memory", "state_dict", "to", "to_empty", "type", "xpu", "zero_grad",
)  # fmt: skip
_INSTEAD = {
    "parameters": ". Please use ``remote_parameters`` instead.",
    "state_dict": ": get_module_rref().rpc_sync().state_dict() fetches it",
    "load_state_dict": ": get_module_rref().rpc_sync().load_state_dict(state) sends it there",
    "zero_grad": ": gradients are those of a context; a DistributedOptimizer has zero_grad()",
}
_ANYWHERE = (
    ": the module lives on the other worker; run a function there that takes get_module_rref(), "
    "and do it to its local_value()"
)


def _not_supported(name: str) -> Callable[..., NoReturn]:
    def refuse(self: _RemoteModule, *args: object, **kwargs: object) -> NoReturn:
        raise ValueError(
            f"Method ``{name}`` not supported for RemoteModule{_INSTEAD.get(name, _ANYWHERE)}"
        )

    refuse.__name__ = name
    refuse.__qualname__ = f"_RemoteModule.{name}"
    refuse.__doc__ = "Raise ValueError: the module, and all it has, is on the other worker."
    return refuse


for _name in _NOT_HERE:
    setattr(_RemoteModule, _name, _not_supported(_name))


# ---- functions that run on the module's worker --------------------------------------------------


@rpc.export
def _create_module(
    module_cls: Callable[..., Module],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    device: str,
) -> Module:
    gate.require_callable_by_others(module_cls)
    module = module_cls(*args, **kwargs)
    if not isinstance(module, Module):
        raise ValueError(
            "Expect `module_cls(*args, **kwargs)` returns an instance of <class nn.Module>, "
            f"but it returns an instance of {type(module)}."
        )
    return module if Device(device) is CPU else module.to(device)


@rpc.export
def _remote_forward(
    module_rref: rpc.RRef[Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    device: str,
    is_device_map_set: bool,
) -> Any:
    module = _local(module_rref)
    there = Device(device)
    if there is CPU:
        return module(*args, **kwargs)
    result = module(*_moved(args, there), **_moved(kwargs, there))
    return result if is_device_map_set else _moved(result, CPU)


@rpc.export
def _param_rrefs(module_rref: rpc.RRef[Any], recurse: bool) -> list[rpc.RRef[Parameter]]:
    parameters = _local(module_rref).parameters(recurse)
    return [rpc.RRef(parameter) for parameter in parameters]


@rpc.export
def _set_training(module_rref: rpc.RRef[Any], mode: bool) -> None:
    _local(module_rref).train(mode)


def _local(module_rref: rpc.RRef[Any]) -> Module:
    """Return the module of an RRef, after a check that other workers may call the module.

    Raises  TypeError if the argument is not an RRef of a Module; in strict mode,
            ForbiddenFunctionError if the module's forward was neither exported nor allowed
    """
    module = module_rref.local_value() if isinstance(module_rref, rpc.RRef) else module_rref
    if module is module_rref or not isinstance(module, Module):
        raise TypeError(f"expected an RRef of a Module, got {type(module).__name__}")
    gate.require_callable_by_others(module.forward)
    return module


def _moved(value: Any, device: Device) -> Any:
    """Return a value whose tensors, also those in tuples, lists and dicts, are on a device."""
    if isinstance(value, Tensor):
        return value.to(device)
    if isinstance(value, dict):
        return {key: _moved(each, device) for key, each in value.items()}
    if value.__class__ in (tuple, list):
        return value.__class__(_moved(each, device) for each in value)
    return value


# ---- pickling -----------------------------------------------------------------------------------


def _written(module: _RemoteModule) -> str:
    on = module.on if isinstance(module.on, str) else f"rank:{module.on}"
    return f"{on}/{module.device}"


def _of_a_subclass(module: _RemoteModule) -> str:
    if type(module) is RemoteModule:
        return ""
    return (
        f", and {type(module).__name__}, which is made of it, not even then: send "
        "get_module_rref(), and make it there by RemoteModule.init_from_module_rref"
    )


def _remote_module_reducer(module: RemoteModule) -> tuple[Any, ...]:
    return _remote_module_receiver, (_written(module), module.module_rref)


def _remote_module_receiver(remote_device: str, module_rref: rpc.RRef[Any]) -> RemoteModule:
    if not (isinstance(remote_device, str) and isinstance(module_rref, rpc.RRef)):
        raise MessageError(
            f"a RemoteModule at {short_repr(remote_device)} of {type(module_rref).__name__}"
        )
    return RemoteModule.init_from_module_rref(remote_device, module_rref)


register_reducer(RemoteModule, _remote_module_reducer, _remote_module_receiver)
explain_missing(__name__)
