# SPDX-License-Identifier: Apache-2.0
"""Workers are killed at random moments, with their guardians and without: every cap is as it was before."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from joulelab.errors import InputError
from joulelab.knobs import guardian
from joulelab.knobs.guardian import DONE, READY
from joulelab.records.process import started
from tests.fakes.caps import Machine
from tests.knobs.violence import BY_THE_NEXT, WAYS, round_of

SEED = 20261119
FAST, SLOW, BATCH = 12, 200, 10
NEXT = [sys.executable, "-m", "joulelab", "caps", "restore"]


def rounds(first: int, count: int, *, path: Path, libraries: tuple[Path, Path]) -> None:
    """Each on a machine of its own. Setting a board takes 20 ms, so that moments fall into it too."""
    said = []
    for number in range(first, first + count):
        made = Machine.make(path / str(number), nvml_library=libraries[0], shim=libraries[1], set_ms=20)
        outcome = round_of(made, way=WAYS[number % len(WAYS)], seed=SEED + number, next_command=NEXT)
        if outcome.wrong:
            said.append(f"round {number}: {outcome}")
        if folder := os.environ.get("VIOLENCE_OUT"):  # for whoever wants the figures
            with Path(folder, f"{os.getpid()}.txt").open("a", encoding="utf-8") as file:
                file.write(f"{number} {outcome}\n")
    assert not said, "\n".join(said)


def test_every_cap_is_as_it_was_however_the_worker_ends(
    cap_libraries: tuple[Path, Path], tmp_path: Path
) -> None:
    rounds(0, FAST, path=tmp_path, libraries=cap_libraries)


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("first", range(0, SLOW, BATCH))
def test_two_hundred_times(first: int, cap_libraries: tuple[Path, Path], tmp_path: Path) -> None:
    rounds(first, BATCH, path=tmp_path, libraries=cap_libraries)


def test_a_round_finds_a_cap_that_stays(cap_libraries: tuple[Path, Path], tmp_path: Path) -> None:
    """With worker and guardians dead and no next command, it must be found wanting."""
    for number in range(10):
        made = Machine.make(tmp_path / str(number), nvml_library=cap_libraries[0], shim=cap_libraries[1])
        outcome = round_of(made, way="guardians and worker", seed=number, next_command=["true"])
        if outcome.in_force:
            assert "not as before" in outcome.wrong
            return
    pytest.fail("no round came while a cap was in force")


def test_there_is_a_round_for_every_way() -> None:
    assert len(WAYS) <= FAST
    assert set(WAYS) > BY_THE_NEXT


def test_it_leaves_when_told_that_all_is_done_and_hears_no_other_request(tmp_path: Path) -> None:
    ward = subprocess.Popen(["sleep", "30"])
    watch = subprocess.Popen(
        [sys.executable, "-m", "joulelab.knobs.guardian", tmp_path, str(ward.pid), started(ward.pid)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert watch.stdout is not None
        assert watch.stdout.readline() == READY
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            watch.send_signal(number)
        with pytest.raises(subprocess.TimeoutExpired):
            watch.wait(0.3)
        watch.communicate(DONE, timeout=10)
        assert watch.returncode == 0
        assert ward.poll() is None
    finally:
        for process in (ward, watch):
            process.kill()
            process.communicate()


def test_it_is_light() -> None:
    code = "import sys, joulelab.knobs.guardian; print(*sorted({m.partition('.')[0] for m in sys.modules}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    strangers = set(done.stdout.split()) - sys.stdlib_module_names - {"joulelab", "__main__"}
    # What the installation itself loads (an editable install, a coverage tool) is not the guardian's.
    bare = subprocess.run(
        [sys.executable, "-c", "import sys; print(*{m.partition('.')[0] for m in sys.modules})"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert strangers <= set(bare.stdout.split())


@pytest.mark.parametrize("arguments", [[], ["folder"], ["folder", "x", "1"]])
def test_it_wants_to_know_whom(arguments: list[str]) -> None:
    with pytest.raises(InputError, match="a folder, a process and its start are wanted"):
        guardian.main(arguments)
