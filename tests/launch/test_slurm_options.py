# SPDX-License-Identifier: Apache-2.0
"""The table [slurm]: refused with file, line, key, legal values and cure, before anything is queued."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from joulelab.errors import InputError
from joulelab.launch.slurm_options import DECLARED, LISTS, SlurmOptions, check_options
from joulelab.study.study_file import parse_study

STUDY = """\
workload = "nt3"
launcher = "slurm"

[slurm]
partition = "gpu"
time_limit = "2:00:00"
nodes = 1
gpus_per_node = 4
modules = ["cuda/12.4"]
extra = ["--constraint=a100"]
"""
PATH = Path("a/demo.toml")


def test_what_is_written_is_kept_with_the_study() -> None:
    study = parse_study(STUDY, path=PATH)
    options = msgspec.convert(study.options, SlurmOptions)
    assert (options.partition, options.nodes, options.modules) == ("gpu", 1, ("cuda/12.4",))
    assert (options.warn_s, options.ask_every_s) == (120, 10.0)
    again = msgspec.json.decode(msgspec.json.encode(study), type=type(study))
    assert msgspec.convert(again.options, SlurmOptions) == options


def test_the_table_is_checked_for_other_launchers_too_and_not_kept() -> None:
    assert parse_study(STUDY.replace('"slurm"\n', '"local"\n'), path=PATH).options == {}
    with pytest.raises(InputError, match="partition = 3 is not legal"):
        parse_study(STUDY.replace('"slurm"\n', '"local"\n').replace('"gpu"', "3"), path=PATH)


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("partition", "partitoin", 5, ["unknown key 'partitoin'", "did you mean 'partition'", "at_once"]),
        ('"gpu"', '"gpu; rm -rf /"', 5, ["partition = 'gpu; rm -rf /' is not legal", "letters, digits"]),
        ('"2:00:00"', '"two hours"', 6, ["time_limit = 'two hours' is not legal", '"2:00:00"']),
        ("nodes = 1", "nodes = -1", 7, ["nodes = -1 is not legal", "at least 0"]),
        ("nodes = 1", "nodes = 2", 7, ["1 workers do not spread evenly over 2 nodes", "one of 1"]),
        ("nodes = 1", 'mem = "64 GB"', 7, ["mem = '64 GB' is not legal", '"64G"']),
        ("nodes = 1", 'dependency = "job 7"', 7, ["dependency = 'job 7' is not legal", "afterok:1234"]),
        ("nodes = 1", 'container = "apptainer \'x"', 7, ["container", "close the quotes"]),
        ("nodes = 1", "ask_every_s = 0.01", 7, ["ask_every_s = 0.01 is not legal", "from 0.1"]),
        ('["cuda/12.4"]', '"cuda"', 9, ["modules = 'cuda' is not a list", "module load"]),
        ('["cuda/12.4"]', "[3]", 9, ["modules holds 3"]),
        ("--constraint", "constraint", 10, ["extra holds 'constraint=a100'", "options of sbatch"]),
        ('"--constraint=a100"', '"--a\\nrm"', 10, ["extra holds '--a\\nrm'"]),
        ("[slurm]", "[local]", 4, ["the launcher 'local' has nothing to set", "leave [local] out"]),
    ],
)
def test_refused(old: str, new: str, line: int, words: list[str]) -> None:
    with pytest.raises(InputError) as refused:
        parse_study(STUDY.replace(old, new, 1), path=PATH)
    assert f"demo.toml:{line}: " in str(refused.value)
    assert [word for word in words if word not in str(refused.value)] == []


@pytest.mark.parametrize("time_limit", ["30", "30:00", "2:00:00", "1-12", "1-12:30", "1-12:30:00"])
def test_every_way_of_writing_a_time(time_limit: str) -> None:
    assert check_options({"time_limit": time_limit}, workers=[1], place=str)["time_limit"] == time_limit


def test_workers_are_spread_over_nodes() -> None:
    options = SlurmOptions(gpus_per_node=4)
    assert [options.nodes_for(workers) for workers in (1, 4, 8, 9)] == [1, 1, 2, 3]
    assert SlurmOptions().nodes_for(16) == 1
    assert SlurmOptions(nodes=2).nodes_for(16) == 2
    with pytest.raises(
        InputError, match=r"nodes: 6 workers do not spread evenly over 4 nodes\n.* 1, 2, 3, 6"
    ):
        check_options({"nodes": 4}, workers=[8, 6], place=str)


def test_what_is_declared_is_what_is_kept() -> None:
    plain = SlurmOptions()
    declared = {parameter.name: parameter.default for parameter in DECLARED}
    assert {**declared, **dict.fromkeys(LISTS, ())} == msgspec.structs.asdict(plain)
