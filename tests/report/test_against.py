# SPDX-License-Identifier: Apache-2.0
"""The comparison with a reference, as it is printed."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from joulelab.errors import InputError
from joulelab.report import against
from tests.analysis.records import repeat, write
from tests.analysis.test_against import three

if TYPE_CHECKING:
    from pathlib import Path

    from joulelab.records.store import TrialRecord

REFERENCE: dict[str, object] = {"batch_size": 256}


def records_of(path: Path, **total: Any) -> list[TrialRecord]:
    return [
        write(path / "a", {"batch_size": 64}, *three(160.0, 3.0, **total)),
        write(path / "b", {"batch_size": 128}, *three(101.0, 6.0, **total)),
        write(path / "c", {"batch_size": 256}, *three(100.0, 6.0, **total)),
        write(path / "d", {"batch_size": 512}, repeat(1, 140.0, **total)),
    ]


def lines_of(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines()]


def test_a_table_in_words(tmp_path: Path) -> None:
    text = against.text(records_of(tmp_path, source="estimated"), REFERENCE, width=100)
    lines = lines_of(text)
    assert lines[0] == "Against batch_size=256, all else alike: change ± half of its 95 % interval"
    # By hand: 3e-4 + 1.6^2 x 12e-4 = 33.7e-4; freedom 33.7^2 / ((3^2 + 30.7^2) / 2) = 2.4, so t is 4.3027.
    assert any(line.startswith("64 +60.0 ±25.0 % +60.0 ±25.0 %") for line in lines)
    assert any(line.startswith("256 100 mJ 100 J 10.0 s 0.920 estimated") for line in lines)
    assert "reference" in lines
    assert any(line.startswith("no difference") for line in lines)
    assert any(line.startswith("512 +40.0 % +40.0 %") for line in lines)
    assert "one repeat tells no spread" in text
    assert "no energy sensor was used" in text
    narrow = against.text(records_of(tmp_path / "n", source="estimated"), REFERENCE, width=60)
    assert max(map(len, narrow.splitlines())) <= 60
    assert "…" not in narrow
    assert "no room for: J per sample" in " ".join(narrow.split())


def test_what_is_simulated_or_small_is_marked(tmp_path: Path) -> None:
    text = against.text(records_of(tmp_path, flags=("simulated: a fake",)), REFERENCE, width=100)
    assert text.count("counter,") == text.count("simulated\n") == 4
    assert "not from this machine" in text
    small = write(tmp_path / "e", {"batch_size": 256}, repeat(1, 10.0), small=True)
    assert "small variant: how large a change is here says nothing of the full study" in against.text(
        [small], REFERENCE, width=100
    )


def test_what_the_meter_was_too_coarse_for_is_marked(tmp_path: Path) -> None:
    text = against.text(
        records_of(tmp_path, flags=("short: error bound 60% of the energy",)), REFERENCE, width=100
    )
    assert text.count("counter,") == text.count(" short\n") == 4
    assert "the meter's bound is a large share of the energy" in text


def test_what_is_left_out_is_said(tmp_path: Path) -> None:
    records = [*records_of(tmp_path), write(tmp_path / "e", {"batch_size": 1024})]
    assert "left out: 1 trial not done, or invalid" in against.text(records, REFERENCE, width=100)
    assert "left out" not in against.text(records, REFERENCE, apart={"e"}, width=100)


def test_other_sources_missed_targets_and_lonely_trials_are_explained(tmp_path: Path) -> None:
    missed = msgspec.structs.replace(repeat(1, 50.0), reached=False, target="val_accuracy >= 0.9")
    reached = msgspec.structs.replace(repeat(1, 80.0), reached=True, target="val_accuracy >= 0.9")
    records = [
        write(tmp_path / "a", {"batch_size": 256}, reached),
        write(tmp_path / "b", {"batch_size": 512}, missed),
        write(tmp_path / "c", {"batch_size": 64}, repeat(1, 10.0, source="estimated")),
        write(tmp_path / "d", {"batch_size": 64, "epochs": 3}, repeat(1, 10.0)),
    ]
    text = against.text(records, REFERENCE, width=100)
    assert "energy to" in text
    assert any("missed" in line and line.startswith("512") for line in lines_of(text))
    assert "energies of different sources" in text
    assert "missed: not every repeat reached the target" in text
    assert "no reference: no trial that is done and valid is like it" in text


def test_other_forms_have_every_row(tmp_path: Path) -> None:
    records = records_of(tmp_path)
    rows = json.loads(against.to_json(records, REFERENCE))
    assert [row["batch_size"] for row in rows] == [64, 128, 256, 512]
    assert [row["energy_j_seen"] for row in rows] == [True, False, None, None]
    found = list(csv.DictReader(io.StringIO(against.to_csv(records, REFERENCE))))
    assert [float(row["energy_j_change"] or 0) for row in found] == pytest.approx([0.6, 0.01, 0, 0.4])


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("batch_size=256", {"batch_size": "256"}),
        ("a=1, b=x y", {"a": "1", "b": "x y"}),
        ("devices=nvidia, rapl,a=1", {"devices": "nvidia, rapl", "a": "1"}),
        ("target=val_accuracy >= 0.9", {"target": "val_accuracy >= 0.9"}),
    ],
)
def test_the_reference_of_a_command_line(text: str, pairs: dict[str, str]) -> None:
    assert against.parse(text) == pairs


@pytest.mark.parametrize("text", ["batch_size", "=3", ","])
def test_what_is_no_reference_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="is not KEY=VALUE"):
        against.parse(text)


def test_below_the_table_of_its_study(tmp_path: Path) -> None:
    records = records_of(tmp_path)
    assert "Against" not in against.with_table(records, said={})
    shown = against.with_table(records, said=REFERENCE)
    assert shown.index("nt3: 4 trials") < shown.index("Against batch_size=256")
    assert "Against batch_size=64" in against.with_table(records, said=REFERENCE, asked="batch_size=64")
    early = against.with_table(records[:2], said=REFERENCE)
    assert "nothing to compare yet: against batch_size=256: no trial that is done and valid has" in early
    with pytest.raises(InputError, match="batch_size=256"):
        against.with_table(records[:2], said={}, asked="batch_size=256")
