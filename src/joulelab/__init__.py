# SPDX-License-Identifier: Apache-2.0
"""Measure what deep-learning training costs. The public names are loaded when they are first used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from joulelab.errors import JouleLabError
    from joulelab.hardware.find import devices
    from joulelab.meter.meter import Meter
    from joulelab.meter.window import measure
    from joulelab.records.measurement import Measurement
    from joulelab.records.store import load_records
    from joulelab.records.trial import TrialSpec
    from joulelab.study.run import run

__version__ = "0.1.0"

__all__ = [
    "JouleLabError",
    "Measurement",
    "Meter",
    "TrialSpec",
    "__version__",
    "devices",
    "load_records",
    "measure",
    "run",
]

# Loaded on first use, so that `import joulelab` in somebody's training costs milliseconds.
_HOMES = {
    "JouleLabError": "joulelab.errors",
    "Measurement": "joulelab.records.measurement",
    "Meter": "joulelab.meter.meter",
    "TrialSpec": "joulelab.records.trial",
    "devices": "joulelab.hardware.find",
    "load_records": "joulelab.records.store",
    "measure": "joulelab.meter.window",
    "run": "joulelab.study.run",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'joulelab' has no attribute '{name}'; it has {', '.join(__all__)}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
