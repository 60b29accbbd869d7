"""The tree of exceptions; each also inherits the builtin that PyTorch users catch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from .moved_modules import earlier_names

# FastdistError
# +-- ShapeError, DTypeError, DeviceError, ScalarSyntaxError, GraphError, VersionError
# |                +-- KernelError, OutOfMemoryError
# +-- DeclarationError, LinAlgError
# +-- EngineError                      an engine that cannot give processes; WorkerFailedError
# +-- ContextError                     a distributed autograd context that is not there
# |   +-- ContextReleasedError
# +-- FutureError, SharedMemoryError, MissingFolderError
# +-- StoreError                       a DistStoreError too
# |   +-- StoreTimeoutError, StoreLostError
# |   +-- RendezvousError
# +-- CollectiveError                  a collective failed; a DistBackendError too
# |   +-- CollectiveMismatchError, CollectiveLostError, CollectiveTimeoutError
# +-- CollectiveArgumentError          found before anything is sent
# +-- RpcError                         everything that a call to another worker can end with
#     +-- RpcTimeoutError, WorkerLostError, AuthenticationError
#     +-- StaleIncarnationError
#     |   +-- GivenUpError
#     +-- RemoteError, MessageError, BackendNotViableError, RpcNotRunningError, ShutdownIncomplete
#     +-- ForbiddenFunctionError


class FastdistError(Exception):
    """Base of all errors that fastdist defines."""

    def __reduce__(self) -> tuple[Any, ...]:
        # tblib, which Dask loads, replaces how exceptions pickle. For a class with its own __init__
        # it calls the __new__ of the first base, which refuses where another base is an OSError. A
        # class with its own __reduce__ is called with its arguments instead.
        reduced: Any = super().__reduce__()
        return tuple(reduced)

    def __copy__(self) -> FastdistError:
        # tblib's way would keep the traceback, and with it the frames of the first raise.
        reduced: Any = self.__reduce_ex__(4)
        made: FastdistError = reduced[0](*reduced[1])
        if len(reduced) > 2 and reduced[2]:
            made.__dict__.update(reduced[2])
        return made


class ShapeError(FastdistError, RuntimeError, ValueError):
    """Shapes or axes that do not fit together."""


class DTypeError(FastdistError, RuntimeError, TypeError):
    """A dtype that an operation cannot take or give."""


class NoKernelError(DTypeError, NotImplementedError):
    """A dtype for which an operation is not implemented, here as in PyTorch."""


class NoDataError(FastdistError, NotImplementedError):
    """Values were read of a tensor on the device "meta", which has none.

    `op` is the name of the op that read them; empty where the program did.
    """

    def __init__(self, message: str, op: str = "") -> None:
        super().__init__(message)
        self.op = op


class NoDerivativeError(FastdistError, NotImplementedError):
    """A gradient by an input by which an operation has none."""


class LinAlgError(FastdistError, RuntimeError):
    """A matrix whose numbers an operation cannot take: singular, not positive-definite, NaN."""


class DeviceError(FastdistError, RuntimeError):
    """A device that is missing, or tensors that live on different ones."""


class KernelError(DeviceError):
    """A kernel that failed on a device; raised when its stream is next waited for."""


class OutOfMemoryError(DeviceError, MemoryError):
    """A device that has no memory left for an allocation."""


def out_of_memory(error: MemoryError) -> OutOfMemoryError:
    """Return error as an OutOfMemoryError: PyTorch programs catch a RuntimeError when there is no
    memory for an array.
    """
    if isinstance(error, OutOfMemoryError):
        return error
    return OutOfMemoryError(
        f"DefaultCPUAllocator: can't allocate memory: {str(error) or 'the machine has no more'}; "
        "compute in parts, or in a smaller dtype"
    )


def raise_out_of_memory(error: MemoryError) -> NoReturn:
    """Raise `out_of_memory(error)` from error, or error alone: it must not become its own cause."""
    raised = out_of_memory(error)
    if raised is error:
        raise error
    raise raised from error


class ScalarSyntaxError(FastdistError, SyntaxError):
    """A scalar body with a word that the op language lacks; the text has the word and its
    column.
    """


class DeclarationError(FastdistError, ValueError):
    """A declaration of an op with unknown words, or an op that contradicts its declaration."""


class GraphError(FastdistError, RuntimeError):
    """A backward or forward pass that the recorded graph does not allow."""


class TransformError(GraphError):
    """A function of functions, such as vmap or func.grad, does not go on where this leads."""


class VersionError(GraphError):
    """A saved tensor was changed in place before its gradient was computed."""


class ContextError(FastdistError, RuntimeError):
    """A distributed autograd context that this worker does not have, or cannot use so."""


class ContextReleasedError(ContextError):
    """The context was released while a pass still needed it."""


class FutureError(FastdistError, RuntimeError):
    """A Future was completed twice, or its value was read before it was complete."""


class SharedMemoryError(FastdistError, RuntimeError):
    """Memory that cannot be shared among processes, or that its sender took along as it ended."""


class MissingFolderError(FastdistError, RuntimeError, FileNotFoundError):
    """A file to be written in a folder that does not exist."""


class DistError(RuntimeError):
    """Any error of process groups and stores, as programs for PyTorch catch it."""


class DistBackendError(DistError):
    """A collective failed, or a backend could not be set up."""


class DistNetworkError(DistError):
    """A process cannot be reached, or not any more."""


class DistStoreError(DistError):
    """A store refused or lost a request, or a key did not appear in time."""


class QueueEmptyError(DistStoreError):
    """A queue of a store was empty, and the call was not to wait."""


class StoreError(FastdistError, DistStoreError):
    """The rendezvous store refused or lost a request."""


class StoreTimeoutError(StoreError, TimeoutError):
    """A key did not appear in the store in time.

    `missing` are the keys, or the ranks that did not join; empty where the store itself is missing.
    """

    def __init__(self, message: str, missing: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.missing = tuple(missing)


class StoreLostError(StoreError, DistNetworkError, ConnectionError):
    """The store is gone: its host ended, froze or was cut off.

    `missing` lists the ranks that are known not to have joined by then.
    """

    def __init__(self, message: str, missing: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.missing = tuple(missing)


class StoreAddressError(StoreError, DistNetworkError):
    """The address at which this process was to host the store cannot be had."""


class RankTakenError(StoreError):
    """Two processes claim the same rank.

    `claims` are the records of both processes, the earlier one first.
    """

    def __init__(self, message: str, claims: Sequence[bytes] = ()) -> None:
        super().__init__(message)
        self.claims = tuple(claims)


class RendezvousError(StoreError, ValueError):
    """A rank, a world size or an address that is missing or invalid."""


class RpcError(FastdistError, RuntimeError):
    """A call to another worker that did not succeed."""


class RpcTimeoutError(RpcError, TimeoutError):
    """A call that ran for longer than its timeout."""


class WorkerLostError(RpcError, ConnectionError):
    """The worker at the other end died, froze or was cut off.

    `may_have_run` is True if the call may have run there before the worker was lost.
    """

    def __init__(self, message: str, *, may_have_run: bool = True) -> None:
        super().__init__(message)
        self.may_have_run = may_have_run


class OwnerLostError(WorkerLostError):
    """A value is lost with the worker that owned it.

    A restarted worker of the same rank and name does not have it.
    """


class StaleIncarnationError(RpcError):
    """A message from a worker's earlier incarnation."""


class GivenUpError(StaleIncarnationError):
    """Other workers declared a running worker lost, so it is no longer a member of the group.

    `incarnation` identifies the worker and its incarnation.
    """

    def __init__(self, message: str, *, incarnation: int = 0) -> None:
        super().__init__(message)
        self.incarnation = incarnation


class CollectiveError(FastdistError, DistBackendError):
    """A collective of a process group failed; the arrays that it was given are as before."""


class CollectiveArgumentError(FastdistError, RuntimeError, ValueError):
    """An argument that a collective cannot take, found before anything is sent."""


class CollectiveMismatchError(CollectiveError):
    """The members of a group called different collectives, or one with different arguments."""


class CollectiveLostError(CollectiveError, DistNetworkError, ConnectionError):
    """A member of the group ended, or cannot be reached any more."""


class CollectiveTimeoutError(CollectiveError, TimeoutError):
    """Some members had not called the collective when its time was over."""


class AuthenticationError(RpcError, PermissionError):
    """A peer that does not hold the job's secret."""


class RemoteError(RpcError):
    """An exception of the callee whose own type cannot be raised here."""


class MessageError(RpcError, ValueError):
    """A message that breaks the wire format or its limits."""


class BackendNotViableError(RpcError):
    """A transport, channel or backend that this machine cannot offer, and why."""


class RpcNotRunningError(RpcError):
    """A call before init_rpc or after shutdown."""


class ShutdownIncomplete(RpcError):
    """Some workers did not reach the shutdown barrier in time; everything here is closed all the
    same.
    """


class ForbiddenFunctionError(RpcError, PermissionError):
    """A function or class that this worker does not run or load for other workers."""


class EngineError(FastdistError, RuntimeError):
    """An engine, such as Ray or Dask, that cannot give or keep the processes of a group."""


class WorkerFailedError(EngineError):
    """A worker of a group on an engine raised or was lost, and is not started again.

    `rank` is its rank. The text has its traceback. Its exception is the cause of this one if it
    pickles.
    """

    def __init__(self, message: str, rank: int) -> None:
        super().__init__(message)
        self.rank = rank

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (str(self), self.rank)


# Pickles of as-torch name the classes as PyTorch does.
__getattr__ = earlier_names(__name__)
