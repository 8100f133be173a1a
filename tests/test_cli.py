# SPDX-License-Identifier: Apache-2.0
"""What the command does with its own streams."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

from tests.analysis.records import repeat, write
from tests.integrations.test_horovod import SHORTENED

if TYPE_CHECKING:
    from pathlib import Path


def test_a_terminal_that_lacks_a_letter_gets_the_table_all_the_same(tmp_path: Path) -> None:
    write(tmp_path / "a", {}, repeat(1, 100.0))
    done = subprocess.run(
        [sys.executable, "-m", "joulelab", "show", str(tmp_path)],
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert r"100.0 \xb15.0 J" in done.stdout


def test_a_full_disk_behind_the_output_is_said_in_words(tmp_path: Path) -> None:
    for number in range(40):
        write(tmp_path / str(number), {"batch_size": number}, repeat(1, 100.0))
    with open("/dev/full", "w") as full:  # noqa: PTH123  a device
        done = subprocess.run(
            [sys.executable, "-m", "joulelab", "show", "--json", str(tmp_path)],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr.startswith("joulelab: the output cannot be written: No space left on device\n")


def test_a_timeline_of_horovod_is_shown_and_another_file_is_refused(weird_tmp_path: Path) -> None:
    shown = [sys.executable, "-m", "joulelab", "show", "--workers"]

    def call(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*shown, *words], capture_output=True, text=True, timeout=60, check=False)

    path = str(weird_tmp_path / "t.json")
    shutil.copy(SHORTENED, path)
    assert "MEMCPY_OUT_FUSION_BUFFER" in call(path).stdout
    assert call(path, "--json").stdout.startswith("{")
    assert call(path, "--csv").stdout.startswith("name,operation,")
    (weird_tmp_path / "t.json").write_text("{}")
    refused = call(path)
    assert refused.returncode == 2
    assert "is no Horovod timeline" in refused.stderr
    assert "Traceback" not in refused.stderr
