"""One-hot encoding: each index becomes a row of zeros with a single one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ...core.device import CPU
from ...core.dtypes import int64
from ...core.errors import DTypeError
from ...core.folded_frames import fold
from ...dispatch.composite import before, composite
from ...graph.modes import modes
from ...interpreters.batched_tensor import unbatched
from ...tensor.tensor import Tensor, from_array
from ..create.ranges import arange
from ..index.searchsorted import ends_of

_FEW: Final = 4096  # the maximal size of a result on the short path


def _quick_one_hot(general: Callable[..., Any]) -> Callable[..., Any]:
    """Return one_hot with a short path of three NumPy calls. The short path is for tensors on the
    CPU whose indices are all in range.
    """

    def quick(tensor: Tensor, num_classes: int = -1) -> Any:
        try:
            if (
                tensor.__class__ not in modes.plain
                or num_classes.__class__ is not int
                or (layout := tensor._layout).dtype is not int64
                or layout.device is not CPU
                or not layout.numel
            ):
                return general(tensor, num_classes)
            numbers = tensor._array
            count = int(numbers.max()) + 1 if num_classes == -1 else num_classes
            if count <= 0 or count * layout.numel > _FEW:
                return general(tensor, num_classes)
            hits = numbers[..., None] == np.arange(count)
            if np.count_nonzero(hits) != layout.numel:
                return general(tensor, num_classes)  # it raises an explained error
            return from_array(hits.astype(np.int64))
        except Exception as error:
            fold(error)
            raise

    return quick


@before(_quick_one_hot)
@composite(homes="functional")
def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """Return rows of zeros with a 1 at each index, along a new last axis.

    Note    on devices other than the CPU, the values are read only if num_classes is -1, because
            reading waits for the device; otherwise the row of an index out of range is zeros
    Raises  RuntimeError if tensor is not int64, or a class is negative or not below num_classes

    Args:
        tensor: The classes, in int64 and not negative, of any shape.
        num_classes: The length of the new axis; if -1, the largest index + 1.

    Example:
        >>> F.one_hot(torch.tensor([0, 2]), num_classes=3)
        tensor([[1, 0, 0],
                [0, 0, 1]])
    """
    if tensor._layout.dtype is not int64:
        raise DTypeError("one_hot is only applicable to index tensor of type LongTensor.")
    every = unbatched(tensor)
    if every._layout.numel and (tensor._layout.device is CPU or num_classes == -1):
        low, high = ends_of(every)
        if low < 0:
            raise RuntimeError("Class values must be non-negative.")
        most = high + 1
        if num_classes == -1:
            num_classes = most
        elif num_classes < most:
            raise RuntimeError(
                f"Class values must be smaller than num_classes.: the largest is {most - 1}, "
                f"num_classes is {num_classes}"
            )
    elif num_classes <= 0 and not every._layout.numel:
        raise RuntimeError("Can not infer total number of classes from empty tensor.")
    classes: Any = arange(num_classes, device=tensor._layout.device)
    return (tensor.unsqueeze(-1) == classes).to(int64)  # type: ignore[no-any-return]
