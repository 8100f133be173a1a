# SPDX-License-Identifier: Apache-2.0
"""The checks of conftest.py find what they are there for, and cost little."""

from __future__ import annotations

import statistics
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from tests import conftest

LEAKS = {
    "child processes left behind": "import subprocess; subprocess.Popen(['sleep', '2'])",
    "threads left behind": "import threading, time; threading.Thread(target=time.sleep, args=[1]).start()",
    "environment changed: ['LEAK']": "import os; os.environ['LEAK'] = '1'",
    "left in folder": "import os; os.chdir('/')",
    "files left at the top of the repository: ['leak.txt']": "(conftest.ROOT / 'leak.txt').touch()",
    "processes that outlived the tests": (
        "import subprocess; subprocess.run('setsid sleep 3 >/dev/null 2>&1 &', shell=True, check=True)"
    ),
}


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What pytest says of tests that leak, in a repository of their own."""
    root = tmp_path_factory.mktemp("repository")
    (root / "tests").mkdir()
    text = Path(conftest.__file__).read_text(encoding="utf-8").replace("GRACE_S = 3.0", "GRACE_S = 0.3")
    (root / "tests" / "conftest.py").write_text(text, encoding="utf-8")
    tests = "".join(f"def test_{n}():\n    {leak}\n" for n, leak in enumerate(LEAKS.values()))
    (root / "tests" / "test_leaks.py").write_text(f"import conftest\n{tests}", encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "/dev/null", "tests"]
    # Into a file: what leaks keeps a pipe open, and the reader of one would wait for it.
    with (root / "output.txt").open("w", encoding="utf-8") as file:
        run = subprocess.run(command, stdout=file, stderr=file, timeout=50, check=False, cwd=root)
    said = (root / "output.txt").read_text(encoding="utf-8")
    assert run.returncode == 1, said
    return said


@pytest.mark.parametrize("said", LEAKS)
def test_a_leak_is_found(said: str, output: str) -> None:
    assert said in output


def test_the_checks_cost_little() -> None:
    spent = []
    for _ in range(20):
        start = time.perf_counter()
        for _ in range(2):
            conftest.children()
            conftest.lasting_threads()
            conftest.variables()
            conftest.names_at_root()
        spent.append(time.perf_counter() - start)
    assert statistics.median(spent) < 0.005


def test_weird_path_is_weird(weird_tmp_path: Path) -> None:
    assert all(mark in str(weird_tmp_path) for mark in " '\"%$")
    assert weird_tmp_path.is_dir()


def test_marked_finds_a_process_by_its_mark(tmp_path: Path) -> None:
    script = tmp_path / "waits.py"
    script.write_text(
        textwrap.dedent("""
        import sys
        print("ready", flush=True)
        sys.stdin.read()
    """),
        encoding="utf-8",
    )
    command = [sys.executable, str(script)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, env={"MARK": "x-71"}, **pipes) as process:  # type: ignore[call-overload]
        assert process.stdout.readline()
        assert list(conftest.marked("MARK=x-71")) == [process.pid]
        process.stdin.close()
    assert not conftest.marked("MARK=x-71")
