# SPDX-License-Identifier: Apache-2.0
"""What Slurm's commands say, read; and commands that refuse, are silent, or hang."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from joulelab.errors import TrialError
from joulelab.launch.queue import OVER, RUNNING, WAITING, NoAnswerError
from joulelab.launch.slurm_commands import (
    STUCK,
    call,
    environment,
    parse_fields,
    parse_max_array,
    parse_squeue,
    parse_submitted,
    phase_of,
    waiting_cure,
)

if TYPE_CHECKING:
    from pathlib import Path

SQUEUE = """\
12_3|RUNNING|demo-1a|n1|None
12_4|PENDING|demo-1a||Resources
12_5|PENDING|demo-1a||(ReqNodeNotAvail, UnavailableNodes:n[1-2]|x)
13|NODE_FAIL|demo-1a|n2|NodeDown
garbage
"""


def test_squeue() -> None:
    found = {job: state for job, _, state in parse_squeue(SQUEUE)}
    assert [(job, s.phase, s.nodes, s.reason) for job, s in found.items()] == [
        ("12_3", RUNNING, "n1", ""),
        ("12_4", WAITING, "", "Resources"),
        ("12_5", WAITING, "", "(ReqNodeNotAvail, UnavailableNodes:n[1-2]|x)"),
        ("13", OVER, "n2", "NodeDown"),
    ]


@pytest.mark.parametrize(
    ("state", "phase"),
    [
        ("PENDING", WAITING),
        ("CONFIGURING", WAITING),
        ("REQUEUE_HOLD", WAITING),
        ("RUNNING", RUNNING),
        ("COMPLETING", RUNNING),
        ("SUSPENDED", RUNNING),
        ("A_STATE_OF_TOMORROW", RUNNING),
        ("COMPLETED", OVER),
        ("NODE_FAIL", OVER),
        ("PREEMPTED", OVER),
        ("TIMEOUT", OVER),
    ],
)
def test_phases(state: str, phase: str) -> None:
    assert phase_of(state) == phase


def test_other_outputs() -> None:
    assert parse_submitted("123\n") == "123"
    assert parse_submitted("a notice of the site\n123;east\n") == "123"
    with pytest.raises(TrialError, match="sbatch names no job: ''"):
        parse_submitted("\n")
    fields = parse_fields("JobId=7 JobName=a=b JobState=FAILED Reason=None ExitCode=73:0\n")
    assert (fields["JobState"], fields["ExitCode"], fields["JobName"]) == ("FAILED", "73:0", "a=b")
    assert parse_max_array("MaxArraySize            = 500\n") == 500
    assert parse_max_array("") == 1001


def test_what_does_not_end_by_itself() -> None:
    assert waiting_cure("Priority") == waiting_cure("") == ""
    assert waiting_cure("(PartitionNodeLimit)") == waiting_cure("PartitionNodeLimit")
    assert all(waiting_cure(reason).startswith(": this does not end by itself: ") for reason in STUCK)


def fake(folder: Path, text: str) -> str:
    path = folder / "squeue"
    path.write_text(f"#!/bin/bash\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_a_command_that_hangs_is_given_up_in_time(tmp_path: Path) -> None:
    began_s = time.monotonic()
    with pytest.raises(NoAnswerError, match=r"gave no answer within 0.2 s\n  cure: `sinfo` says whether"):
        call([fake(tmp_path, "exec sleep 30")], timeout_s=0.2)
    assert time.monotonic() - began_s < 10.0


@pytest.mark.parametrize(
    ("said", "kind", "words"),
    [
        ("slurm_load_jobs error: Unable to contact slurm controller", NoAnswerError, "does not answer"),
        ("slurm_load_jobs error: Socket timed out on send/recv operation", NoAnswerError, "does not answer"),
        ("sbatch: error: invalid partition specified: x", TrialError, r"refuses: .*\n  cure: set partition"),
        ("sbatch: error: Invalid account or account/partition", TrialError, r"refuses: .*\n  cure: set "),
        (
            "sbatch: error: QOSMaxSubmitJobPerUserLimit, job submit limit",
            TrialError,
            "wait until jobs of yours",
        ),
        ("", TrialError, "refuses: exit status 1"),
    ],
)
def test_what_a_command_says_before_it_fails(
    tmp_path: Path, said: str, kind: type[TrialError], words: str
) -> None:
    with pytest.raises(kind, match=words) as refused:
        call([fake(tmp_path, f"echo '{said}' >&2; exit 1")])
    assert type(refused.value) is kind


def test_a_job_around_this_process_hands_nothing_down(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_CPUS_PER_TASK", "3")
    monkeypatch.setenv("SLURM_CONF", "/some/slurm.conf")
    kept = environment()
    assert "SLURM_CPUS_PER_TASK" not in kept
    assert kept["SLURM_CONF"] == "/some/slurm.conf"
