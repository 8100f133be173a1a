# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import TYPE_CHECKING

from joulelab.records import claim
from joulelab.records.layout import TrialFolder

if TYPE_CHECKING:
    from pathlib import Path


def test_two_attempts_never_mix(tmp_path: Path) -> None:
    folder = TrialFolder(tmp_path)
    folder.spec.write_text("{}")
    folder.checkpoint.mkdir()
    for attempt in (1, 2):
        assert claim.take(folder)
        assert not folder.windows.exists()
        folder.windows.write_text(f"attempt {attempt}")
        folder.failed.write_text("{}")
        claim.release(folder)
    assert claim.take(folder)
    assert [(tmp_path / "attempts" / n / "windows.jsonl").read_text() for n in "12"] == [
        "attempt 1",
        "attempt 2",
    ]
    assert folder.spec.exists()
    assert folder.checkpoint.is_dir()
    assert not folder.failed.exists()
