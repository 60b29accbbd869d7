"""The exception classes. Each also inherits the built-in exception that PyTorch users catch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from .moved_modules import earlier_names

# FastdistError
# +-- ShapeError, DTypeError, DeviceError, ScalarSyntaxError, GraphError, VersionError
# |                +-- KernelError, OutOfMemoryError
# +-- DeclarationError, LinAlgError
# +-- EngineError                      an engine cannot provide processes
# |   +-- WorkerFailedError
# +-- ContextError                     a distributed autograd context that does not exist
# |   +-- ContextReleasedError
# +-- FutureError, SharedMemoryError, MissingFolderError
# +-- StoreError                       also a DistStoreError
# |   +-- StoreTimeoutError, StoreLostError
# |   +-- RendezvousError
# +-- CollectiveError                  a collective failed; also a DistBackendError
# |   +-- CollectiveMismatchError, CollectiveLostError, CollectiveTimeoutError
# +-- CollectiveArgumentError          raised before anything is sent
# +-- RpcError                         all failures of a call to another worker
#     +-- RpcTimeoutError, WorkerLostError, AuthenticationError
#     +-- StaleIncarnationError
#     |   +-- GivenUpError
#     +-- RemoteError, MessageError, BackendNotViableError, RpcNotRunningError, ShutdownIncomplete
#     +-- ForbiddenFunctionError


class FastdistError(Exception):
    """Base of all errors that fastdist defines."""

    def __reduce__(self) -> tuple[Any, ...]:
        # tblib, which Dask loads, changes how exceptions are pickled. For a class with its own
        # __init__, tblib calls __new__ of the first base; this fails if another base is an OSError.
        # For a class with its own __reduce__, it calls the class with the exception's arguments.
        reduced: Any = super().__reduce__()
        return tuple(reduced)

    def __copy__(self) -> FastdistError:
        # tblib's copy would keep the traceback, and with it the frames of the first raise.
        reduced: Any = self.__reduce_ex__(4)
        made: FastdistError = reduced[0](*reduced[1])
        if len(reduced) > 2 and reduced[2]:
            made.__dict__.update(reduced[2])
        return made


class ShapeError(FastdistError, RuntimeError, ValueError):
    """Shapes or axes that do not fit together."""


class DTypeError(FastdistError, RuntimeError, TypeError):
    """A dtype that an operation does not accept or cannot return."""


class NoKernelError(DTypeError, NotImplementedError):
    """A dtype for which neither fastdist nor PyTorch implements an operation."""


class NoDataError(FastdistError, NotImplementedError):
    """The values of a tensor on the device "meta" were read; tensors there have no values.

    `op` is the name of the op that read them; it is empty if user code read them.
    """

    def __init__(self, message: str, op: str = "") -> None:
        super().__init__(message)
        self.op = op


class NoDerivativeError(FastdistError, NotImplementedError):
    """An operation has no derivative with respect to this input."""


class LinAlgError(FastdistError, RuntimeError):
    """A matrix that an operation cannot process: singular, not positive-definite, or with NaN."""


class DeviceError(FastdistError, RuntimeError):
    """A device that is missing, or tensors that are on different devices."""


class KernelError(DeviceError):
    """A kernel that cannot be compiled, or that failed on a GPU; the latter is raised at the next
    synchronization with its stream.
    """


class OutOfMemoryError(DeviceError, MemoryError):
    """A device has no memory left for an allocation."""


def out_of_memory(error: MemoryError) -> OutOfMemoryError:
    """Return `error` as an OutOfMemoryError, which is a RuntimeError: PyTorch programs catch this
    type when the memory is exhausted.
    """
    if isinstance(error, OutOfMemoryError):
        return error
    return OutOfMemoryError(
        f"DefaultCPUAllocator: can't allocate memory: {str(error) or 'the machine has no more'}; "
        "compute in parts, or in a smaller dtype"
    )


def raise_out_of_memory(error: MemoryError) -> NoReturn:
    """Raise `out_of_memory(error)` with `error` as its cause, or without a cause if both are the
    same object.
    """
    raised = out_of_memory(error)
    if raised is error:
        raise error
    raise raised from error


class ScalarSyntaxError(FastdistError, SyntaxError):
    """The body of a pointwise op uses a word that the op language does not have. The message has
    the word and its column.
    """


class DeclarationError(FastdistError, ValueError):
    """A declaration of an op uses unknown keywords, or an op contradicts its declaration."""


class GraphError(FastdistError, RuntimeError):
    """A backward or forward pass that the recorded graph does not allow."""


class TransformError(GraphError):
    """A transform, such as vmap or func.grad, does not support this operation."""


class VersionError(GraphError):
    """A saved tensor was changed in place before its gradient was computed."""


class ContextError(FastdistError, RuntimeError):
    """A distributed autograd context that this worker does not have, or cannot use in this way."""


class ContextReleasedError(ContextError):
    """The context was released while a pass still needed it."""


class FutureError(FastdistError, RuntimeError):
    """A Future was completed twice, or its value was read before it was complete."""


class SharedMemoryError(FastdistError, RuntimeError):
    """Memory cannot be shared among processes, or was lost because its sender ended."""


class MissingFolderError(FastdistError, RuntimeError, FileNotFoundError):
    """The folder of a file to be written does not exist."""


class DistError(RuntimeError):
    """Base of all errors of process groups and stores, under the name that PyTorch
    programs catch.
    """


class DistBackendError(DistError):
    """A collective failed, or a backend could not be set up."""


class DistNetworkError(DistError):
    """A process cannot be reached, or can no longer be reached."""


class DistStoreError(DistError):
    """A store refused or lost a request, or a key did not appear in time."""


class QueueEmptyError(DistStoreError):
    """A queue of a store was empty, and the call was not allowed to wait."""


class StoreError(FastdistError, DistStoreError):
    """The rendezvous store refused or lost a request."""


class StoreTimeoutError(StoreError, TimeoutError):
    """A key did not appear in the store in time.

    `missing` lists the missing keys, or the ranks that did not join. It is empty if the store
    itself is missing.
    """

    def __init__(self, message: str, missing: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.missing = tuple(missing)


class StoreLostError(StoreError, DistNetworkError, ConnectionError):
    """The store is unreachable: its host ended, froze or lost its connection.

    `missing` lists the ranks that are known not to have joined before the store was lost.
    """

    def __init__(self, message: str, missing: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.missing = tuple(missing)


class StoreAddressError(StoreError, DistNetworkError):
    """This process cannot listen on the address at which it was to host the store."""


class RankTakenError(StoreError):
    """Two processes claim the same rank.

    `claims` holds the records of both processes, the earlier one first.
    """

    def __init__(self, message: str, claims: Sequence[bytes] = ()) -> None:
        super().__init__(message)
        self.claims = tuple(claims)


class RendezvousError(StoreError, ValueError):
    """A rank, a world size or an address is missing or invalid."""


class RpcError(FastdistError, RuntimeError):
    """A call to another worker failed."""


class RpcTimeoutError(RpcError, TimeoutError):
    """A call took longer than its timeout."""


class WorkerLostError(RpcError, ConnectionError):
    """The worker that was called ended, froze or lost its connection.

    `may_have_run` is True if the worker may have run the call before it was lost.
    """

    def __init__(self, message: str, *, may_have_run: bool = True) -> None:
        super().__init__(message)
        self.may_have_run = may_have_run


class OwnerLostError(WorkerLostError):
    """A value was lost with the worker that owned it.

    If that worker restarts with the same rank and name, it does not have the value.
    """


class StaleIncarnationError(RpcError):
    """A message came from an earlier incarnation of a worker."""


class GivenUpError(StaleIncarnationError):
    """Other workers declared a running worker lost, so it is no longer a member of the group.

    `incarnation` identifies the worker and its incarnation.
    """

    def __init__(self, message: str, *, incarnation: int = 0) -> None:
        super().__init__(message)
        self.incarnation = incarnation


class CollectiveError(FastdistError, DistBackendError):
    """A collective of a process group failed. The arrays that were passed to it are unchanged."""


class CollectiveArgumentError(FastdistError, RuntimeError, ValueError):
    """A collective does not accept an argument; raised before anything is sent."""


class CollectiveMismatchError(CollectiveError):
    """The members of a group called different collectives, or the same with different arguments."""


class CollectiveLostError(CollectiveError, DistNetworkError, ConnectionError):
    """A member of the group ended, or can no longer be reached."""


class CollectiveTimeoutError(CollectiveError, TimeoutError):
    """Some members had not called the collective when its timeout expired."""


class AuthenticationError(RpcError, PermissionError):
    """A peer does not have the job's secret."""


class RemoteError(RpcError):
    """The callee raised an exception whose type cannot be raised in the caller's process."""


class MessageError(RpcError, ValueError):
    """A message violates the wire format or its limits."""


class BackendNotViableError(RpcError):
    """This machine does not support a transport, channel or backend; the message says why."""


class RpcNotRunningError(RpcError):
    """RPC was used before init_rpc or after shutdown."""


class ShutdownIncomplete(RpcError):
    """Some workers did not reach the shutdown barrier in time. This worker has closed everything
    nevertheless.
    """


class ForbiddenFunctionError(RpcError, PermissionError):
    """A function or class that this worker refuses to run or load for other workers."""


class EngineError(FastdistError, RuntimeError):
    """An engine, such as Ray or Dask, cannot provide the processes of a group, or lost them."""


class WorkerFailedError(EngineError):
    """A worker of a group on an engine raised an exception or was lost, and will not be restarted.

    `rank` is the rank of that worker. The message contains the worker's traceback. If the
    worker's exception can be pickled, it is the `__cause__` of this error.
    """

    def __init__(self, message: str, rank: int) -> None:
        super().__init__(message)
        self.rank = rank

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (str(self), self.rank)


# Pickles written under as-torch contain PyTorch's class names, which are looked up here.
__getattr__ = earlier_names(__name__)
