"""RRef: a reference to a value that stays on its owner; calls of the value's methods there."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

from fastdist.concurrency.future import Future
from fastdist.core.errors import OwnerLostError, RemoteError, RpcError, RpcTimeoutError
from fastdist.core.folded_frames import fold

from .. import constants
from ..calls.client import Client
from ..calls.outgoing import deadline_of
from ..calls.serving import name_of
from ..handlers import DeferredResult
from ..message import gate
from ..message.error_parts import copy_error
from ..message.ids import LOCAL, RANK_SHIFT, id_text
from ..message.types import MessageType
from ..torch_names.argument_errors import constructor, seconds
from ..workers.record import WorkerInfo
from ..workers.worker import Worker
from .held import HeldReference, State
from .kept import KeptValue

T = TypeVar("T")


class _ValueFuture(Future[T]):
    """A Future of a reference's value, or of the error of the call that should have made it."""

    __slots__ = ()
    _told_as = "the call of rpc.remote() that should have made a value here"


class OwnedValue(KeptValue):
    """The owner's side of an RRef: the value once it exists, and its references.

    Thread  the lock of OwnedValues (owned.py) guards the attributes of KeptValue
    """

    __slots__ = ("future", "maker", "rref_id")

    def __init__(self, rref_id: int, maker: Worker | None = None) -> None:
        super().__init__()
        self.rref_id = rref_id
        # The worker whose remote call makes the value; None if that worker is not a member.
        self.maker = maker
        self.future: Future[Any] = _ValueFuture()

    def wait(self, timeout_s: float = 0.0) -> Any:
        """Wait until the value exists, and return it.

        Raises  a copy of the error of the function that should have made the value; RpcTimeoutError
                if the value does not exist in time, or at the end of the request that this thread
                serves
        Note    the stored error is not raised itself: a raised error keeps the frames through which
                it passes, and the stored error lives as long as the references
        """
        if not self.future.done():
            deadline, _ = deadline_of(timeout_s)
            left_s = None if deadline is None else max(0.0, deadline - time.monotonic())
            if not self.future.wait_until_done(left_s):
                raise RpcTimeoutError(
                    f"the value of RRef {id_text(self.rref_id)} was not made in time: the call "
                    "that makes it still runs, or never came"
                )
        return self.value()

    def value(self) -> Any:
        """Return the value, which must exist.

        Raises  the errors of wait
        """
        error = self.future.exception()
        if error is None:
            return self.future.value()
        raise copy_of(error) from error.__cause__


def creation_error(error: BaseException) -> BaseException:
    """Return the error to raise for a value, given the error of the call that should make it."""
    if not isinstance(error, RpcTimeoutError):
        return error
    return RpcTimeoutError(
        "RRef creation via rpc.remote() timed out, and it is possible that the RRef on the owner "
        f"node does not exist. {error}"
    )


def copy_of(error: BaseException) -> BaseException:
    """Return a copy of a stored error, with its notes, to raise instead of the stored error."""
    try:
        return copy_error(error)
    except Exception:
        return RemoteError(f"{type(error).__name__}: {error}")


class Context(Protocol):
    """The part of the RRefContext that an RRef uses."""

    me: Worker
    client: Client

    def new_owned(self, value: object) -> OwnedValue:
        """Make `value` a value of this worker; return its OwnedValue."""

    def fetch(self, rref: RRef[Any], timeout: float) -> Any:
        """Return the value of an RRef that another worker owns."""

    def reference_dropped(self, held: HeldReference) -> None:
        """Notify the owner of a reference's end; called by the garbage collector, in any thread."""

    def owned_died(self, owned: OwnedValue) -> None:
        """Remove a value that is not needed; called by the garbage collector, in any thread."""


class RRef(Generic[T]):
    """A reference to a value on its owner; the value lives as long as any worker refers to it.

    `RRef(value)` makes this worker the owner of value; `rpc.remote` makes another worker the owner.

    Thread  any
    Raises  RpcNotRunningError if RPC is not initialized on this worker

    Args:
        value: The value, which stays on this worker.
        type_hint: Ignored: the class of the value, for TorchScript.
        devices: The GPUs on which the value is; none if None.

    Example:
        >>> rref = rpc.RRef(torch.ones(2))
        >>> rref.is_owner(), rref.owner_name()
        (True, 'worker0')
        >>> rref.local_value()
        tensor([1., 1.])
    """

    # The Future of the remote call that makes the value, if this worker made that call.
    _creation: Future[Any] | None = None
    # A Future that is done when a profile has the events of that call; None without a profile.
    _profiling_future: Future[Any] | None = None
    _type: type | None = None

    @constructor(
        "fastdist.distributed.rpc.PyRRef(value: object, type_hint: object = None, *, "
        "devices: list | None = None)"
    )
    def __init__(self, value: T, type_hint: object = None, *, devices: object = None) -> None:
        if type_hint is not None:
            raise RpcError(
                "type_hint should only be specified when the RRef being created contains a "
                f"ScriptModule. Got {type_hint!r} for a {type(value).__name__}"
            )
        context: Context = late_bound["context"]()
        owned = context.new_owned(value)
        self._fill(context, context.me, owned.rref_id, owned.rref_id, owned)
        self._type = type(value)

    @classmethod
    def _make(cls, *parts: Any, **named: Any) -> RRef[Any]:
        """Return a new reference; the arguments are those of `_fill`."""
        rref: RRef[Any] = object.__new__(cls)
        rref._fill(*parts, **named)
        return rref

    def _fill(
        self,
        context: Context,
        owner: Worker,
        rref_id: int,
        fork_id: int,
        owned: OwnedValue | None = None,
        held: HeldReference | None = None,
    ) -> None:
        self._context = context
        self._owner = owner
        self._id = rref_id
        self._fork_id = fork_id
        # `_owned` is set on the owner: the record of the value. `_held` is set on other workers:
        # the record of this reference.
        self._owned, self._held = owned, held

    def owner(self) -> WorkerInfo:
        """Return the worker on which the value lives."""
        return self._owner.info

    def owner_name(self) -> str:
        """Return the name of the worker on which the value lives."""
        return self._owner.name

    def is_owner(self) -> bool:
        """Return whether this worker owns the value."""
        return self._owned is not None

    def confirmed_by_owner(self) -> bool:
        """Return whether the owner knows of this reference."""
        return self._held is None or self._held.state is State.COUNTED

    @property
    def _is_deleted(self) -> bool:
        """Whether the owner was notified of this reference's end, or never knew of it."""
        return self._held is not None and self._held.state is State.ENDED

    def to_here(self, timeout: float = constants.UNSET_RPC_TIMEOUT) -> T:
        """Wait until the value exists; return it on its owner, and a copy on any other worker.

        Raises  the error of the function that makes the value; RpcTimeoutError; WorkerLostError if
                the owner is lost during the call, OwnerLostError if it was lost before; RpcError
                after a shutdown, which releases references to other workers' values

        Args:
            timeout: Seconds to wait; 0 waits forever, -1 takes the options' rpc_timeout (60).
        """
        try:
            if self._owned is not None:
                is_unset = timeout == constants.UNSET_RPC_TIMEOUT
                timeout_s = 0.0 if is_unset else seconds("timeout", timeout)
                return self._owned.wait(timeout_s)  # type: ignore[no-any-return]
            self._require_made()
            if self._is_deleted:
                raise RpcError(
                    f"{self} has been deleted. Cannot call to_here() on it after deletion. Its "
                    f"value is on {self._owner.info}, from which this worker disconnected at "
                    "rpc.shutdown(): fetch it before"
                )
            self._require_owner()
            value: T = self._context.client.users.fetch(self, timeout)
            return value
        except Exception as error:
            fold(error)
            raise

    def _require_owner(self) -> None:
        """Check that the owner's life to which the value belongs has not ended.

        Raises  OwnerLostError
        """
        owner = self._owner
        if owner.is_dead:
            why = f"was lost: {owner.why_lost}" if owner.why_lost else "has left the group"
            raise OwnerLostError(
                f"the value of {self} is gone: it lived on worker {owner.name!r} (rank "
                f"{owner.id}), which {why}; create it again on a worker that is alive"
            )

    def _require_made(self) -> None:
        """Raise the error of the call that should have made the value, if it is known."""
        creation = self._creation
        error = creation.exception() if creation is not None and creation.done() else None
        if error is not None:
            raise copy_of(creation_error(error)) from error.__cause__

    def local_value(self) -> T:
        """Return the value itself, without a copy.

        Raises  RpcError if this worker is not the owner
        """
        try:
            if self._owned is None:
                raise RpcError(
                    f"For {self}: can't call localValue() on user {self._context.me.info}. "
                    f"Call it on owner {self._owner.info}"
                )
            return self._owned.wait()  # type: ignore[no-any-return]
        except Exception as error:
            fold(error)
            raise

    def rpc_sync(self, timeout: float = constants.UNSET_RPC_TIMEOUT) -> RRefProxy:
        """Return a proxy: `rref.rpc_sync().method(x)` runs on the owner and returns its result.

        Args:
            timeout: Seconds for each call; 0 waits forever, -1 takes the options' rpc_timeout (60).
        """
        return self._proxy("rpc_sync", timeout)

    def rpc_async(self, timeout: float = constants.UNSET_RPC_TIMEOUT) -> RRefProxy:
        """Return a proxy: `rref.rpc_async().method(x)` runs on the owner and returns a Future.

        Args:
            timeout: Seconds for each call; 0 waits forever, -1 takes the options' rpc_timeout (60).
        """
        return self._proxy("rpc_async", timeout)

    def remote(self, timeout: float = constants.UNSET_RPC_TIMEOUT) -> RRefProxy:
        """Return a proxy: `rref.remote().method(x)` runs on the owner and returns an RRef.

        Args:
            timeout: Seconds for each call; 0 waits forever, -1 takes the options' rpc_timeout (60).
        """
        return self._proxy("remote", timeout)

    def _proxy(self, how: str, timeout: float) -> RRefProxy:
        return RRefProxy(self, late_bound[how], timeout)

    def _get_type(self, timeout: float = constants.UNSET_RPC_TIMEOUT, blocking: bool = True) -> Any:
        """Return the class of the value, or a Future of the class if not `blocking`."""
        if timeout != constants.UNSET_RPC_TIMEOUT:
            timeout = seconds("timeout", timeout)
        future: Future[type]
        if self._type is not None:
            future = Future()
            future.set_result(self._type)
        else:
            call, kind = (_rref_typeof_on_owner, (self,), dict[str, Any]()), MessageType.PYTHON_CALL
            request = self._context.client.request
            future = request(self._owner, kind, call, (), None, timeout, _rref_typeof_on_owner)
        if not blocking:
            return future
        self._type = future.wait()
        return self._type

    def _get_future(self) -> Future[Any] | None:
        """Return the Future of the call that makes the value; None if another worker made it."""
        return self._creation

    def _get_profiling_future(self) -> Future[Any]:
        """Return a Future that is done when the call that makes the value is in the profile.

        Raises  RpcError if no profile was recording when this worker made the call
        """
        if self._profiling_future is None:
            raise RpcError(
                f"Profiling future has not been set! {self} was not made by rpc.remote() under a "
                "profile of this worker"
            )
        return self._profiling_future

    def _serialize(self) -> tuple[object, ...]:
        """Raise NotImplementedError: the owner only counts references that are sent in messages.

        A reference outside of a message would never be released.
        """
        self._require_made()
        raise NotImplementedError(
            f"{self!r} can only be packed as part of a message to a worker, which its owner is "
            "notified of; send it as an argument or a result"
        )

    @staticmethod
    def _deserialize(packed: tuple[object, ...]) -> RRef[Any]:
        """Raise NotImplementedError, like _serialize."""
        raise NotImplementedError(
            f"{packed!r} alone is not a reference: it arrives as part of a message"
        )

    def __reduce__(self) -> tuple[object, ...]:
        raise RpcError(
            "Can not pickle rref in python pickler, rref can only be pickled when using RPC"
        )

    def __repr__(self) -> str:
        name = id_as_text(self._id)
        if self._owned is not None:
            return f"OwnerRRef({name})"
        return f"UserRRef(RRefId = {name}, ForkId = {id_as_text(self._fork_id)})"

    def __del__(self) -> None:
        context = getattr(self, "_context", None)
        if context is None:
            return  # the creation of this RRef failed
        if self._owned is not None:
            context.owned_died(self._owned)
        elif self._held is not None and self._held.state is not State.ENDED:
            context.reference_dropped(self._held)


class RRefProxy:
    """Calls a method of the value on its owner: attribute access gives the method's name."""

    def __init__(self, rref: RRef[Any], how: Callable[..., Any], timeout: float) -> None:
        self._rref = rref
        self._how = how
        self._timeout = timeout

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return functools.partial(_call, self._rref, self._how, name, self._timeout)


def _call(
    rref: Any, how: Callable[..., Any], name: str, timeout: float, *args: Any, **kwargs: Any
) -> Any:
    try:
        return how(rref.owner(), invoke_on_owner, (rref, name, args, kwargs), timeout=timeout)
    except Exception as error:
        fold(error)
        raise


@gate.export
def invoke_on_owner(rref: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a method of the value. If the method is an async function, its Future's result is sent.

    Raises  TypeError for anything but an RRef, as other objects may have a method `local_value`
    """
    method = getattr(_value_of(rref), name)
    gate.require_callable_by_others(method)
    result = method(*args, **kwargs)
    return (
        DeferredResult(result, name_of(method))
        if hasattr(method, "_wrapped_async_rpc_function")
        else result
    )


@gate.export
def _rref_typeof_on_owner(rref: Any) -> type:
    """Return the class of the value."""
    return type(_value_of(rref))


def _value_of(rref: object) -> Any:
    if not isinstance(rref, RRef):
        raise TypeError(f"expected an RRef of this worker, got {type(rref).__name__}")
    return rref.local_value()


def id_as_text(number: int) -> str:
    """Return an id of a value or a reference in PyTorch's notation."""
    return f"GloballyUniqueId(created_on={number >> RANK_SHIFT}, local_id={number & LOCAL})"


# Functions of modules that import this package, which register the functions here: the three kinds
# of calls, and "context", which returns the RRefContext of this process's agent.
late_bound: dict[str, Callable[..., Any]] = {}
