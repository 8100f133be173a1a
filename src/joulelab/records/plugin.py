# SPDX-License-Identifier: Apache-2.0
"""From a name in a registry, or `package.module:Class`, to the class. That is the whole plug-in system."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from joulelab.errors import InputError, unknown

if TYPE_CHECKING:
    from collections.abc import Mapping


def load(registry: Mapping[str, str], name: str, *, what: str, where: str = "") -> Any:
    """The class behind `name`; an InputError lists the legal names where it is misspelt."""
    target = name if ":" in name else registry.get(name)
    if target is None:
        raise unknown(what, name, registry, where=where)
    module_name, _, class_name = target.partition(":")
    if not all(part.isidentifier() for part in [*module_name.split("."), class_name]):
        raise InputError(
            f"{what} '{name}' is no name of a class",
            cure="write package.module:Class, or one of " + ", ".join(sorted(registry)),
        )
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        # Only the named module itself may be missing; a missing import inside it is that module's own error.
        if error.name and (module_name + ".").startswith(error.name + "."):
            raise InputError(
                f"{what} '{name}': there is no module '{error.name}' on the import path",
                cure="install it, or put its folder on PYTHONPATH",
            ) from error
        raise
    if not hasattr(module, class_name):
        raise InputError(f"{what} '{name}': module '{module_name}' has no '{class_name}'")
    return getattr(module, class_name)
