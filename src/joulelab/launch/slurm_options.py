# SPDX-License-Identifier: Apache-2.0
"""The table [slurm] of a study file: what may stand in it, and whether it can be right."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from joulelab.errors import InputError, unknown
from joulelab.records.parameter import Parameter

Place = Callable[[str], str]  # from a key to the words that open an error

DECLARED = (
    Parameter(name="partition", kind="str", default="", help="of the cluster; its default if absent"),
    Parameter(name="account", kind="str", default="", help="that pays"),
    Parameter(name="qos", kind="str", default="", help="quality of service"),
    Parameter(name="time_limit", kind="str", default="", help="of one trial"),
    Parameter(name="nodes", kind="int", default=0, minimum=0, help="of one trial; 0: as its workers need"),
    Parameter(name="gpus_per_node", kind="int", default=0, minimum=0, help="of one trial"),
    Parameter(name="cpus_per_task", kind="int", default=0, minimum=0, help="of one trial, a node"),
    Parameter(name="mem", kind="str", default="", help="a node"),
    Parameter(name="exclusive", kind="bool", default=False, help="nobody else on the nodes of a trial"),
    Parameter(name="dependency", kind="str", default="", help="jobs that the trials wait for"),
    Parameter(
        name="at_once", kind="int", default=0, minimum=0, help="trials at the same time; 0: any number"
    ),
    Parameter(name="warn_s", kind="int", default=120, minimum=0, maximum=65535, help="before the time limit"),
    Parameter(name="ask_every_s", kind="float", default=10.0, minimum=0.1, maximum=3600.0, help="the queue"),
    Parameter(name="container", kind="str", default="", help="command that runs another in a container"),
    Parameter(name="python", kind="str", default="", help="interpreter on the nodes; this one if absent"),
)
LISTS = ("modules", "before", "extra")
_WORD = (r"[\w.,:@/+=-]*", "letters, digits and . , : @ / + = _ -")
_FORMS: dict[str, tuple[str, str]] = {
    **dict.fromkeys(("partition", "account", "qos"), _WORD),
    "time_limit": (
        r"|\d+|\d+:\d\d|\d+:\d\d:\d\d|\d+-\d+(:\d\d(:\d\d)?)?",
        'minutes, "hours:minutes:seconds", or "days-hours"; for example "2:00:00"',
    ),
    "mem": (r"(\d+[KMGT]?)?", 'megabytes, or a number with K, M, G or T; for example "64G"'),
    "dependency": (r"([a-z]+:[\d_:+]+|singleton)?([,?]([a-z]+:[\d_:+]+|singleton))*", '"afterok:1234"'),
}


class SlurmOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The table, checked."""

    partition: str = ""
    account: str = ""
    qos: str = ""
    time_limit: str = ""
    nodes: int = 0
    gpus_per_node: int = 0
    cpus_per_task: int = 0
    mem: str = ""
    exclusive: bool = False
    dependency: str = ""
    at_once: int = 0
    warn_s: int = 120
    ask_every_s: float = 10.0
    container: str = ""
    python: str = ""
    modules: tuple[str, ...] = ()
    before: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()

    def nodes_for(self, workers: int) -> int:
        """As many as were asked for, or as hold a worker on each GPU; one where nothing tells."""
        if self.nodes:
            return self.nodes
        return -(-workers // self.gpus_per_node) if self.gpus_per_node else 1


def check_options(given: Mapping[str, object], *, workers: Sequence[int], place: Place) -> dict[str, Any]:
    """The table as it is kept, or an InputError. `workers` are the numbers that trials of the study want."""
    declared = {parameter.name: parameter for parameter in DECLARED}
    kept: dict[str, Any] = {}
    for key, value in given.items():
        if key in LISTS:
            kept[key] = _lines(key, value, where=place(key))
        elif key in declared:
            kept[key] = _text(key, declared[key].check(value, where=place(key)), where=place(key))
        else:
            raise unknown("key", key, (*declared, *LISTS), where=place(key))
    options = msgspec.convert(kept, SlurmOptions)
    for number in sorted(set(workers)):
        nodes = options.nodes_for(number)
        if number % nodes:
            legal = [str(n) for n in range(1, number + 1) if number % n == 0]
            raise InputError(
                f"{place('nodes')}: {number} workers do not spread evenly over {nodes} nodes",
                cure=f"set nodes to one of {', '.join(legal)}, or change workers",
            )
    return kept


def _text(key: str, value: Any, *, where: str) -> Any:
    """It becomes part of a line of a script: one line, and one word where it is a name."""
    if not isinstance(value, str):
        return value
    form, legal = _FORMS.get(key, (r"[^\n\r\0]*", "one line of text"))
    if not re.fullmatch(form, value, re.ASCII if key in _FORMS else 0):
        raise InputError(f"{where}: {key} = {value!r} is not legal", cure=f"legal: {legal}")
    if key == "container":
        try:
            shlex.split(value)
        except ValueError as error:
            raise InputError(
                f"{where}: container = {value!r}: {error}", cure="close the quotes, as in a shell"
            ) from error
    return value


def _lines(key: str, value: object, *, where: str) -> list[str]:
    legal = {
        "modules": 'names, as `module load` takes them: ["cuda/12.4"]',
        "before": 'lines of bash: ["source env.sh"]',
        "extra": 'options of sbatch: ["--constraint=a100"]',
    }[key]
    if not isinstance(value, list | tuple):
        raise InputError(f"{where}: {key} = {value!r} is not a list", cure=f"legal: a list of {legal}")
    for line in value:
        fine = isinstance(line, str) and line and not re.search(r"[\n\r\0]", line)
        if not fine or (key == "extra" and not line.startswith("-")):
            raise InputError(f"{where}: {key} holds {line!r}", cure=f"legal: a list of {legal}")
    return list(value)
