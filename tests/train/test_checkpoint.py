# SPDX-License-Identifier: Apache-2.0
"""When a checkpoint is taken, what it is taken for, and what is refused."""

from __future__ import annotations

import os
import signal
import socket
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
import torch

from joulelab.errors import TrialError
from joulelab.records import claim, store
from joulelab.records.layout import TrialFolder
from joulelab.records.measurement import Measurement
from joulelab.records.trial import Result, TrialSpec
from joulelab.train import checkpoint, keeper
from joulelab.train import checkpoint_file as file
from joulelab.train.loop import run_repeat
from joulelab.train.ranks import Ranks
from joulelab.train.stopping import Stopping
from joulelab.train.worker import run_trial
from tests.train.checkpoint_parts import Patient, Slow, Trial, figures, plain, toy
from tests.train.train_parts import KNOBS, FakeMeter, Killed, Toy

if TYPE_CHECKING:
    from pathlib import Path

    from joulelab.workloads.workload import Step


def names(trial: Trial) -> list[str]:
    return [folder.name for folder in file.found(trial.folder.checkpoint, repeat=1)]


def reseal(folder: Path, **changes: Any) -> None:
    """The checkpoint as another program, or another run, would have sealed it."""
    path = folder / "rank-0.json"
    sealed = msgspec.structs.replace(msgspec.json.decode(path.read_bytes(), type=file.Seal), **changes)
    path.write_bytes(msgspec.json.encode(sealed))


def test_every_few_steps_and_the_last_few_are_kept(tmp_path: Path) -> None:
    trial = Trial(tmp_path, steps=4, keep=2)  # ten steps an epoch
    trial.crash(toy(), after=18)
    assert names(trial) == ["repeat-1-step-000000016", "repeat-1-step-000000012"]
    repeat = trial.attempt(toy())
    assert (repeat.checkpoints, repeat.restarts) == (4 + 3, 1)
    assert repeat.checkpoint_s is not None
    assert 0 < repeat.checkpoint_s < repeat.checkpoints
    assert names(trial) == [], "what is finished is not gone on with"


def test_every_few_minutes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = [0.0]
    monkeypatch.setattr("joulelab.train.keeper.time.monotonic", lambda: now_s[0])

    class Ticking(Toy):
        def loss(self, model: torch.nn.Module, batch: Any) -> Step:
            now_s[0] += 7.0 * model.training
            return super().loss(model, batch)

    asked: dict[str, Any] = {"spec": "abc", "stopping": Stopping(), "say": pytest.fail, "tell": list}
    assert checkpoint.opened(TrialFolder(tmp_path), knobs={"checkpoint_minutes": 0.0}, **asked) is None
    kept = checkpoint.opened(TrialFolder(tmp_path), knobs={"checkpoint_minutes": 1.0}, **asked)
    assert kept is not None
    assert (kept.steps, kept.every_s, kept.keep) == (0, 60.0, 2)
    kept.writer = Patient(say=pytest.fail)
    kept.begin(1)
    one = replace(toy(), workload=Ticking, checkpoints=kept)
    try:
        repeat = run_repeat(one, meter=FakeMeter(), on_epoch=kept.epoch, on_progress=lambda step: None)
    finally:
        kept.close()
    assert repeat.checkpoints == 30 * 7 // 63, "of 30 steps every ninth is the first after a minute"


def test_without_knobs_nothing_is_written(tmp_path: Path) -> None:
    folder = TrialFolder(tmp_path)
    spec = TrialSpec(workload="tests.train.train_parts:Toy", knobs=KNOBS)
    store.write_json(folder.spec, spec)
    run_trial(folder, on_progress=lambda step: None, open_meter=FakeMeter)  # type: ignore[arg-type]
    done = store.read_json(folder.result, Result)
    assert not folder.checkpoint.exists()
    assert [(r.checkpoints, r.checkpoint_s, r.restarts, r.lost) for r in done.repeats] == [(0, None, 0, None)]


def test_a_damaged_checkpoint_is_passed_over_and_the_one_before_it_taken(tmp_path: Path) -> None:
    trial = Trial(tmp_path, steps=4)
    trial.crash(toy(workload=Slow), after=18)
    damaged = file.place(trial.folder.checkpoint, repeat=1, step=16) / "rank-0.pt"
    damaged.write_bytes(damaged.read_bytes()[:1000])
    repeat = trial.attempt(toy(workload=Slow))
    assert trial.said[0].startswith(
        "repeat-1-step-000000016 is passed over, the checkpoint before it is taken: "
    )
    assert trial.said[1] == "repeat 1 goes on from repeat-1-step-000000012: epoch 2, 2 batches done"
    assert figures(trial.lines) == figures(plain(toy(workload=Slow))[1])
    assert repeat.restarts == 1


def test_a_checkpoint_that_would_run_something_is_passed_over(tmp_path: Path) -> None:
    class Malicious:
        def __reduce__(self) -> tuple[Any, ...]:
            return os.mkdir, (str(tmp_path / "ran"),)

    trial = Trial(tmp_path / "trial", steps=4)
    trial.crash(toy(), after=18)
    sealed = file.seals(file.place(trial.folder.checkpoint, repeat=1, step=16))[0]
    file.write(trial.folder.checkpoint, sealed, {"shared": Malicious()})
    trial.attempt(toy())
    assert "rank-0.pt holds what is not loaded" in trial.said[0]
    assert "goes on from repeat-1-step-000000012" in trial.said[1]
    assert not (tmp_path / "ran").exists()


def test_where_none_is_whole_the_repeat_begins_anew(tmp_path: Path) -> None:
    trial = Trial(tmp_path, steps=4)
    trial.crash(toy(), after=18)
    for folder in file.found(trial.folder.checkpoint, repeat=1):
        (folder / "rank-0.json").unlink()
    repeat = trial.attempt(toy())
    assert [words.partition(":")[0].split()[-1] for words in trial.said] == ["taken", "taken"]
    assert figures(trial.lines) == figures(plain(toy())[1])
    assert repeat.restarts == 1


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"spec": "other"},
            r"is of another trial \(other, and this is abc\)\n  cure: .*remove .* to begin anew",
        ),
        (
            {"ranks": 1, "torch": "1.13.1"},
            r"by torch 1.13.1, and this is torch .*\n  cure: install torch 1 again",
        ),
    ],
)
def test_a_checkpoint_of_something_else_is_refused(
    tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    trial = Trial(tmp_path, steps=4)
    trial.crash(toy(), after=18)
    reseal(file.place(trial.folder.checkpoint, repeat=1, step=16), **changes)
    with pytest.raises(TrialError, match=words):
        trial.attempt(toy())
    assert names(trial), "it is not ours to remove"


def test_another_number_of_workers_is_refused(tmp_path: Path) -> None:
    trial = Trial(tmp_path, steps=4)
    trial.crash(toy(), after=18)
    asked = toy()
    with pytest.raises(
        TrialError, match=r"written by 1 workers, and this is a run of 4\n  cure: start it with 1"
    ):
        trial.attempt(replace(asked, setting=replace(asked.setting, ranks=4)))


def test_a_small_step_of_torch_is_taken_with_a_note(tmp_path: Path) -> None:
    trial = Trial(tmp_path, steps=4)
    trial.crash(toy(), after=18)
    version = f"{torch.__version__.partition('.')[0]}.0.9"
    reseal(file.place(trial.folder.checkpoint, repeat=1, step=16), torch=version)
    repeat = trial.attempt(toy())
    assert f"begun with torch {version}, ended with torch {torch.__version__}" in repeat.total.flags


def _marked(*marks: tuple[int, int]) -> type[Toy]:
    class Marked(Toy):
        def marks(self) -> dict[str, tuple[int, int]]:
            return dict(zip("ab", marks, strict=False))

    return Marked


def test_data_that_have_changed_are_refused_or_noted(tmp_path: Path) -> None:
    trial = Trial(tmp_path, steps=4)
    trial.crash(toy(workload=_marked((10, 1), (20, 1))), after=18)
    for other, words in (
        (_marked((10, 1), (21, 1)), r"b had the size 20 and now 21\n  cure: put the data back, or remove"),
        (_marked((10, 1)), "b had the size 20 and now none"),
    ):
        with pytest.raises(TrialError, match=words):
            trial.attempt(toy(workload=other))
    repeat = trial.attempt(toy(workload=_marked((10, 1), (20, 7))))
    assert "b is as long as when the training began, and was written since" in repeat.total.flags


def test_another_machine_is_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trial = Trial(tmp_path, steps=4)
    trial.crash(toy(), after=18)
    here = socket.gethostname()
    monkeypatch.setattr("joulelab.train.keeper.socket.gethostname", lambda: "elsewhere")
    repeat = trial.attempt(toy())
    assert f"begun on {here}, ended on elsewhere" in repeat.total.flags


def test_a_workload_whose_code_has_changed_is_refused(tmp_path: Path) -> None:
    class Wider(Toy):
        def model(self) -> torch.nn.Module:
            return torch.nn.Linear(3, 5)

    trial = Trial(tmp_path, steps=4)
    trial.crash(toy(), after=18)
    with pytest.raises(
        TrialError, match=r"does not fit this workload any more: RuntimeError: .*size mismatch"
    ):
        trial.attempt(toy(workload=Wider))
    assert names(trial)


class Second(Ranks):
    """The second of two: the first one has chosen a checkpoint."""

    rank, count = 1, 2

    def __init__(self, chosen: str) -> None:
        super().__init__()
        self.chosen = chosen

    def texts(self, text: str) -> list[str]:
        return [self.chosen, text]


def test_only_the_first_of_many_ranks_writes_what_belongs_to_the_trial(tmp_path: Path) -> None:
    # One after the other: none of them talks to the other here.
    asked = toy()
    for rank in (0, 1):
        setting = replace(asked.setting, rank=rank, ranks=2)
        trial = Trial(tmp_path, steps=4, rank=rank)
        trial.crash(replace(asked, setting=setting), after=18)
        assert (trial.folder.checkpoint / "begun.jsonl").read_text().count('"repeat"') == 1
    assert sorted(path.name for path in file.found(trial.folder.checkpoint, repeat=1)[0].iterdir()) == [
        "rank-0.json",
        "rank-0.pt",
        "rank-1.json",
        "rank-1.pt",
    ]
    shared, own = (file.read(file.found(trial.folder.checkpoint, repeat=1)[0], rank) for rank in (0, 1))
    assert "shared" in shared
    assert "shared" not in own
    setting = replace(asked.setting, rank=1, ranks=2)
    second = Trial(tmp_path, steps=1000, rank=1)
    repeat = second.attempt(replace(asked, setting=setting, ranks=Second("repeat-1-step-000000016")))
    assert second.said == ["repeat 1 goes on from repeat-1-step-000000016: epoch 2, 6 batches done"]
    assert repeat.metrics == plain(asked)[0].metrics
    assert names(trial), "they are the first one's to remove"


def test_a_finished_repeat_of_another_trial_is_refused(tmp_path: Path) -> None:
    Trial(tmp_path, spec="abc").attempt(toy())
    with pytest.raises(TrialError, match=r"is of another trial \(abc, and this is def\)"):
        Trial(tmp_path, spec="def").attempt(toy())


# ---- a whole trial, stopped by a signal --------------------------------------------------------------------


class Terminated(Slow):
    """Is asked to stop in the second epoch, once."""

    trained = 0

    def loss(self, model: torch.nn.Module, batch: Any) -> Step:
        Terminated.trained += model.training
        if Terminated.trained == 24 and model.training:
            os.kill(os.getpid(), signal.SIGTERM)
        return super().loss(model, batch)


def attempt(folder: TrialFolder) -> tuple[int, FakeMeter]:
    claim.take(folder)
    made: list[FakeMeter] = []

    def open_meter(**settings: Any) -> FakeMeter:
        made.append(FakeMeter(**settings))
        return made[0]

    try:
        code = run_trial(folder, on_progress=lambda step: None, open_meter=open_meter)  # type: ignore[arg-type]
        return code, made[0]
    finally:
        claim.release(folder)


def test_a_request_to_stop_is_obeyed_after_a_last_checkpoint(tmp_path: Path) -> None:
    Terminated.trained = 0
    knobs = {**KNOBS, "batch_size": 4, "accumulate": 5, "checkpoint_steps": 1000}
    folder = TrialFolder(tmp_path / "trial")
    folder.path.mkdir()
    store.write_json(folder.spec, TrialSpec(workload=f"{__name__}:Terminated", knobs=knobs, repeats=2))
    code, meter = attempt(folder)
    assert code == 128 + signal.SIGTERM
    assert store.read_json(folder.failed, dict)["state"] == "interrupted"
    assert meter.closed
    # Asked in the fourth batch of a step, whose fifth is done first.
    assert [each.name for each in file.found(folder.checkpoint, repeat=1)] == ["repeat-1-step-000000005"]
    assert attempt(folder)[0] == 0
    done = store.read_json(folder.result, Result)
    wanted = [plain(toy(workload=Slow, accumulate=5, seed=seed)) for seed in (0, 1)]
    assert [repeat.metrics for repeat in done.repeats] == [repeat.metrics for repeat, _ in wanted]
    lines = store.read_lines(folder.metrics)
    assert [(line["repeat"], line["epoch"]) for line in lines] == [(r, e) for r in (1, 2) for e in (1, 2, 3)]
    assert [repeat.restarts for repeat in done.repeats] == [1, 0]
    assert done.restarts == 1
    assert Terminated.trained == 60, "no batch was done twice"


def test_repeats_that_are_finished_are_not_done_again(tmp_path: Path) -> None:
    Killed.repeats = 0
    knobs = {**KNOBS, "checkpoint_steps": 2}
    folder = TrialFolder(tmp_path / "trial")
    folder.path.mkdir()
    store.write_json(
        folder.spec, TrialSpec(workload="tests.train.train_parts:Killed", knobs=knobs, repeats=3)
    )
    assert attempt(folder)[0] == 128 + signal.SIGTERM, (
        "in the load of the second repeat nothing is waited for"
    )
    assert attempt(folder)[0] == 0
    assert Killed.repeats == 4, "the first of three was not loaded again"
    done = store.read_json(folder.result, Result)
    assert [(repeat.index, repeat.restarts) for repeat in done.repeats] == [(1, 0), (2, 1), (3, 0)]
    assert [(line["repeat"], line["epoch"]) for line in store.read_lines(folder.metrics)] == [
        (repeat, epoch) for repeat in (1, 2, 3) for epoch in (1, 2, 3)
    ]
    assert not folder.checkpoint.exists()


def test_kept_energy_is_that_of_the_checkpoint_and_its_own_attempt(tmp_path: Path) -> None:
    trial = Trial(tmp_path, steps=4)
    trial.crash(toy(), after=18)
    repeat = trial.attempt(toy())
    # Of the fake: 1 J by the checkpoint, then 2 J for the repeat of this attempt.
    assert (repeat.total.time_s, repeat.total.energy_j) == (0.5 + 1.0, 1.0 + 2.0)
    assert {name: cost.energy_j for name, cost in repeat.phases.items()} == {
        "load": 2.0 + 1.0,
        "restore": 2.0,
        # By the checkpoint two windows of training and one of evaluation; of three epochs two are left.
        "train": 2 * 2.0 + 2 * 1.0,
        "evaluate": 2 * 2.0 + 1.0,
    }
    assert repeat.lost is not None
    assert repeat.lost.energy_j is None
    assert (
        "attempt 1: what its lost work drew is not known: its record ends before it did" in repeat.lost.flags
    )


def test_time_of_an_epoch_counts_from_the_beginning(tmp_path: Path) -> None:
    trial = Trial(tmp_path, steps=4)
    trial.crash(toy(), after=18)
    trial.attempt(toy())
    # The fake says that half a second was spent by the checkpoint, however long it really was.
    assert min(line["time_s"] for line in trial.lines[1:]) >= 0.5


def test_a_short_part_does_not_make_a_long_repeat_short() -> None:
    flags = ("short: error bound 40% of the energy", "simulated")
    for error_j, left in ((10.0, flags[1:]), (20.0, flags)):
        whole = Measurement(time_s=9.0, energy_j=100.0, energy_error_j=error_j, flags=flags)
        assert keeper._long(whole).flags == left
