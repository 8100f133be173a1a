# SPDX-License-Identifier: Apache-2.0
"""Each trial beside its reference, with results worked out by hand; only like is compared with like."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from joulelab.analysis.against import TYPES, against
from joulelab.errors import InputError
from joulelab.records import store
from tests.analysis.records import repeat, write

if TYPE_CHECKING:
    from pathlib import Path

    from joulelab.records.parameter import Scalar
    from joulelab.records.store import TrialRecord
    from joulelab.records.trial import Repeat

FP32: dict[str, Scalar] = {"precision": "fp32"}


def three(mean_j: float, step_j: float, **total: Any) -> list[Repeat]:
    return [repeat(index, mean_j + (index - 2) * step_j, **total) for index in (1, 2, 3)]


def by_name(records: list[TrialRecord], reference: dict[str, object]) -> dict[str, dict[str, Any]]:
    return {row["trial"]: row for row in against(records, reference).to_dicts()}


def test_a_change_and_its_interval(tmp_path: Path) -> None:
    records = [
        write(tmp_path / "a", {"precision": "fp32", "epochs": 2}, *three(100.0, 6.0)),
        write(tmp_path / "b", {"precision": "bf16", "epochs": 2}, *three(60.0, 3.0, time_s=5.0)),
    ]
    rows = by_name(records, {"precision": "fp32"})
    assert rows["a"]["is_reference"]
    assert rows["a"]["energy_j"] == 100.0
    assert rows["a"]["energy_j_change"] is None
    row = rows["b"]
    assert (row["precision"], row["reference"], row["n"], row["n_reference"]) == ("bf16", "a", 3, 3)
    assert (row["energy_j"], row["energy_j_reference"]) == (60.0, 100.0)
    assert row["energy_j_change"] == pytest.approx(-0.4)
    # Variances of the means: 9/3 = 3 and 36/3 = 12; of the share 3e-4 + 0.36 x 12e-4 = 7.32e-4;
    # freedom 7.32^2 / ((3^2 + 4.32^2) / 2) = 3.87, so 3, and t is 3.1824.
    assert row["energy_j_change_ci"] == pytest.approx(3.1824 * 7.32e-4**0.5, rel=1e-4)
    assert row["energy_j_seen"] is True
    assert row["j_per_sample_change"] == pytest.approx(-0.4)
    assert (row["time_s_change"], row["time_s_change_ci"], row["time_s_seen"]) == (-0.5, 0.0, True)
    # Both learnt the same: 0.91, 0.92, 0.93. The difference is in points, not a share.
    assert row["accuracy_change"] == pytest.approx(0.0, abs=1e-12)
    assert row["accuracy_change_ci"] == pytest.approx(2.7764 * (2 * 1e-4 / 3) ** 0.5, rel=1e-4)
    assert row["accuracy_seen"] is False


def test_an_interval_that_holds_zero_shows_nothing(tmp_path: Path) -> None:
    records = [
        write(tmp_path / "a", FP32, *three(100.0, 6.0)),
        write(tmp_path / "b", {"precision": "bf16"}, *three(96.0, 6.0)),
    ]
    row = by_name(records, {"precision": "fp32"})["b"]
    assert row["energy_j_change"] == pytest.approx(-0.04)
    assert row["energy_j_seen"] is False


def test_each_trial_has_the_reference_that_is_like_it_in_all_else(tmp_path: Path) -> None:
    records = [
        write(
            tmp_path / f"{precision}-{size}",
            {"precision": precision, "batch_size": size},
            repeat(1, energy_j),
        )
        for precision, size, energy_j in (
            ("fp32", 20, 100.0),
            ("fp32", 40, 80.0),
            ("bf16", 20, 50.0),
            ("bf16", 40, 20.0),
            ("bf16", 80, 10.0),
        )
    ]
    rows = by_name(records, {"precision": "fp32"})
    assert (rows["bf16-20"]["reference"], rows["bf16-20"]["energy_j_change"]) == ("fp32-20", -0.5)
    assert (rows["bf16-40"]["reference"], rows["bf16-40"]["energy_j_change"]) == ("fp32-40", -0.75)
    assert (rows["bf16-80"]["reference"], rows["bf16-80"]["energy_j_change"]) == (None, None)
    corner = by_name(records, {"precision": "fp32", "batch_size": "20"})
    assert {row["reference"] for row in corner.values()} == {"fp32-20"}
    assert corner["bf16-80"]["energy_j_change"] == -0.9
    assert not corner["fp32-40"]["is_reference"]


def test_one_repeat_has_a_change_and_no_interval(tmp_path: Path) -> None:
    records = [
        write(tmp_path / "a", FP32, *three(100.0, 6.0)),
        write(tmp_path / "b", {"precision": "bf16"}, repeat(1, 50.0)),
    ]
    row = by_name(records, {"precision": "fp32"})["b"]
    assert (row["energy_j_change"], row["energy_j_change_ci"], row["energy_j_seen"]) == (-0.5, None, None)


def test_other_numbers_of_repeats_are_no_other_setting(tmp_path: Path) -> None:
    records = [
        write(tmp_path / "a", FP32, *three(100.0, 6.0), repeats=3, seed=1),
        write(tmp_path / "b", {"precision": "bf16"}, repeat(1, 50.0), repeats=1, seed=7),
        write(tmp_path / "c", {"precision": "bf16"}, repeat(1, 50.0), warmup=1),
    ]
    rows = by_name(records, {"precision": "fp32"})
    assert (rows["b"]["reference"], rows["c"]["reference"]) == ("a", None)


def test_sources_are_never_compared_and_times_are(tmp_path: Path) -> None:
    flags = ("simulated: a fake",)
    records = [
        write(tmp_path / "a", FP32, repeat(1, 100.0)),
        write(tmp_path / "b", {"precision": "bf16"}, repeat(1, 50.0, source="estimated", time_s=5.0)),
        write(tmp_path / "c", {"precision": "fp16"}, repeat(1, 50.0, flags=flags, time_s=5.0)),
        write(
            tmp_path / "d",
            {"precision": "tf32"},
            repeat(1, 50.0, time_s=5.0),
            repeat(2, 50.0, source="estimated", time_s=5.0),
        ),
    ]
    rows = by_name(records, {"precision": "fp32"})
    for name, source in (("b", "estimated"), ("c", "counter"), ("d", "mixed")):
        assert rows[name]["source"] == source
        for figure in ("energy_j", "j_per_sample"):
            assert rows[name][f"{figure}_change"] is None
            assert rows[name][f"{figure}_reference"] is None
        assert rows[name]["time_s_change"] == -0.5
        assert rows[name]["other_source"] is True
    assert rows["a"]["other_source"] is False
    assert rows["c"]["simulated"] is True
    assert rows["d"]["energy_j"] is None


def test_what_is_invalid_failed_or_planned_never_enters(tmp_path: Path) -> None:
    records = [
        write(tmp_path / "a", FP32, repeat(1, 100.0), valid=False),
        write(tmp_path / "b", {"precision": "bf16"}, repeat(1, 50.0)),
        write(tmp_path / "c", {"precision": "fp16"}),
    ]
    with pytest.raises(InputError, match="no trial that is done and valid has precision=fp32") as caught:
        against(records, {"precision": "fp32"})
    assert "legal: bf16" in str(caught.value)
    assert by_name(records, {"precision": "bf16"}).keys() == {"b"}
    with pytest.raises(InputError, match="no trial here is done and valid"):
        against(records[::2], {"precision": "fp32"})


def test_energy_to_a_target_and_one_that_missed_it(tmp_path: Path) -> None:
    def aimed(index: int, energy_j: float, *, reached: bool) -> Repeat:
        return msgspec.structs.replace(repeat(index, energy_j), reached=reached, target="val_accuracy >= 0.9")

    records = [
        write(tmp_path / "a", FP32, aimed(1, 100.0, reached=True)),
        write(tmp_path / "b", {"precision": "bf16"}, aimed(1, 25.0, reached=True)),
        write(tmp_path / "c", {"precision": "fp16"}, aimed(1, 25.0, reached=False)),
    ]
    rows = by_name(records, {"precision": "fp32"})
    assert (rows["b"]["to_target_j"], rows["b"]["to_target_j_change"]) == (25.0, -0.75)
    assert (rows["b"]["missed_target"], rows["c"]["missed_target"]) == (False, True)
    # What a run cost that did not get there saves nothing, whatever its joules and seconds.
    for figure in ("to_target_j", "energy_j", "time_s"):
        assert rows["c"][f"{figure}_change"] is None
    assert rows["c"]["j_per_sample_change"] == -0.75


def test_the_cost_of_recognising_leaves_loading_out(tmp_path: Path) -> None:
    def passes(energy_j: float) -> Repeat:
        whole = repeat(1, energy_j)
        parts = {"load": whole.phases["load"], "inference": whole.phases["train"]}
        return msgspec.structs.replace(whole, phases=parts, task="inference")

    records = [
        write(tmp_path / "a", {"depth": 50}, passes(100.0)),
        write(tmp_path / "b", {"depth": 18}, passes(50.0)),
    ]
    row = by_name(records, {"depth": 50})["b"]
    assert (row["j_per_sample"], row["j_per_sample_reference"]) == (0.025, 0.05)


def test_two_trials_of_the_same_settings_are_one_reference(tmp_path: Path) -> None:
    records = [
        write(tmp_path / "a", FP32, repeat(1, 90.0)),
        write(tmp_path / "b", FP32, repeat(1, 110.0)),
        write(tmp_path / "c", {"precision": "bf16"}, repeat(1, 50.0)),
    ]
    rows = by_name(records, {"precision": "fp32"})
    assert (rows["c"]["reference"], rows["c"]["n_reference"]) == ("a; b", 2)
    assert (rows["c"]["energy_j_reference"], rows["c"]["energy_j_change"]) == (100.0, -0.5)
    assert rows["a"]["is_reference"]
    assert rows["b"]["is_reference"]


def test_other_hosts_and_variants_are_not_compared(tmp_path: Path) -> None:
    records = [
        write(tmp_path / "a", FP32, repeat(1, 100.0)),
        write(tmp_path / "b", {"precision": "bf16"}, repeat(1, 50.0), small=True),
        write(tmp_path / "c", {"precision": "bf16"}, repeat(1, 50.0)),
    ]
    store.write_json(records[2].folder.host, {"schema": 1, "host": "machine-2"})
    rows = by_name(records, {"precision": "fp32"})
    assert (rows["b"]["reference"], rows["b"]["small"]) == (None, True)
    assert (rows["c"]["reference"], rows["c"]["host"]) == (None, "machine-2")


def test_references_that_are_not_there_are_refused(tmp_path: Path) -> None:
    records = [
        write(
            tmp_path / "a", {"precision": "fp32", "batch_size": 20, "deterministic": False}, repeat(1, 100.0)
        ),
        write(
            tmp_path / "b", {"precision": "bf16", "batch_size": 40, "deterministic": True}, repeat(1, 50.0)
        ),
    ]
    with pytest.raises(InputError, match="against precison=fp32: unknown setting 'precison'") as caught:
        against(records, {"precison": "fp32"})
    assert "did you mean 'precision'" in str(caught.value)
    with pytest.raises(InputError, match="no trial that is done and valid has batch_size=30") as caught:
        against(records, {"batch_size": 30})
    assert "legal: 20, 40" in str(caught.value)
    with pytest.raises(InputError, match="has all of them"):
        against(records, {"precision": "fp32", "batch_size": 40})
    # As a command line has them: text, however the number is written.
    for reference in ({"batch_size": "20.0"}, {"deterministic": "false"}, {"deterministic": "False"}):
        assert by_name(records, dict(reference))["a"]["is_reference"]


def test_every_column_is_there(tmp_path: Path) -> None:
    table = against([write(tmp_path / "a", FP32, repeat(1, None))], {"precision": "fp32"})
    assert table.columns == list(TYPES)
    assert table["energy_j"].to_list() == [None]
