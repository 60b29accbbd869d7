"""Converts Python values to bytes and back, with RPC's pickling and strict mode."""

# Note [Objects of collectives]
# A value is packed like a message of RPC: a pickle in which tensors are placeholders, followed by
# the tensors. Reading applies the same checks as a call of RPC, so rpc.strict and rpc.allow decide
# which classes the members of a group may send. The bytes come only from processes that hold the
# secret of the job.

from __future__ import annotations

import json
import struct
from math import prod
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fastdist.core.errors import MessageError
from fastdist.distributed.rpc.message.body import deserialize, serialize

from ...core.device import CPU
from ...core.dtypes import from_code
from ...graph.tensor_methods import requires_grad_
from ...tensor.parameter import Parameter
from ...tensor.tensor import Tensor, from_array
from .arrays import flat

# The header: the length of the tensor table, the length of the body, and the body's encoding.
_HEAD: Final = struct.Struct("<QQB")


def pack(value: object, name: str = "the object") -> bytes:
    """Return a value as bytes.

    Raises  RpcError if a part of the value cannot be pickled (the error calls the value `name`)
    """
    tensors: list[Tensor] = []
    body, encoding = serialize(value, tensors, name)
    table = json.dumps([
        [
            tensor._layout.dtype.code,
            tensor._layout.shape,
            isinstance(tensor, Parameter),
            tensor.requires_grad,
        ]
        for tensor in tensors
    ]).encode()  # fmt: skip
    arrays = [flat(tensor.detach()).view(np.uint8).tobytes() for tensor in tensors]
    return b"".join((_HEAD.pack(len(table), len(body), encoding), table, body, *arrays))


def unpack(data: bytes | NDArray[Any]) -> Any:
    """Return the value that pack converted to bytes; its tensors are on the CPU.

    Raises  MessageError if the bytes do not have this format; ForbiddenFunctionError if RPC's
            strict mode does not allow a class in the value
    """
    view: memoryview[int] = memoryview(data)  # type: ignore[arg-type]
    try:
        table_size, body_size, encoding = _HEAD.unpack_from(view)
        begin = _HEAD.size + table_size
        rows = json.loads(bytes(view[_HEAD.size : begin]))
        body, rest = view[begin : begin + body_size], view[begin + body_size :]
        tensors = []
        for code, shape, is_parameter, needs_grad in rows:
            dtype = from_code(code)
            size = prod(shape) * dtype.itemsize
            array: NDArray[Any] = np.frombuffer(rest[:size], np.uint8).copy()
            made = from_array(array.view(dtype.numpy).reshape(shape), CPU)
            rest = rest[size:]
            if is_parameter:
                made = Parameter(made, needs_grad)
            elif needs_grad:
                requires_grad_(made)
            tensors.append(made)
    except (struct.error, ValueError, TypeError, AttributeError) as error:
        raise MessageError(f"an object of another member cannot be read: {error}") from error
    return deserialize(body, encoding, tensors)
