# SPDX-License-Identifier: Apache-2.0
"""Which parser reads CSV: the compiled one where the wheel has it, else numba, and then `reason` says why."""

from __future__ import annotations

from types import ModuleType

from joulelab.errors import InputError

KERNELS = ("native", "numba")


def find() -> tuple[ModuleType | None, str]:
    """The compiled module and "", or None and why it is absent."""
    try:
        from joulelab.data import _csv_native
    except ImportError as error:
        return None, (
            f"the compiled CSV reader was not built with this installation ({error}): numba serves, several "
            "times slower; to have it, install a C compiler and then JouleLab again from its sources"
        )
    return _csv_native, ""


native, reason = find()


def kernel(name: str | None = None) -> ModuleType:
    """The module with `count_newlines` and `parse_rows`; both kinds give the same bits.

    `name` is one of `KERNELS`; None takes the compiled one if there is one.
    """
    if name not in (None, *KERNELS):
        raise InputError(f"CSV kernel '{name}' is unknown", cure=f"one of {', '.join(KERNELS)}")
    if name == "native" and native is None:
        raise InputError(f"CSV kernel 'native' is missing: {reason}", cure="kernel 'numba' needs no compiler")
    if native is not None and name != "numba":
        return native
    from joulelab.data import csv_kernel

    return csv_kernel
