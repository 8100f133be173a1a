# SPDX-License-Identifier: Apache-2.0
"""The table: it fits, it sorts, and it says what its figures are."""

from __future__ import annotations

import csv
import io
import json
import re
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from joulelab.errors import InputError
from joulelab.records import store
from joulelab.records.trial import TrialSpec
from joulelab.report import against
from joulelab.report.table import text, to_csv, to_json
from tests.analysis.records import cost, repeat, write

if TYPE_CHECKING:
    from pathlib import Path

    from joulelab.records.parameter import Scalar
    from joulelab.records.store import TrialRecord
    from joulelab.records.trial import Repeat


def demo(path: Path, **total: Any) -> list[TrialRecord]:
    records: list[TrialRecord] = []
    for batch_size in (100, 20):
        for loader in ("pandas", "ours"):
            for precision in ("fp32", "bf16"):
                number = len(records)
                knobs: dict[str, Scalar] = {
                    "batch_size": batch_size,
                    "loader": loader,
                    "precision": precision,
                }
                repeats = [repeat(1, 1000.0 + number, **total), repeat(2, 1010.0 + number, **total)]
                records.append(write(path / str(number), knobs, *repeats, repeats=2))
    return records


@pytest.mark.parametrize("width", [100, 80])
def test_eight_trials_fit(tmp_path: Path, width: int) -> None:
    shown = text(demo(tmp_path, source="estimated"), width=width)
    lines = shown.splitlines()
    assert max(map(len, lines)) <= width
    assert lines[0] == "nt3: 8 trials"
    assert lines[1] == "on machine-1 (Some CPU, 2 CPUs)"
    rows = [line for line in lines if "kJ" in line]
    assert len(rows) == 8
    # Every line with a figure says that it is an estimate.
    assert all("estimated" in row for row in rows)
    assert "no energy sensor was used" in shown
    # No figure is broken over two lines.
    assert all(re.search(r" \d\.\d{3} ±0\.05\d kJ ", row) for row in rows)


def test_rows_stand_in_the_order_of_their_settings(tmp_path: Path) -> None:
    shown = text(demo(tmp_path), width=100)
    sizes = [int(line.split()[0]) for line in shown.splitlines() if "kJ" in line]
    assert sizes == [20] * 4 + [100] * 4
    assert "estimated" not in shown
    assert "mean of 2 repeats" in shown


def test_sorts_by_a_column_unknown_last(tmp_path: Path) -> None:
    records = [*demo(tmp_path), write(tmp_path / "planned", {"batch_size": 40})]
    energies = [row["energy_j"] for row in json.loads(to_json(records, sort="-energy_j"))]
    assert energies == [1012.0 - k for k in range(8)] + [None]
    energies = [row["energy_j"] for row in json.loads(to_json(records, sort="energy_j"))]
    assert energies == [1005.0 + k for k in range(8)] + [None]


def test_an_unknown_column_names_the_legal_ones(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"unknown column 'energy'(.|\n)*energy_j"):
        text(demo(tmp_path), sort="energy")


def test_csv_holds_every_column(tmp_path: Path) -> None:
    records = [
        write(tmp_path / "a", {"batch_size": 20}, repeat(1, 100.0, flags=("short", "a, b"))),
        write(tmp_path / "b", {"batch_size": 40}),
    ]
    rows = list(csv.DictReader(io.StringIO(to_csv(records))))
    assert [(row["batch_size"], row["energy_j"], row["source"]) for row in rows] == [
        ("20", "100.0", "counter"),
        ("40", "", ""),
    ]
    assert rows[0]["flags"] == "short; a, b"


def test_json_is_what_the_table_holds(tmp_path: Path) -> None:
    (row,) = json.loads(to_json([write(tmp_path / "a", {"batch_size": 20}, repeat(1, 100.0))]))
    assert (row["trial"], row["n"], row["energy_j"], row["energy_ci_j"], row["flags"]) == (
        "a",
        1,
        100.0,
        None,
        [],
    )


def test_trials_that_did_not_end_well_say_why(tmp_path: Path) -> None:
    failed = write(tmp_path / "f", {"batch_size": 80})
    store.write_json(failed.folder.failed, {"schema": 1, "state": "failed", "reason": "out of memory [80]"})
    invalid = write(tmp_path / "i", {"batch_size": 40}, repeat(1, 2.0, valid=False), valid=False)
    shown = text([write(tmp_path / "a", {"batch_size": 20}, repeat(1, 100.0)), failed, invalid], width=100)
    assert "failed: batch_size=80: out of memory [80]" in shown
    assert "invalid: batch_size=40: the loss was nan at step 3" in shown
    (row,) = [line for line in shown.splitlines() if line.split()[:1] == ["40"]]
    assert row.split() == ["40", "-", "counter", "-", "-", "-", "-", "invalid"]


def test_different_sources_and_simulated_ones_are_said(tmp_path: Path) -> None:
    records = [
        write(tmp_path / "a", {"batch_size": 20}, repeat(1, 100.0)),
        write(tmp_path / "b", {"batch_size": 40}, repeat(1, 100.0, source="estimated")),
        write(tmp_path / "c", {"batch_size": 60}, repeat(1, 100.0, flags=("simulated",))),
    ]
    shown = text(records, width=100)
    assert "compare only those of one source" in shown
    assert "simulated: these figures come from a fake or replayed device" in shown


def test_trials_out_of_the_plan_stand_apart(tmp_path: Path) -> None:
    records = [
        write(tmp_path / name, {"batch_size": size}, repeat(1, 1.0)) for name, size in (("a", 20), ("b", 40))
    ]
    shown = text(records, apart={"b"}, width=100)
    before, _, after = shown.partition("Not in the study's plan any more")
    assert (before.count("\na "), before.count("\nb "), after.count("\na "), after.count("\nb ")) == (
        1,
        0,
        0,
        1,
    )


def test_one_trial_and_none(tmp_path: Path) -> None:
    assert "nt3: 1 trial\n" in text([write(tmp_path / "a", {}, repeat(1, 1.0))], width=100)
    assert "0 trials" in text([], width=100)


def test_a_model_error_that_the_record_states_is_said(tmp_path: Path) -> None:
    record = write(tmp_path / "a", {}, repeat(1, 1.0, source="estimated"))
    devices = [{"uid": "cpu", "name": "CPU time", "source": "estimated", "gain_error": 0.5}]
    store.write_json(record.folder.host, {"schema": 1, "host": "m", "devices": devices})
    shown = text([record], width=100)
    assert "estimated from CPU time: model error ±50 %" in shown
    assert "on m (metered: CPU time)" in shown


def test_columns_of_which_nothing_is_known_leave_their_room_to_the_settings(tmp_path: Path) -> None:
    records = [
        write(tmp_path / name, {"batch_size": size}, repeat(1, 100.0))
        for name, size in (("a", 10), ("b", 20))
    ]
    assert "spread" not in text(records, width=80)
    twice = write(tmp_path / "c", {"batch_size": 40}, repeat(1, 100.0), repeat(2, 101.0))
    assert "spread" in text([*records, twice], width=80)


def test_trials_of_different_workloads_go_by_their_names(tmp_path: Path) -> None:
    trained = write(tmp_path / "trained", {"batch_size": 10, "epochs": 3}, repeat(1, 100.0))
    command = write(tmp_path / "ran", {}, repeat(1, 100.0))
    spec = TrialSpec(workload="command", command=("sh", "-c", "x" * 90))
    store.write_json(command.folder.spec, spec)
    shown = text([trained, store.TrialRecord(command.folder)], width=80)
    assert [line.split()[0] for line in shown.splitlines() if "100" in line] == ["ran", "trained"]


def test_waiting_and_the_target_have_their_columns_where_they_are_known(tmp_path: Path) -> None:
    def asked(index: int, *, reached: bool) -> Repeat:
        given = {"target": "val_accuracy >= 0.9", "reached": reached, "waiting_s": 0.1}
        return msgspec.structs.replace(repeat(index, 1000.0), **given)

    records = [
        write(tmp_path / str(size), {"batch_size": size}, asked(1, reached=True), asked(2, reached=size > 1))
        for size in (1, 2)
    ]
    shown = text(records, width=120)
    missed, reached = (line for line in shown.splitlines() if " kJ" in line and "±" in line)
    assert "missed" in missed
    assert "1.00 kJ 2 ep" in reached
    assert "2.0" in reached, "0.1 s of 5 s"
    assert "target not reached in 1 of 2 repeats, so there is no energy to it: batch_size=1" in shown
    assert "to\ntarget" not in text([write(tmp_path / "c", {}, repeat(1, 1.0))])


def test_brackets_and_scripts_in_commands_are_shown_as_they_are_in_one_line(tmp_path: Path) -> None:
    records = []
    for name, script in (("a", "print([i][0])"), ("b", "open('[/tmp]')\n" * 40)):
        record = write(tmp_path / name, {}, repeat(1, 100.0))
        store.write_json(record.folder.spec, TrialSpec(workload="command", command=("python", "-c", script)))
        records.append(store.TrialRecord(record.folder))
    shown = text(records, width=300)
    assert "print([i][0])" in shown
    assert "open('\"'\"'[/tmp]'\"'\"') open(" in shown
    assert len(shown) < 3000
    (_, row) = json.loads(to_json(records, sort="trial"))
    assert row["command"].count("[/tmp]") == 40


def test_flags_that_differ_in_a_percentage_are_one_note(tmp_path: Path) -> None:
    records = [
        write(
            tmp_path / str(percent),
            {"x": percent},
            repeat(1, 1.0, flags=(f"short: error bound {percent}% of it",)),
        )
        for percent in (30, 75, 41)
    ]
    records.append(write(tmp_path / "d", {"x": 1}, repeat(1, 1.0, flags=("100% of a flag", "another"))))
    shown = text(records, width=100)
    assert "note (3 of 4 trials): short: error bound 30% to 75% of it" in shown
    assert "note (1 of 4 trials): 100% of a flag" in shown
    assert "note (1 of 4 trials): another" in shown


def test_columns_give_way_before_figures_and_settings(tmp_path: Path) -> None:
    aimed = [
        msgspec.structs.replace(
            repeat(n, 12345.6 + n), waiting_s=0.1, reached=True, target="val_accuracy >= 0.9"
        )
        for n in (1, 2)
    ]
    records = [write(tmp_path / cap, {"power_limit": cap}, *aimed) for cap in ("100%", "80%")]
    wide, narrow = (text(records, width=width) for width in (120, 72))
    assert "wait: share" in wide
    assert "wait: share" not in narrow
    assert "no room for: wait %, load/train/eval %" in narrow
    for shown in (wide, narrow):
        assert "…" not in shown
        assert [line.split()[0] for line in shown.splitlines() if " kJ " in line] == ["80%", "100%"]
    assert max(map(len, narrow.splitlines())) <= 72


def test_the_accuracy_of_a_detector_is_explained(tmp_path: Path) -> None:
    found = msgspec.structs.replace(repeat(1, 100.0), metrics={"map50": 0.4})
    record = write(tmp_path / "a", {"size": "s"}, found)
    assert "accuracy: of a detector its mAP at IoU 0.5" in text([record], width=100)
    assert "accuracy: of a detector" in against.text([record], {"size": "s"}, width=100)
    assert "of a detector" not in text([write(tmp_path / "b", {}, repeat(1, 100.0))], width=100)


def test_a_small_variant_is_marked(tmp_path: Path) -> None:
    small = write(tmp_path / "a", {"x": 1}, repeat(1, 100.0), small=True)
    assert "SMALL VARIANT" in text([small], width=100)
    full = write(tmp_path / "b", {"x": 2}, repeat(1, 100.0))
    assert "variant" not in text([full], width=100).lower()
    both = text([small, full], width=100)
    assert "SMALL VARIANT" not in both
    assert "small: of the small variant of a study" in both
    assert [row["small"] for row in json.loads(to_json([small, full]))] == [True, False]


def test_rows_stand_as_their_study_lists_them(tmp_path: Path) -> None:
    records = [write(tmp_path / size, {"size": size}, repeat(1, 100.0)) for size in ("s", "l", "n")]
    shown = text(records, lists={"size": ("n", "s", "l")}, width=100)
    assert [line.split()[0] for line in shown.splitlines() if "100.0" in line] == ["n", "s", "l"]


def test_trials_that_were_restarted_say_what_that_has_cost(tmp_path: Path) -> None:
    records = [write(tmp_path / name, {"size": name}, repeat(1, 100.0)) for name in ("s", "m", "l")]
    for record, times, lost in zip(records, (2, 1, 0), (cost(35.0, 4.0), cost(None, 1.0), None), strict=True):
        assert record.result is not None
        changed = msgspec.structs.replace(record.result, restarts=times, lost=lost)
        store.write_json(record.folder.result, changed)
    shown = text(store.load_records(tmp_path), width=100)
    assert "restarted 2 times: size=s: lost beside its energy: 35.0 ± 1.8 J, 4.00 s" in shown
    assert "restarted once: size=m: lost beside its energy: not known, 1.00 s" in shown
    assert shown.count("restarted") == 2
