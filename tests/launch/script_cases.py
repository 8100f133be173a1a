# SPDX-License-Identifier: Apache-2.0
"""Jobs whose scripts are kept in `scripts`, as they were once looked at line by line.

Run as a program it writes them anew; what has changed is then for a reader to judge.
"""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, cast

from joulelab.launch.job_script import Work
from joulelab.launch.lsf_script import LsfJob, lsf_script
from joulelab.launch.pbs_script import PbsJob, pbs_script
from joulelab.launch.slurm_script import SlurmJob, slurm_script

if TYPE_CHECKING:
    from collections.abc import Sequence

GOLDEN = Path(__file__).parent / "scripts"
ODD = '/scratch/it\'s a "weird" földer, 100 % of $HOME'


def work(count: int = 1, *, workers: int = 1, nodes: int = 1, container: str = "") -> Work:
    trials: Sequence[PurePosixPath] = [PurePosixPath(ODD, "trials", f"P1B2-{n}") for n in range(count)]
    return Work(
        trials=cast("tuple[Path, ...]", tuple(trials)),
        workers=workers,
        nodes=nodes,
        python="/opt/a venv/bin/python",
        container=container,
        modules=("cuda/12.4",) if workers > 1 else (),
        before=("source ~/env.sh",) if workers > 1 else (),
        import_path="/home/me/my parts" if workers > 1 else "",
    )


CASES = {
    "slurm-one.sh": slurm_script(SlurmJob(name="least", warn_s=0), work()),
    "slurm-array.sh": slurm_script(
        SlurmJob(
            name="demo-1a2b3c",
            account="science",
            partition="gpu",
            qos="normal",
            time_limit="2:00:00",
            gpus_per_node=4,
            cpus_per_task=16,
            mem="64G",
            exclusive=True,
            dependency="afterok:12",
            at_once=2,
            extra=("--constraint=a100",),
        ),
        work(3, workers=8, nodes=2, container='apptainer exec --nv "$HOME/an image.sif"'),
    ),
    "pbs-one.sh": pbs_script(PbsJob(name="least"), work()),
    "pbs-array.sh": pbs_script(
        PbsJob(
            name="demo",
            account="science",
            queue="preemptable",
            time_limit="01:00:00",
            cpus_per_node=64,
            gpus_per_node=4,
            mem="400gb",
            filesystems="home:eagle",
            depth=64,
            dependency="afterok:12",
            at_once=2,
            extra=("-m n",),
        ),
        work(2, workers=8, nodes=2),
    ),
    "lsf-one.sh": lsf_script(LsfJob(name="least", warn_s=0), work()),
    "lsf-array.sh": lsf_script(
        LsfJob(
            name="demo",
            project="science",
            queue="batch",
            time_limit="2:00",
            cpus_per_node=42,
            gpus_per_node=6,
            dependency="done(12)",
            at_once=2,
            extra=("-alloc_flags smt4",),
        ),
        work(2, workers=12, nodes=2),
    ),
}

if __name__ == "__main__":
    for name, text in CASES.items():
        (GOLDEN / name).write_text(text, encoding="utf-8")
