# SPDX-License-Identifier: Apache-2.0
"""Studies on a real Slurm: every trial exactly once, whatever happens to studies, jobs and nodes."""

from __future__ import annotations

import json
import re
import signal
import time
from typing import TYPE_CHECKING

import msgspec
import pytest

from joulelab.errors import TrialError
from joulelab.knobs.lease import LeaseFolder
from joulelab.launch.job_note import JobNote, read_note
from joulelab.launch.queue import OVER, NoAnswerError
from joulelab.launch.slurm import Slurm
from joulelab.records import ranks, store
from joulelab.records.layout import StudyFolder, TrialFolder
from joulelab.records.store import load_records
from joulelab.records.trial import Result, TrialSpec
from joulelab.study.run import run
from joulelab.study.runner import run_study
from joulelab.study.study_file import Study
from tests.launch.slurm_cluster import NODES, until
from tests.launch.slurm_parts import line_of, start, starts, study_of
from tests.train.caps_parts import POWER
from tests.train.train_parts import KNOBS

if TYPE_CHECKING:
    from pathlib import Path

    from joulelab.launch.progress import Progress
    from tests.fakes.caps import Machine
    from tests.launch.slurm_cluster import Cluster

pytestmark = pytest.mark.timeout(60)


def trials(out: Path) -> list[TrialFolder]:
    return [record.folder for record in load_records(out)]


def queued(cluster: Cluster) -> list[str]:
    return cluster.ask("squeue", "-h", "-r", "-o", "%i").split()


def job_of(folder: TrialFolder) -> str:
    note = read_note(folder)
    assert note is not None
    return note.job


def running(cluster: Cluster, out: Path) -> list[TrialFolder]:
    """The trials that have begun and not ended."""
    return [each for each in trials(out) if starts(each) and not (each.path / "span.json").exists()]


def test_all_at_once_and_each_once(cluster: Cluster, weird_tmp_path: Path) -> None:
    said: list[Progress] = []
    study = study_of(2, ends=("well", "fails", "dies"), seconds=0.3)
    first = run_study(study, weird_tmp_path, on_progress=said.append)
    assert (first.planned, first.ran, first.done, first.exit_code) == (6, 6, 2, 1)
    assert [event.kind for event in said].count("end") == 6
    assert {re.sub(r"job \d+_\d", "job N", reason) for reason in first.failed.values()} == {
        "Slurm job N ended with exit status 1: ValueError: this trial was asked to fail",
        "Slurm job N was killed by SIGKILL, most often because memory ran out: set mem in [slurm], "
        "or try a smaller batch",
    }
    folders = trials(weird_tmp_path)
    assert len({job_of(folder).partition("_")[0] for folder in folders}) == 1  # an array
    spans = [json.loads(p.read_text()) for p in weird_tmp_path.glob("trials/*/span.json")]
    assert max(began for began, _ in spans) < min(ended for _, ended in spans)
    done = next(folder for folder in folders if folder.done.exists())
    assert done.log.read_text() == "a line of the user's own\n"
    assert not done.claim.exists()
    second = run_study(study, weird_tmp_path)
    assert (second.ran, second.done) == (4, 2)
    assert sorted(map(starts, folders)) == [1, 1, 2, 2, 2, 2]


def test_one_trial_from_python(cluster: Cluster, tmp_path: Path) -> None:
    spec = TrialSpec(workload="study_parts:Quick", parameters={"number": 1, "seconds": 0.0, "ends": "well"})
    launcher = "tests.launch.slurm_parts:QuickSlurm"
    record = run(spec, out=tmp_path, launcher=launcher)
    assert (record.state, starts(record.folder)) == ("done", 1)
    assert "_" not in job_of(record.folder)


def test_ctrl_c_cancels_and_the_same_command_goes_on(cluster: Cluster, tmp_path: Path) -> None:
    study = study_of(6, seconds=1.5)
    with start(study, tmp_path) as process:
        line_of(process, "start")
        until(lambda: bool(running(cluster, tmp_path)), "a worker is under way")
        process.send_signal(signal.SIGINT)
        assert process.wait() == 130
    assert queued(cluster) == []
    begun = [folder for folder in trials(tmp_path) if starts(folder)]
    assert 0 < len(begun) <= 4  # there are four cores
    assert {json.loads(f.failed.read_text())["state"] for f in begun} == {"interrupted"}
    # What never began is as if it had not been asked for.
    waited = [f for f in trials(tmp_path) if not f.job.exists()]
    assert len(waited) >= 2
    assert not any(f.failed.exists() or f in begun for f in waited)
    assert not list(tmp_path.glob("trials/*/running.json"))
    summary = run_study(study_of(6, seconds=1.5), tmp_path)
    assert (summary.done, summary.ran) == (6, 6)
    assert [starts(f) for f in begun] == [2] * len(begun)


def test_a_study_that_is_killed_or_hung_up_leaves_jobs_that_the_next_one_takes_over(
    cluster: Cluster, tmp_path: Path
) -> None:
    study = study_of(5, seconds=2.0)
    with start(study, tmp_path) as process:
        line_of(process, "start")
        process.kill()
    jobs = {folder.path.name: job_of(folder) for folder in trials(tmp_path)}
    with start(study, tmp_path) as process:
        line_of(process, "note  going on with jobs in the queue")
        process.send_signal(signal.SIGHUP)
        assert process.wait() == 128 + signal.SIGHUP
    # Two at a time find the same jobs.
    with start(study, tmp_path) as one, start(study, tmp_path) as two:
        assert [line_of(each, "RAN") for each in (one, two)] == ["RAN 0\n", "RAN 0\n"]
        assert (one.wait(), two.wait()) == (0, 0)
    assert {folder.path.name: job_of(folder) for folder in trials(tmp_path)} == jobs
    assert [starts(folder) for folder in trials(tmp_path)] == [1] * 5


def test_two_studies_that_begin_together_ask_once(cluster: Cluster, tmp_path: Path) -> None:
    study = study_of(4, seconds=0.5)
    with start(study, tmp_path) as one, start(study, tmp_path) as two:
        counts = [int(line_of(process, "RAN").split()[1]) for process in (one, two)]
        assert (one.wait(), two.wait()) == (0, 0)
    assert sorted(counts) == [0, 4]
    assert [starts(folder) for folder in trials(tmp_path)] == [1] * 4
    assert len(list((tmp_path / "jobs").glob("*.sh"))) == 1


def test_jobs_that_somebody_else_cancels_are_told_and_run_by_the_next_command(
    cluster: Cluster, tmp_path: Path
) -> None:
    study = study_of(6, seconds=1.0, at_once=2)
    with start(study, tmp_path) as process:
        line_of(process, "start")
        until(lambda: bool(running(cluster, tmp_path)), "a worker is under way")
        began = running(cluster, tmp_path)[0]
        last = max(cluster.ask("squeue", "-h", "-r", "-t", "PENDING", "-o", "%i").split())
        cluster.ask("scancel", job_of(began), last)
        assert line_of(process, "RAN") == "RAN 6\n"
        assert process.wait() == 1
    assert json.loads(began.failed.read_text())["state"] == "interrupted"
    (waited,) = (folder for folder in trials(tmp_path) if job_of(folder) == last)
    never = json.loads(waited.failed.read_text())
    assert (never["state"], never["reason"]) == (
        "interrupted",
        f"Slurm job {last} is not known to Slurm any more: it was cancelled, or ended long ago",
    )
    summary = run_study(study_of(6, seconds=1.0), tmp_path)
    assert (summary.done, summary.ran) == (6, 2)
    assert {folder.path.name: starts(folder) for folder in trials(tmp_path)} == {
        folder.path.name: 2 if folder == began else 1 for folder in trials(tmp_path)
    }


def test_a_job_that_is_requeued_goes_on(cluster: Cluster, tmp_path: Path) -> None:
    study = study_of(1, seconds=2.0)
    with start(study, tmp_path) as process:
        line_of(process, "start")
        until(lambda: bool(running(cluster, tmp_path)), "a worker is under way")
        (folder,) = trials(tmp_path)
        job = job_of(folder)
        cluster.ask("scontrol", "requeue", job)
        assert f"job {job} of {folder.path.name} waits to run again" in line_of(
            process, "note " + folder.path.name
        )
        assert line_of(process, "RAN") == "RAN 1\n"
        assert process.wait() == 0
    assert (job_of(folder), starts(folder)) == (job, 2)
    assert json.loads((folder.path / "attempts/1/failed.json").read_text())["state"] == "interrupted"
    assert not folder.failed.exists()


def test_a_node_that_dies_is_told_and_its_trial_runs_on_another(cluster: Cluster, tmp_path: Path) -> None:
    study = study_of(1, seconds=3.0)
    with start(study, tmp_path) as process:
        line_of(process, "start")
        until(lambda: bool(running(cluster, tmp_path)), "a worker is under way")
        (folder,) = trials(tmp_path)
        node = cluster.ask("squeue", "-h", "-o", "%N").strip()
        assert node in NODES
        cluster.lose_node(node)
        try:
            said = line_of(process, "note " + folder.path.name)
            assert f"waits to run again: node {node} is down (Not responding)" in said
            assert line_of(process, "RAN") == "RAN 1\n"
            assert process.wait() == 0
        finally:
            cluster.start_node(node)
            until(lambda: cluster.idle() == len(NODES), "both nodes are idle again", seconds=30.0)
    assert (starts(folder), folder.done.exists(), folder.claim.exists()) == (2, True, False)


@pytest.mark.parametrize(
    ("workers", "by"), [(1, "Slurm"), pytest.param(4, "torchrun", marks=pytest.mark.slow)]
)
def test_every_worker_knows_its_place(cluster: Cluster, weird_tmp_path: Path, workers: int, by: str) -> None:
    """Two nodes, and on each a torchrun that finds the other, where there are more workers than one."""
    study = study_of(1, launcher="Ranks", nodes=min(workers, 2))
    study = msgspec.structs.replace(study, knobs={"workers": workers})
    summary = run_study(study, weird_tmp_path)
    assert summary.failed == {}
    (folder,) = trials(weird_tmp_path)
    said = [json.loads((folder.path / f"rank-{rank}.json").read_text()) for rank in range(workers)]
    assert [(each["rank"], each["world"], each["by"]) for each in said] == [
        (rank, workers, by) for rank in range(workers)
    ]
    assert len({(each["node"], each["local_rank"]) for each in said}) == workers
    assert len({each["node"] for each in said}) == min(workers, 2)


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_two_nodes_train_together_and_go_on_after_scancel(cluster: Cluster, tmp_path: Path) -> None:
    """The real worker under torchrun on each node; both lie on one machine, so one meter serves both."""
    alone = Study(
        name="alone",
        workload="tests.train.rank_parts:Slow",
        knobs={**KNOBS, "workers": 2, "epochs": 12, "checkpoint_steps": 3},
        devices=("estimate",),
    )
    assert run_study(alone, tmp_path / "alone").failed == {}
    both = msgspec.structs.replace(
        alone, name="both", launcher="slurm", options={"ask_every_s": 0.2, "nodes": 2}
    )
    with start(both, tmp_path / "both") as process:
        line_of(process, "start")
        (folder,) = trials(tmp_path / "both")
        until(lambda: bool(list(folder.checkpoint.glob("*/rank-1.json"))), "both are saved", seconds=60.0)
        cluster.ask("scancel", job_of(folder))
        assert process.wait(60.0) == 1
    assert not folder.done.exists()
    summary = run_study(both, tmp_path / "both")
    assert summary.failed == {}
    assert {record.state for record in ranks.read(folder)} == {"done"}
    assert {record.local_rank for record in ranks.read(folder)} == {0}, "one worker a node"
    (wanted,) = trials(tmp_path / "alone")
    told = [
        [(line["epoch"], line["loss"]) for line in store.read_lines(each.metrics)]
        for each in (folder, wanted)
    ]
    assert told[0] == told[1]
    assert store.read_json(folder.result, Result).repeats[0].restarts == 1


def test_a_cap_is_put_back_when_its_job_is_cancelled(
    cluster: Cluster, machine: Machine, tmp_path: Path
) -> None:
    """The real worker, whose job's script and starter are told to end at the same moment."""
    before = machine.state()
    study = Study(
        name="capped",
        workload="tests.train.caps_parts:Endless",
        launcher="slurm",
        knobs={**POWER, "power_limit": "400", "epochs": 10_000},
        devices=machine.devices,
        options={"ask_every_s": 0.2},
    )
    with start(study, tmp_path / "study", **machine.environment()) as process:
        line_of(process, "step")  # an epoch has ended
        assert machine.state()["gpu 0"] == 400_000
        (folder,) = trials(tmp_path / "study")
        cluster.ask("scancel", job_of(folder))
        until(lambda: machine.state() == before, "the cap is as it was", seconds=5.0)
        assert line_of(process, "RAN") == "RAN 1\n"
        assert process.wait() == 1
    assert json.loads(folder.failed.read_text())["reason"] == "stopped by SIGTERM"
    assert folder.result.exists()
    assert b'"progress"' not in folder.log.read_bytes()
    assert LeaseFolder(machine.leases).leases() == []


def test_what_sbatch_refuses_is_said_with_its_cure(cluster: Cluster, tmp_path: Path) -> None:
    with pytest.raises(
        TrialError, match=r"sbatch refuses: .*invalid partition.*\n  cure: set partition in \[slurm"
    ):
        run_study(study_of(2, partition="none"), tmp_path)
    with pytest.raises(TrialError, match=r"(?i)sbatch refuses: .*more processors.*\n  cure: ask for less"):
        run_study(study_of(1, nodes=5), tmp_path)
    assert queued(cluster) == []
    # Nothing is left of it.
    assert run_study(study_of(2), tmp_path).done == 2


@pytest.mark.slow
def test_a_time_limit_that_is_reached_is_said(cluster: Cluster, tmp_path: Path) -> None:
    study = study_of(1, seconds=60.0, launcher="Impatient")
    summary = run_study(study, tmp_path)
    (folder,) = trials(tmp_path)
    # Asked to end before the limit, the worker has marked the trial itself.
    assert list(summary.failed.values()) == ["stopped"]
    assert json.loads(folder.failed.read_text())["state"] == "interrupted"


def test_a_node_that_does_not_see_the_folder(cluster: Cluster, tmp_path: Path) -> None:
    queue = Slurm()
    folder = TrialFolder(tmp_path / "trials" / "gone")
    (notes,) = queue.submit({folder: 1}, jobs=tmp_path / "jobs", name="gone-1")
    note = notes[folder]
    until(lambda: queue.look([note])[note].phase == OVER, "the job is over")
    state = queue.look([note])[note]
    assert (
        queue.why(note, state, said="")
        == f"the node {state.nodes} does not see the folder: use one that the nodes share"
    )
    assert "gone cannot be written on" in queue.output(note, jobs=tmp_path / "jobs").read_text()


def test_a_job_that_is_forgotten_or_of_another_cluster_is_over(cluster: Cluster, tmp_path: Path) -> None:
    notes = [JobNote(scheduler="slurm", job="999999"), JobNote(scheduler="slurm", job="1", name="another")]
    assert {state.phase for state in Slurm().look(notes).values()} == {OVER}


def test_a_controller_that_does_not_answer_is_no_reason_to_give_up_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cluster: Cluster
) -> None:
    silent = tmp_path / "slurm.conf"
    text = cluster.configuration.read_text()
    silent.write_text(re.sub(r"SlurmctldPort=\d+", "SlurmctldPort=1", text) + "MessageTimeout=2\n")
    monkeypatch.setenv("SLURM_CONF", str(silent))
    began_s = time.monotonic()
    with pytest.raises(NoAnswerError, match=r"the controller of Slurm does not answer: .*\n  cure: `sinfo`"):
        Slurm().look([])
    assert time.monotonic() - began_s < 30.0


def test_no_slurm_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(
        TrialError, match="there is no command 'sbatch' here\n  cure: run this on a login node"
    ):
        run_study(study_of(1), tmp_path / "study")
    assert not list(StudyFolder(tmp_path / "study").trials.glob("*/job.json"))
    assert [path.name for path in (tmp_path / "study" / "jobs").iterdir()] == ["1.sh"]
