# SPDX-License-Identifier: Apache-2.0
"""The plug-in workload and the worker of these tests can be imported here and by processes started here."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _parts_on_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
