# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from joulelab.errors import RecordError
from joulelab.records import claim, store
from joulelab.records.layout import TrialFolder
from joulelab.records.measurement import Measurement
from joulelab.records.trial import Result, TrialSpec, result_of


def spec_in(folder: Path, **fields: object) -> TrialFolder:
    folder.mkdir(parents=True)
    trial = TrialFolder(folder)
    store.write_json(trial.spec, TrialSpec(workload="nt3", **fields))  # type: ignore[arg-type]
    return trial


def test_what_is_written_is_read(tmp_path: Path) -> None:
    spec = TrialSpec(workload="nt3", knobs={"batch_size": 20, "precision": "bf16"}, repeats=2)
    store.write_json(tmp_path / "spec.json", spec)
    assert store.read_json(tmp_path / "spec.json", TrialSpec) == spec
    assert [p.name for p in tmp_path.iterdir()] == ["spec.json"]  # no temporary file stays


def test_result_keeps_the_names_of_measurement(tmp_path: Path) -> None:
    total = Measurement(
        time_s=2.0, energy_j=10.0, energy_error_j=0.5, energy_j_by_device={"gpu:0": 10.0}, power_w=5.0
    )
    store.write_json(tmp_path / "result.json", result_of(total, state="done"))
    plain = msgspec.json.decode((tmp_path / "result.json").read_bytes())
    assert plain["energy_j"] == 10.0
    assert plain["time_s"] == 2.0
    assert store.read_json(tmp_path / "result.json", Result).total() == total


@pytest.mark.parametrize("cut", range(1, 30))
def test_a_torn_last_line_is_passed_over_and_the_next_is_whole(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "metrics.jsonl"
    lines = store.Lines(path, kind="metrics")
    lines.append({"epoch": 1, "loss": 0.5})
    lines.append({"epoch": 2, "loss": 0.25})
    lines.close()
    whole = path.read_bytes()
    path.write_bytes(whole[:-cut])
    expected = [1] if cut > 1 else [1, 2]
    if cut >= len(b'{"epoch":2,"loss":0.25}\n') + 1:
        expected = [] if cut > len(b'{"epoch":2,"loss":0.25}\n') + 1 else [1]
    assert [line["epoch"] for line in store.read_lines(path)] == expected
    again = store.Lines(path, kind="metrics")
    again.append({"epoch": 3})
    again.close()
    assert [line["epoch"] for line in store.read_lines(path)] == [*expected, 3]


def test_a_newer_schema_is_refused_in_words(tmp_path: Path) -> None:
    (tmp_path / "spec.json").write_text('{"workload": "nt3", "schema": 99}')
    with pytest.raises(RecordError, match=r"schema 99 is newer.*\n.*update JouleLab"):
        store.read_json(tmp_path / "spec.json", TrialSpec)


def test_an_old_schema_is_upgraded(tmp_path: Path) -> None:
    (tmp_path / "spec.json").write_text('{"workload": "nt3", "settings": {"batch_size": 20}}')
    assert store.read_json(tmp_path / "spec.json", TrialSpec).knobs == {"batch_size": 20}


def test_damage_names_the_file_and_the_field(tmp_path: Path) -> None:
    (tmp_path / "spec.json").write_text('{"workload": 3, "schema": 1}')
    with pytest.raises(RecordError, match=r"spec\.json cannot be read.*workload"):
        store.read_json(tmp_path / "spec.json", TrialSpec)


def test_a_folder_that_is_a_file_is_refused_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(RecordError, match="not a folder"):
        store.make_folder(tmp_path / "taken")


def test_a_full_disk_is_refused_before_anything_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Path, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(RecordError, match="disk is full"):
        store.make_folder(tmp_path / "out")


def test_states_are_files(tmp_path: Path) -> None:
    trial = spec_in(tmp_path / "t")
    record = store.TrialRecord(trial)
    assert record.state == "planned"
    store.write_json(trial.failed, {"state": "failed", "reason": "x", "schema": 1})
    assert record.state == "failed"
    assert record.failure["reason"] == "x"
    trial.done.touch()
    assert record.state == "done"


def test_records_are_found_at_any_depth_but_not_inside_a_trial(tmp_path: Path) -> None:
    outer = spec_in(tmp_path / "a study" / "trials" / "t1")
    spec_in(outer.path / "checkpoint" / "inner")
    spec_in(tmp_path / "b")
    names = [record.folder.path.name for record in store.load_records(tmp_path)]
    assert names == ["t1", "b"]
    with pytest.raises(RecordError, match="does not exist"):
        store.load_records(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(RecordError, match="holds no trial"):
        store.load_records(tmp_path / "empty")


def test_equal_specs_are_the_same_trial_whatever_the_order() -> None:
    one = TrialSpec(workload="nt3", knobs={"a": 1, "b": 2})
    two = TrialSpec(workload="nt3", knobs={"b": 2, "a": 1})
    assert one.identity() == two.identity()
    assert one.identity() != TrialSpec(workload="nt3", knobs={"a": 1, "b": 3}).identity()


def test_small_is_another_trial_and_full_is_the_one_it_always_was() -> None:
    spec = TrialSpec(
        workload="nt3",
        parameters={"scale": 0.5, "data": ""},
        knobs={"b": 2, "a": 1},
        repeats=2,
        seed=3,
        devices=("rapl",),
    )
    # As it came out before there were small variants: folders of then are found again.
    assert spec.folder_name() == "nt3-a=1-b=2-8c6cd8f7"
    small = msgspec.structs.replace(spec, small=True)
    assert small.folder_name() == "nt3-small-a=1-b=2-b8fa5706"


def test_a_folder_name_cannot_leave_its_folder() -> None:
    spec = TrialSpec(workload="../../x:<script>", knobs={"k": "../../y z'\""})
    assert "/" not in spec.folder_name()
    assert not spec.folder_name().startswith(".")
    assert Path(spec.folder_name()).name == spec.folder_name()


def test_a_file_is_no_folder_of_records(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RecordError, match="is a file, not a folder"):
        store.load_records(tmp_path / "file")


def test_a_worker_that_outlives_its_runner_still_runs(tmp_path: Path) -> None:
    trial = spec_in(tmp_path / "a")
    gone = claim.Holder(host=claim.this_process().host, boot="", pid=1, started="long ago")
    store.write_json(trial.claim, gone)
    assert store.TrialRecord(trial).state == "failed"
    assert store.TrialRecord(trial).failure["reason"] == "its process is gone and left no word"
    with trial.turn.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert store.TrialRecord(trial).state == "running"
    assert store.TrialRecord(trial).state == "failed"


def test_windows_of_a_program_are_no_trial_and_the_error_says_where_they_are(tmp_path: Path) -> None:
    TrialFolder(tmp_path).windows.touch()
    with pytest.raises(RecordError, match=r"no trial\n  cure: read .*windows\.jsonl"):
        store.load_records(tmp_path)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "spec.json").mkdir()
    with pytest.raises(
        RecordError, match=r"spec\.json cannot be read: Is a directory\n  cure: make it readable"
    ):
        store.read_json(tmp_path / "spec.json", TrialSpec)


def test_a_folder_that_may_not_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec_in(tmp_path / "open")
    (tmp_path / "closed").mkdir()
    look = os.scandir

    def scandir(path: Path) -> object:
        if Path(path).name == "closed":  # root, who may run the tests, is denied nothing
            raise PermissionError(13, "Permission denied", str(path))
        return look(path)

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(RecordError, match="closed cannot be read: Permission denied"):
        store.load_records(tmp_path)


@pytest.mark.parametrize("write", [store.make_folder, lambda path: store.write_json(path / "spec.json", {})])
def test_a_read_only_disk_is_named_though_nothing_can_be_removed_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[[Path], None]
) -> None:
    def refuse(path: Path, *rest: object, **more: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system", str(path))

    monkeypatch.setattr(Path, "write_bytes", refuse)
    monkeypatch.setattr(Path, "unlink", refuse)
    with pytest.raises(
        RecordError, match=r"cannot be written: Read-only file system\n  cure: the file system"
    ):
        write(tmp_path)


def test_a_full_disk_that_lets_an_empty_file_through_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, data: bytes) -> None:
        path.touch()
        if data:
            raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(RecordError, match="the disk is full"):
        store.make_folder(tmp_path / "trial")
    assert not list((tmp_path / "trial").iterdir())


def test_arguments_that_are_no_utf8_are_kept_legibly(tmp_path: Path) -> None:
    argument = os.fsdecode(b"caf\xe9")
    store.write_json(tmp_path / "spec.json", TrialSpec(workload="command", command=("cat", argument)))
    assert store.read_json(tmp_path / "spec.json", TrialSpec).command == ("cat", "caf\\udce9")
    store.write_json(tmp_path / "host.json", {"folder": argument, "host": "é"})
    assert store.read_json(tmp_path / "host.json", dict) == {"folder": "caf\\udce9", "host": "é", "schema": 1}


@pytest.mark.parametrize("number", ["-1", '"1"', "null", "1.5"])
def test_a_schema_that_never_was_is_damage(tmp_path: Path, number: str) -> None:
    (tmp_path / "spec.json").write_text(f'{{"workload": "nt3", "schema": {number}}}')
    with pytest.raises(RecordError, match=r"is not legal\n  cure: legal: 0 to 1; the record is damaged"):
        store.read_json(tmp_path / "spec.json", TrialSpec)


def test_files_of_somebody_else_are_not_set_aside_as_an_attempt(tmp_path: Path) -> None:
    (tmp_path / "log.txt").write_text("mine")
    with pytest.raises(
        RecordError, match=r"is no trial and holds log\.txt\n  cure: give a folder of its own"
    ):
        store.make_trial_folder(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["log.txt"]
    # After a kill before the spec was written there is a claim: then they are an attempt's.
    store.write_json(TrialFolder(tmp_path).claim, claim.this_process())
    store.make_trial_folder(tmp_path)


@pytest.mark.parametrize("damage", [{"host": ["a"]}, {"devices": {"a": 1}}, {"settings": ["x"]}])
def test_a_host_that_is_not_what_it_was_is_damage(tmp_path: Path, damage: dict[str, object]) -> None:
    trial = spec_in(tmp_path / "t")
    store.write_json(trial.host, {"host": "here", "devices": [], "schema": 1, "more": 1})
    assert store.TrialRecord(trial).host["more"] == 1
    store.write_json(trial.host, {"schema": 1, **damage})
    with pytest.raises(RecordError, match=r"host\.json cannot be read: .*\n  cure: the record is damaged"):
        _ = store.TrialRecord(trial).host
