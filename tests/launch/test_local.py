# SPDX-License-Identifier: Apache-2.0
"""A worker process: its lines are heard, its log kept, its end not missed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from joulelab.launch.local import Local, import_path, lines_until_the_end
from joulelab.launch.progress import Step
from joulelab.launch.turn import turn
from joulelab.records import claim
from joulelab.records.layout import TrialFolder

WORKER = """
import json, os, sys
from pathlib import Path
os.write(1, b'{"progress": {"repeat": 1, "of": 2, "phase": "load", "something_new": 3}}\\nno json\\n')
os.write(1, b'{"progress": {"repeat": "one"}}\\n{"other": 1}\\n\\xff\\xfe\\nno end of line')
os.write(2, b'an error\\n')
Path(sys.argv[1], "seen.json").write_text(json.dumps([os.getpgrp() == os.getpid(), os.getcwd() in sys.path]))
sys.exit(7)
"""


@pytest.fixture
def launcher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Local:
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "some_worker.py").write_text(WORKER)
    monkeypatch.syspath_prepend(str(tmp_path / "modules"))
    local = Local()
    local.module = "some_worker"
    return local


def test_steps_log_and_status(tmp_path: Path, launcher: Local, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = TrialFolder(tmp_path / "a 'trial'")
    folder.path.mkdir()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    steps: list[Step] = []
    assert launcher.run(folder, on_progress=steps.append) == 7
    assert steps == [Step(repeat=1, of=2, phase="load")]
    log = folder.log.read_bytes().splitlines()
    assert sorted(log) == sorted(
        [
            b"no json",
            b'{"progress": {"repeat": "one"}}',
            b'{"other": 1}',
            b"\xff\xfe",
            b"no end of line",
            b"an error",
        ]
    )
    # A group of its own, and no module found by the accident of the current folder.
    assert (folder.path / "seen.json").read_text() == "[true, false]"


def test_the_worker_keeps_the_locks_of_a_runner_that_is_gone(tmp_path: Path, launcher: Local) -> None:
    """Else a runner that was killed with -9 would let the next one train beside its worker."""
    folder = TrialFolder(tmp_path / "trial")
    folder.path.mkdir()
    (tmp_path / "modules" / "some_worker.py").write_text(
        "import sys\nprint('{\"progress\": {}}', flush=True)\nopen(sys.argv[1] + '/go').read()\n"
    )
    os.mkfifo(folder.path / "go")  # the worker waits here
    with turn(folder) as mine:
        assert mine is not None

        def runner_dies(step: Step) -> None:
            del step
            nothing = os.open(os.devnull, os.O_RDONLY)
            os.dup2(nothing, mine)  # the runner's own hold ends, as with its death
            os.close(nothing)
            held.append(claim.is_locked(folder))
            (folder.path / "go").write_text("")

        held: list[bool] = []
        assert launcher.run(folder, on_progress=runner_dies, inherit=(mine,)) == 0
    assert held == [True]
    assert not claim.is_locked(folder)


def test_a_child_that_holds_the_pipe_does_not_hold_the_launcher() -> None:
    code = (
        "import subprocess; print('x', flush=True); subprocess.Popen(['sleep', '30']); print('y', flush=True)"
    )
    began_s = time.monotonic()
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, process_group=0) as process:
        lines = list(lines_until_the_end(process))
        took_s = time.monotonic() - began_s
        os.killpg(process.pid, 9)
    assert lines == [b"x", b"y"]
    assert took_s < 20.0


def test_a_long_output_is_whole() -> None:
    code = "import sys; sys.stdout.write('x' * 300_000 + '\\n' + 'y\\n' * 50_000)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        lines = list(lines_until_the_end(process))
    assert (len(lines), len(lines[0]), lines[-1]) == (50_001, 300_000, b"y")


def test_the_worker_finds_what_this_process_finds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    paths = import_path().split(os.pathsep)
    assert str(tmp_path) in paths
    # Never the interpreter's own: a child of the worker may be another Python.
    assert not any("site-packages" in path or path == str(Path(os.__file__).parent) for path in paths)
