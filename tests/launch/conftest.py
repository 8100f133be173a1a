# SPDX-License-Identifier: Apache-2.0
"""A real Slurm for the tests that hand it trials; skipped, with the reason, where there is none."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.launch.slurm_cluster import Cluster, missing

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def _one_cluster() -> Iterator[Cluster]:
    if why := missing():
        pytest.skip(why)
    # Not in pytest's own folder: the path of a socket may have about a hundred letters.
    home = Path(tempfile.mkdtemp(prefix="joulelab-slurm-"))
    cluster = Cluster(home)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
        shutil.rmtree(home)


@pytest.fixture
def cluster(_one_cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """The Slurm that this process and those it starts talk to."""
    monkeypatch.setenv("SLURM_CONF", str(_one_cluster.configuration))
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "study"))
    return _one_cluster
