"""What programs ask of a tensor before they decide: beyond the CPU and CUDA, the answer is no."""

from __future__ import annotations

from typing import Any

from ..devices.gpus import device_count
from ..dispatch.sparse_rules import refusal
from ..ops import sparse
from ..tensor.tensor import Tensor
from .typed_tensors import new_of_dtype


def _answers_no(what: str) -> property:
    def answer(self: Tensor) -> bool:
        return False

    return property(answer, doc=f"False: no tensor here is {what}.")


def is_pinned(self: Tensor, device: Any = None) -> bool:
    """Return False: no memory is pinned."""
    return False


def pin_memory(self: Tensor, device: Any = None) -> Tensor:
    """Return the tensor: copies to a GPU are the same from all memory.

    Raises  RuntimeError without a GPU
    """
    if not device_count():
        raise RuntimeError(
            "Cannot access accelerator device when none is available. Pin memory only where "
            "cuda.is_available()"
        )
    return self


def is_inference(self: Tensor) -> bool:
    """Return False: what inference_mode made is an ordinary tensor."""
    return False


def new(self: Tensor, *args: Any, device: Any = None) -> Tensor:
    """Return memory of the sizes given or a copy of the data given, in this tensor's dtype and on
    its device, as the old constructors do.
    """
    place = self.layout.device if device is None else device
    return new_of_dtype(self.layout.dtype, args, place)


def _is_sparse(self: Tensor) -> bool:
    """Whether the elements are held as coordinates and values."""
    return self.layout.is_sparse


def sparse_dim(self: Tensor) -> int:
    """Return how many axes the coordinates have; 0 for a dense tensor."""
    return int(self.array.indices.shape[0]) if self.layout.is_sparse else 0


def dense_dim(self: Tensor) -> int:
    """Return how many axes each value has."""
    return len(self.layout.shape) - sparse_dim(self)


def _entries(name: str) -> Any:
    def entries(self: Tensor) -> Any:
        if not self.layout.is_sparse:
            raise refusal(name, self)
        if name == "_nnz":
            return int(self.array.indices.shape[1])
        return sparse.indices_of(self) if name == "_indices" else sparse.values_of(self)

    entries.__name__ = entries.__qualname__ = name
    entries.__doc__ = f"Return what a sparse tensor, coalesced or not, has as {name[1:]}."
    return entries


METHODS: dict[str, Any] = {
    "_indices": _entries("_indices"),
    "_nnz": _entries("_nnz"),
    "_values": _entries("_values"),
    "dense_dim": dense_dim,
    "is_sparse": property(_is_sparse),
    "sparse_dim": sparse_dim,
    "is_inference": is_inference,
    "is_pinned": is_pinned,
    "new": new,
    "pin_memory": pin_memory,
    **{
        f"is_{word}": _answers_no(what)
        for word, what in (
            ("meta", "without elements"),
            ("mkldnn", "in oneDNN's format"),
            ("mps", "on an Apple GPU"),
            ("nested", "nested"),
            ("quantized", "quantized"),
            ("sparse_csr", "sparse by rows"),
            ("xla", "on a TPU"),
            ("xpu", "on an Intel GPU"),
        )
    },
}
