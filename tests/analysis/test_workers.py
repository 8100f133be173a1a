# SPDX-License-Identifier: Apache-2.0
"""Where the time of workers went: two by hand, and ten thousand within a bound of time and memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from joulelab.analysis.workers import summary, workers
from joulelab.errors import InputError
from joulelab.records import ranks
from joulelab.records.layout import TrialFolder
from joulelab.report import workers as report
from tests.analysis.records import repeat

MANY = 10_000
ROOT = Path(__file__).parents[2]


def write(folder: TrialFolder, rank: int, time_s: float, *, of: int = 2, state: str = "done") -> None:
    measured = msgspec.structs.replace(repeat(1, 10.0, time_s=time_s), waiting_s=0.5)
    ranks.write(
        folder,
        ranks.RankRecord(
            rank=rank, ranks=of, local_rank=rank % 4, host=f"n{rank // 4}", pid=1, device="cuda", state=state,
            reason="" if state == "done" else "torn", repeats=(measured,),
        ),
    )  # fmt: skip


def test_two_by_hand(tmp_path: Path) -> None:
    folder = TrialFolder(tmp_path)
    write(folder, 0, 10.0)
    write(folder, 1, 20.0, state="failed")
    table = workers(folder)
    assert table["time_s"].to_list() == [10.0, 20.0]
    assert table["load_s"].to_list() == pytest.approx([2.0, 4.0])
    row = summary(table).to_dicts()[0]
    assert (row["what"], row["least_rank"], row["most_rank"]) == ("time", 0, 1)
    assert (row["least_s"], row["median_s"], row["most_s"]) == (10.0, 15.0, 20.0)
    said = report.text(folder, width=100)
    assert "2 workers on 1 machine" in said
    assert "worker 1 on n0: failed: torn" in said
    assert report.to_csv(folder).count("\n") == 2
    assert '"together": []' in report.to_json(folder)


def test_one_process_has_none(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no records of several workers"):
        workers(TrialFolder(tmp_path))


PROGRAM = """
import resource, sys, time
from pathlib import Path
from joulelab.records.layout import TrialFolder
from joulelab.report import workers
folder = TrialFolder(Path(sys.argv[1]))
began_s = time.monotonic()
workers.text(folder)
print(time.monotonic() - began_s, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6)
"""


@pytest.mark.slow
def test_ten_thousand_workers_within_ten_seconds_and_a_gigabyte(tmp_path: Path) -> None:
    folder = TrialFolder(tmp_path)
    write(folder, 0, 10.0, of=MANY)
    text = folder.rank(0).read_text()
    assert text.count('"rank": 0') == 1
    head = '{"schema":1,"kind":"events"}\n'
    for rank in range(MANY):
        folder.rank(rank).write_text(text.replace('"rank": 0', f'"rank": {rank}'))
        lines = [
            f'{{"kind":"collective","name":"allreduce 0","size_b":100,"epoch":1,"step":{step},'
            f'"start_ns":{step * 1000 + rank},"end_ns":{step * 1000 + MANY + 5}}}'
            for step in range(20)
        ]
        folder.events_of(rank).write_text(head + "\n".join(lines) + "\n")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(folder.path)],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    time_s, memory_gb = map(float, done.stdout.split())
    assert time_s < 10.0
    assert memory_gb < 1.0
