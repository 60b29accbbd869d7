"""The old name of the module `library`, with the names that third-party packages still import."""

from __future__ import annotations

from .core.missing import explain_missing
from .library import custom_op, get_ctx, register_fake

__all__ = ["custom_op", "get_ctx", "impl_abstract"]

impl_abstract = register_fake

explain_missing(__name__)
