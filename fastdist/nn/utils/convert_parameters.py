"""Conversion of parameters to one vector and back."""

from __future__ import annotations

from collections.abc import Iterable

from ...core.errors import ShapeError
from ...core.folded_frames import folds
from ...dispatch.signature import tensors_in
from ...graph.modes import no_grad
from ...ops.shape.joining import cat
from ...tensor.tensor import Tensor


@folds
def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """Return the elements of all parameters as one vector; gradients flow to the parameters.

    Raises  DeviceError if the parameters are on several devices
    """
    given = tensors_in("parameters_to_vector", "parameters", parameters)
    return cat([parameter.reshape(-1) for parameter in given])


@folds
def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Copy the vector's elements into the parameters, without recording a graph.

    Raises  ShapeError if the numbers of elements differ
    """
    parameters = tensors_in("vector_to_parameters", "parameters", parameters)
    count = sum(parameter.numel() for parameter in parameters)
    if count != vec.numel():
        raise ShapeError(
            f"vector_to_parameters: vec has {vec.numel()} elements, the parameters have {count}"
        )
    first = 0
    with no_grad():
        for parameter in parameters:
            last = first + parameter.numel()
            parameter.copy_(vec[first:last].reshape(parameter.shape))
            first = last
