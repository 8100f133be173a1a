# SPDX-License-Identifier: Apache-2.0
"""A measured command keeps its own output, signals and exit status, and leaves a record of what happened."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from joulelab.errors import InputError, RecordError
from joulelab.launch import measured
from joulelab.meter.meter import Meter
from joulelab.records import claim, store
from joulelab.records.layout import StudyFolder, TrialFolder

if TYPE_CHECKING:
    from pathlib import Path

MEASURE = [sys.executable, "-m", "joulelab", "measure", "--idle", "0"]


def measure(*words: str, folder: Path, text: str = "") -> subprocess.CompletedProcess[str]:
    command = [*MEASURE, "--out", str(folder / "out"), "--", *words]
    return subprocess.run(
        command, input=text, capture_output=True, text=True, timeout=60, check=False, cwd=folder
    )


def test_output_and_input_pass_through_untouched(weird_tmp_path: Path) -> None:
    done = measure("sh", "-c", "cat; echo error >&2", folder=weird_tmp_path, text="hello\n")
    assert done.returncode == 0
    assert done.stdout == "hello\n"
    assert done.stderr.startswith("error\njoulelab: sh\n")
    record = store.load_records(weird_tmp_path / "out")[0]
    assert record.state == "done"
    assert record.spec.command == ("sh", "-c", "cat; echo error >&2")
    assert record.result is not None
    assert record.result.energy_j is not None
    assert [window["name"] for window in record.windows()] == ["sh"]


@pytest.mark.parametrize(
    ("words", "status", "reason"),
    [
        (("sh", "-c", "exit 7"), 7, "exit status 7: sh -c 'exit 7'"),
        (("no-such-command-anywhere",), 127, "no such command: no-such-command-anywhere"),
        (("/",), 126, "/ cannot be executed"),
        (("sh", "-c", "kill -KILL $$"), -signal.SIGKILL, "ended by SIGKILL"),
        (("sh", "-c", "kill -TERM $$"), -signal.SIGTERM, "ended by SIGTERM"),
    ],
)
def test_the_exit_status_is_the_commands_own(
    weird_tmp_path: Path, words: tuple[str, ...], status: int, reason: str
) -> None:
    done = measure(*words, folder=weird_tmp_path)
    assert done.returncode == status
    record = store.load_records(weird_tmp_path / "out")[0]
    assert record.state == "failed"
    assert record.failure["reason"].startswith(reason)
    assert record.result is not None
    assert record.result.valid is False


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1])
def test_a_signal_reaches_the_command(weird_tmp_path: Path, number: signal.Signals) -> None:
    name = number.name.removeprefix("SIG")
    waits = f"trap 'echo got it; exit 9' {name}; echo ready; while :; do sleep 0.05; done"
    process = subprocess.Popen(
        [*MEASURE, "--out", str(weird_tmp_path / "out"), "--", "sh", "-c", waits],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # no terminal in the foreground: nobody else sends the signal on
        # A job in a shell's background starts with SIGINT ignored, and a shell cannot trap what it
        # was born ignoring.
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),  # noqa: PLW1509  this process has one thread
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(number)
    out, _ = process.communicate(timeout=30)
    assert out == "got it\n"
    assert process.returncode == 9


def test_processor_time_of_children_is_counted_once(weird_tmp_path: Path) -> None:
    """Two children of 0.5 s each, in turn.

    An estimate of 1 s of one processor, whatever the tree looks like.
    """
    busy = "import time; t = time.process_time()\nwhile time.process_time() - t < 0.5: pass"
    script = f'for i in 1 2; do {shlex.quote(sys.executable)} -c "{busy}"; done'
    done = measure("sh", "-c", script, folder=weird_tmp_path)
    assert done.returncode == 0, done.stderr
    result = store.load_records(weird_tmp_path / "out")[0].result
    assert result is not None
    if result.source != "estimated":
        pytest.skip("this machine has a sensor: nothing is estimated")
    spent_s = os.times()
    assert result.energy_j is not None
    host = store.load_records(weird_tmp_path / "out")[0].host
    watts = 4.0 if "4 W a thread" in str(host["devices"]) else None
    if watts is None:
        pytest.skip("the table knows this CPU, and its watts a thread are not this test's to repeat")
    assert 1.0 * watts * 0.9 < result.energy_j < 1.6 * watts, spent_s


def test_a_trial_folder_is_not_written_over(weird_tmp_path: Path) -> None:
    assert measure("true", folder=weird_tmp_path).returncode == 0
    again = measure("true", folder=weird_tmp_path)
    assert again.returncode == 1
    assert "already holds a trial" in again.stderr
    with pytest.raises(RecordError, match="already holds a trial"):
        measured.measure_command(["true"], out=weird_tmp_path / "out")


def test_under_nohup_a_closed_terminal_ends_neither(weird_tmp_path: Path) -> None:
    words = [
        *MEASURE,
        "--out",
        str(weird_tmp_path / "out"),
        "--",
        "sh",
        "-c",
        "echo ready; sleep 1; echo end",
    ]
    with subprocess.Popen(
        ["sh", "-c", 'trap "" HUP; exec "$@"', "nohup", *words], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGHUP)
        assert process.stdout.read() == "end\n"
    assert process.returncode == 0


def test_when_it_is_done_nobody_holds_the_folder(weird_tmp_path: Path) -> None:
    measured.measure_command(["true"], out=weird_tmp_path / "out", devices=["estimate"], idle_s=0)
    folder = TrialFolder(weird_tmp_path / "out")
    assert folder.done.exists()
    assert not folder.claim.exists()


def test_a_folder_that_another_process_has_is_not_shared(weird_tmp_path: Path) -> None:
    folder = TrialFolder(weird_tmp_path / "out")
    store.make_folder(folder.path)
    assert claim.take(folder)  # as one does that has not yet come to write its spec
    with pytest.raises(RecordError, match="is being written by another process"):
        measured.measure_command(["true"], out=folder.path)
    assert claim.is_alive(folder)


def test_a_study_does_not_become_a_trial(weird_tmp_path: Path) -> None:
    store.make_folder(weird_tmp_path)
    StudyFolder(weird_tmp_path).study.write_text("{}")
    with pytest.raises(RecordError, match="holds trials already"):
        measured.measure_command(["true"], out=weird_tmp_path)
    assert not TrialFolder(weird_tmp_path).spec.exists()


def test_killed_itself_it_leaves_what_it_had(weird_tmp_path: Path) -> None:
    process = subprocess.Popen(
        [*MEASURE, "--out", str(weird_tmp_path / "out"), "--", "sh", "-c", "echo ready; exec sleep 1.5"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.kill()
    process.wait()
    process.stdout.read()  # until the command, whose output this is, has ended too
    process.stdout.close()
    deadline = time.monotonic() + 5
    while (
        not store.TrialRecord(TrialFolder(weird_tmp_path / "out")).windows() and time.monotonic() < deadline
    ):
        time.sleep(0.02)
    windows = store.load_records(weird_tmp_path / "out")[0].windows()
    assert [window["name"] for window in windows] == ["sh"]
    assert any("interrupted" in flag for flag in windows[0]["flags"])
    assert store.load_records(weird_tmp_path / "out")[0].state == "failed"


def test_refused_before_it_began_it_leaves_no_trial(weird_tmp_path: Path) -> None:
    with pytest.raises(InputError, match="unknown device 'nope'"):
        measured.measure_command(["true"], out=weird_tmp_path / "out", devices=["nope"])
    assert not (weird_tmp_path / "out").exists()


def test_stopped_while_it_idles_the_record_says_so(
    weird_tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(meter: Meter, seconds: float) -> None:
        del meter, seconds
        assert store.load_records(weird_tmp_path / "out")[0].state == "running"
        raise KeyboardInterrupt

    monkeypatch.setattr(Meter, "idle", stop)
    with pytest.raises(KeyboardInterrupt):
        measured.measure_command(["true"], out=weird_tmp_path / "out", devices=["estimate"])
    record = store.load_records(weird_tmp_path / "out")[0]
    assert record.state == "failed"
    assert record.failure["reason"] == "stopped by KeyboardInterrupt"


def test_a_disk_that_is_full_at_the_end_costs_the_file_only(
    weird_tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = store.write_json

    def full(path: Path, content: object) -> None:
        if path.name == "result.json":
            raise RecordError(f"{path} cannot be written: No space left on device")
        whole(path, content)

    monkeypatch.setattr(store, "write_json", full)
    result = measured.measure_command(
        ["sh", "-c", "exit 3"], out=weird_tmp_path / "out", devices=["estimate"], idle_s=0
    )
    assert result.exit_code == 3
    assert result.energy_j is not None
    assert "No space left on device" in capsys.readouterr().err
    assert not (weird_tmp_path / "out" / "done").exists()


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_streams_that_are_closed_are_no_error(weird_tmp_path: Path, closed: str) -> None:
    words = [*MEASURE, "--out", str(weird_tmp_path / "out"), "--", "sh", "-c", "exit 3"]
    done = subprocess.run(
        ["sh", "-c", f"{shlex.join(words)} {closed}"], check=False, timeout=60, capture_output=True
    )
    assert done.returncode == 3
    assert done.stdout == b""
    assert b"Traceback" not in done.stderr


def test_a_reader_that_has_gone_does_not_change_the_exit_status(weird_tmp_path: Path) -> None:
    gone, full = (
        shlex.join([*MEASURE, "--out", str(weird_tmp_path / name), "--", "sh", "-c", "exit 7"])
        for name in ("gone", "full")
    )
    script = f"{gone} 2>&1 | true; echo ${{PIPESTATUS[0]}}; {full} 2>/dev/full; echo $?"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.split() == ["7", "7"]


def test_a_script_that_names_no_program_is_not_said_to_be_missing(weird_tmp_path: Path) -> None:
    script = weird_tmp_path / "script"
    script.write_text("#!/no/such/program\n")
    script.chmod(0o755)
    done = measure("./script", folder=weird_tmp_path)
    assert done.returncode == 127
    assert "./script names a program in its first line that is not there" in done.stderr


def test_any_bytes_may_stand_in_a_command(weird_tmp_path: Path) -> None:
    command = [*MEASURE, "--out", str(weird_tmp_path / "out"), "--", "printf", "%s", os.fsdecode(b"caf\xe9")]
    done = subprocess.run(command, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, b"caf\xe9")
    assert store.load_records(weird_tmp_path / "out")[0].spec.command[2] == "caf\\udce9"


def test_from_a_folder_that_is_gone(weird_tmp_path: Path) -> None:
    (weird_tmp_path / "gone").mkdir()
    words = shlex.join([*MEASURE, "--out", str(weird_tmp_path / "out"), "--", "echo", "ran"])
    script = f"rmdir ../gone; {words}"
    done = subprocess.run(
        ["bash", "-c", script], cwd=weird_tmp_path / "gone", capture_output=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (0, b"ran\n")


def test_of_a_long_script_the_beginning_says_enough(weird_tmp_path: Path) -> None:
    done = measure("sh", "-c", "exit 3\n" + "# more\n" * 1000, folder=weird_tmp_path)
    (said, *_) = done.stderr.splitlines()
    assert said.startswith("joulelab: exit status 3: sh -c 'exit 3 # more")
    assert len(said) < 300
    assert len(store.load_records(weird_tmp_path / "out")[0].spec.command[2]) > 7000
