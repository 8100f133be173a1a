# SPDX-License-Identifier: Apache-2.0
"""One row a trial: what is in a mean, what is left out, and what is said of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from joulelab.analysis.trials import TYPES, trials, varying
from joulelab.records import store
from joulelab.records.trial import Repeat, Result
from tests.analysis.records import cost, repeat, write

if TYPE_CHECKING:
    from pathlib import Path


def test_means_without_warm_up_and_both_errors(tmp_path: Path) -> None:
    record = write(
        tmp_path / "a",
        {"batch_size": 20},
        repeat(1, 500.0, warmup=True, time_s=50.0),
        repeat(2, 100.0, time_s=9.0),
        repeat(3, 104.0, time_s=11.0),
    )
    (row,) = trials([record]).to_dicts()
    assert (row["state"], row["valid"], row["n"], row["source"], row["simulated"]) == (
        "done",
        True,
        2,
        "counter",
        False,
    )
    assert row["energy_j"] == 102.0
    assert row["energy_error_j"] == pytest.approx(5.1)
    assert row["energy_ci_j"] == pytest.approx(12.7062 * 2.0, rel=1e-4)
    assert (row["time_s"], row["power_w"]) == (10.0, 10.2)
    assert row["accuracy"] == pytest.approx(0.925)
    assert row["j_per_sample"] == pytest.approx(0.102)
    assert [row[f"{name}_share"] for name in ("load", "train", "evaluate")] == pytest.approx([0.2, 0.5, 0.2])
    assert (row["host"], row["flags"], row["reason"]) == ("machine-1", [], None)


def test_one_repeat_has_no_spread(tmp_path: Path) -> None:
    (row,) = trials([write(tmp_path / "a", {}, repeat(1, 100.0))]).to_dicts()
    assert (row["energy_j"], row["energy_ci_j"], row["n"]) == (100.0, None, 1)


def test_an_invalid_trial_is_listed_without_energy(tmp_path: Path) -> None:
    bad = repeat(2, 3.0, valid=False)
    (row,) = trials([write(tmp_path / "a", {}, repeat(1, 100.0), bad, valid=False)]).to_dicts()
    assert (row["state"], row["valid"], row["energy_j"], row["time_s"], row["n"]) == (
        "done",
        False,
        None,
        None,
        0,
    )
    assert row["reason"] == "the loss was nan at step 3"
    assert row["source"] == "counter"


def test_an_energy_that_one_repeat_lacks_has_no_mean(tmp_path: Path) -> None:
    (row,) = trials([write(tmp_path / "a", {}, repeat(1, 100.0), repeat(2, None))]).to_dicts()
    assert (row["energy_j"], row["time_s"], row["train_share"]) == (None, 10.0, None)


def test_without_energy_there_is_no_source(tmp_path: Path) -> None:
    write(tmp_path / "a", {"batch_size": 10}, repeat(1, None), repeat(2, None))
    write(tmp_path / "b", {"batch_size": 20}, repeat(1, None), repeat(2, 40.0, source="estimated"))
    assert trials(store.load_records(tmp_path))["source"].to_list() == [None, "estimated"]


def test_sources_are_not_mixed_into_one_mean(tmp_path: Path) -> None:
    mixed = write(tmp_path / "a", {}, repeat(1, 100.0), repeat(2, 100.0, source="estimated"))
    (row,) = trials([mixed]).to_dicts()
    assert (row["source"], row["energy_j"]) == ("mixed", None)
    assert any("different sources" in flag for flag in row["flags"])


def test_the_accuracy_of_a_detector_is_its_map(tmp_path: Path) -> None:
    def found(**metrics: float) -> Repeat:
        return msgspec.structs.replace(repeat(1, 100.0), metrics=metrics)

    table = trials(
        [
            write(tmp_path / "a", {}, found(map50=0.4, map=0.2)),
            write(tmp_path / "b", {}, found(accuracy=0.99, val_accuracy=0.9)),
            write(tmp_path / "c", {}, found(loss=0.1)),
        ]
    )
    assert table["accuracy"].to_list() == [0.4, 0.9, None]
    assert table["accuracy_figure"].to_list() == ["map50", "val_accuracy", None]


def test_what_is_simulated_is_marked(tmp_path: Path) -> None:
    (row,) = trials([write(tmp_path / "a", {}, repeat(1, 100.0, flags=("simulated",)))]).to_dicts()
    assert row["simulated"] is True


def test_the_settings_that_vary_come_first(tmp_path: Path) -> None:
    records = [
        write(tmp_path / "a", {"batch_size": 20, "loader": "ours", "epochs": 3}),
        write(tmp_path / "b", {"batch_size": 40, "loader": "ours", "epochs": 3}, repeats=2),
    ]
    assert varying(records) == ["batch_size", "repeats"]
    table = trials(records)
    assert table.columns == ["batch_size", "repeats", *TYPES]
    assert table["batch_size"].to_list() == [20, 40]
    assert table["state"].to_list() == ["planned", "planned"]
    assert table["energy_j"].to_list() == [None, None]


def test_a_setting_that_only_one_trial_has_and_one_of_two_kinds(tmp_path: Path) -> None:
    records = [
        write(tmp_path / "a", {"cap": 200}),
        write(tmp_path / "b", {"cap": "none"}),
        write(tmp_path / "c", {}),
    ]
    assert trials(records)["cap"].to_list() == ["200", "none", None]


def test_a_setting_may_bear_the_name_of_a_column(tmp_path: Path) -> None:
    records = [write(tmp_path / "a", {"n": 1}), write(tmp_path / "b", {"n": 2})]
    assert trials(records)["n_setting"].to_list() == [1, 2]


def test_a_command_is_one_pass_without_phases(tmp_path: Path) -> None:
    record = write(tmp_path / "a", {})
    result = Result(state="done", time_s=2.0, energy_j=30.0, energy_error_j=1.0, power_w=15.0)
    store.write_json(record.folder.result, result)
    record.folder.done.touch()
    (row,) = trials([record]).to_dicts()
    assert (row["n"], row["energy_j"], row["energy_error_j"], row["power_w"]) == (1, 30.0, 1.0, 15.0)
    assert (row["j_per_sample"], row["train_share"], row["samples"]) == (None, None, None)


def test_failed_and_damaged_trials_do_not_hide_the_others(tmp_path: Path) -> None:
    good = write(tmp_path / "a", {"x": 1}, repeat(1, 100.0))
    failed = write(tmp_path / "b", {"x": 2})
    store.write_json(failed.folder.failed, {"schema": 1, "state": "failed", "reason": "out of memory"})
    torn = write(tmp_path / "c", {"x": 3}, repeat(1, 100.0))
    torn.folder.result.write_bytes(torn.folder.result.read_bytes()[:40])
    specless = write(tmp_path / "d", {"x": 4})
    specless.folder.spec.write_text("{")
    rows = trials([good, failed, torn, specless]).to_dicts()
    assert [row["state"] for row in rows] == ["done", "failed", "damaged", "planned"]
    assert [row["energy_j"] for row in rows] == [100.0, None, None, None]
    assert rows[1]["reason"] == "out of memory"
    assert varying([good, specless]) == []
    assert "result.json cannot be read" in rows[2]["reason"]


def test_no_records_no_rows() -> None:
    assert trials([]).columns == list(TYPES)


def test_flags_of_repeats_are_gathered_once(tmp_path: Path) -> None:
    record = write(
        tmp_path / "a", {}, repeat(1, 1.0, flags=("short", "wrap")), repeat(2, 1.0, flags=("short",))
    )
    assert trials([record])["flags"].to_list() == [["short", "wrap"]]


def test_records_helper_gives_every_measurement_its_error() -> None:
    assert cost(None).energy_error_j is None


def test_energy_to_a_target_is_that_of_the_repeats_that_all_reached_it(tmp_path: Path) -> None:
    def asked(index: int, energy_j: float, *, reached: bool) -> Repeat:
        given = {"target": "val_accuracy >= 0.9", "reached": reached}
        return msgspec.structs.replace(repeat(index, energy_j), **given)

    reached = write(tmp_path / "a", {"x": 1}, asked(1, 90.0, reached=True), asked(2, 110.0, reached=True))
    missed = write(tmp_path / "b", {"x": 2}, asked(1, 90.0, reached=True), asked(2, 110.0, reached=False))
    without = write(tmp_path / "c", {"x": 3}, repeat(1, 100.0))
    rows = trials([reached, missed, without]).to_dicts()
    assert [row["to_target_j"] for row in rows] == [100.0, None, None]
    assert [row["to_target_epochs"] for row in rows] == [2.0, None, None]
    assert [row["missed_target"] for row in rows] == [0, 1, None]
    assert rows[0]["to_target_ci_j"] == rows[0]["energy_ci_j"]


def test_waiting_is_a_share_of_the_training_phase(tmp_path: Path) -> None:
    waited = [msgspec.structs.replace(repeat(k, 100.0), waiting_s=s) for k, s in ((1, 0.5), (2, 1.0))]
    known, unknown = write(tmp_path / "a", {}, *waited), write(tmp_path / "b", {"x": 1}, repeat(1, 100.0))
    rows = trials([known, unknown]).to_dicts()
    # The training phase of these repeats has 5 s and 50 J.
    assert rows[0]["waiting_share"] == pytest.approx(0.15)
    assert rows[0]["waiting_j"] == pytest.approx(7.5)
    assert rows[1]["waiting_share"] is None
    assert rows[1]["waiting_j"] is None


def test_a_picture_of_an_inference_costs_its_pass_and_not_its_loading(tmp_path: Path) -> None:
    phases = {"load": cost(40.0), "inference": cost(20.0)}
    passed = msgspec.structs.replace(repeat(1, 100.0), phases=phases, samples=10, task="inference")
    row = trials([write(tmp_path / "a", {}, passed)]).to_dicts()[0]
    assert row["j_per_sample"] == 2.0
    assert (row["evaluate_share"], row["train_share"], row["waiting_share"]) == (0.2, None, None)


def test_what_was_lost_stands_beside_the_energy(tmp_path: Path) -> None:
    records = [write(tmp_path / name, {}, repeat(1, 100.0)) for name in "abc"]
    lost = {"a": None, "b": cost(7.0, time_s=2.0), "c": msgspec.structs.replace(cost(7.0), energy_j=None)}
    for record in records:
        result = record.result
        assert result is not None
        part = lost[record.folder.path.name]
        changed = msgspec.structs.replace(result, restarts=int(part is not None), lost=part)
        store.write_json(record.folder.result, changed)
    rows = trials(store.load_records(tmp_path)).to_dicts()
    assert [(row["restarts"], row["lost_j"], row["energy_j"]) for row in rows] == [
        (0, 0.0, 100.0),
        (1, 7.0, 100.0),
        (1, None, 100.0),
    ]
    assert [row["lost_s"] for row in rows][:2] == [0.0, 2.0]
