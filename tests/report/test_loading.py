# SPDX-License-Identifier: Apache-2.0
"""The comparison of loaders, as it is printed."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING

import pytest

from joulelab.report import loading
from tests.analysis.records import repeat, write

if TYPE_CHECKING:
    from pathlib import Path

    from joulelab.records.store import TrialRecord


@pytest.fixture
def records(tmp_path: Path) -> list[TrialRecord]:
    return [
        write(tmp_path / "a", {"loader": "pandas", "epochs": 1}, repeat(1, 100.0, source="estimated")),
        write(
            tmp_path / "b", {"loader": "ours", "epochs": 1}, repeat(1, 40.0, time_s=5.0, source="estimated")
        ),
    ]


def test_a_table_in_words(records: list[TrialRecord]) -> None:
    text = loading.text(records, width=100)
    assert "nt3 on machine-1: epochs=1" in text
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert "ours 1.00 s 2.50 s 1.00 s 5.00 s 50.0 %" in lines
    assert "estimated 8.00 J 20.0 J 8.00 J 40.0 ± 2.0 J 60.0 %" in lines
    assert "published - - - - 67.7 %" in lines
    assert "reported - - - - 55.9 %" in lines
    assert "estimated from CPU time" in text
    assert "published: not measured here" in text
    assert "today's pandas reads these files several times faster" in text
    assert max(map(len, text.splitlines())) <= 100


def test_names_are_whole_on_a_narrow_terminal(tmp_path: Path) -> None:
    found = [
        write(tmp_path / loader, {"loader": loader}, repeat(1, 1234.5, time_s=98.7, source="estimated"))
        for loader in ("pandas", "pandas_chunked", "ours_cached")
    ]
    text = loading.text(found, width=80)
    assert "…" not in text
    assert "pandas_chunked" in text


def test_other_forms_have_every_row(records: list[TrialRecord]) -> None:
    rows = json.loads(loading.to_json(records))
    assert [row["loader"] for row in rows] == ["pandas", "ours", "published"]
    found = list(csv.DictReader(io.StringIO(loading.to_csv(records))))
    assert [float(row["energy_saved"] or 0) for row in found] == pytest.approx([0, 0.6, 0.5593])


def test_what_is_not_published_is_not_invented(tmp_path: Path) -> None:
    record = write(tmp_path / "a", {"loader": "ours"}, repeat(1, 40.0))
    assert "published: not measured" in loading.text([record])
    own = write(tmp_path / "b", {"loader": "ours"}, repeat(1, 40.0))
    path = own.folder.spec
    path.write_text(path.read_text().replace('"nt3"', '"package.module:Mine"'))
    assert "published" not in loading.text([type(own)(own.folder)])
