# SPDX-License-Identifier: Apache-2.0
"""The command `joulelab`.

Parse, call, print. What it does stands in the rooms; each command imports its own.
"""

from __future__ import annotations

import errno
import inspect
import io
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from joulelab.cli.caps import caps
from joulelab.cli.data import data
from joulelab.cli.options import METERS, DevicesOption
from joulelab.errors import InputError, JouleLabError

if TYPE_CHECKING:
    from joulelab.records.parameter import Parameter

app = typer.Typer(
    name="joulelab",
    help="What deep-learning training costs in joules, seconds and accuracy, and what to change.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

app.add_typer(data, name="data")
app.add_typer(caps, name="caps")


def main() -> None:
    """Entry of the console script: errors made on purpose end in words, not in a traceback."""
    _open_streams()
    try:
        app(prog_name="joulelab")
    except JouleLabError as error:
        sys.stdout.flush()
        print(f"joulelab: {error}", file=sys.stderr)
        sys.exit(2 if isinstance(error, InputError) else 1)
    except OSError as error:
        if error.errno not in {errno.ENOSPC, errno.EDQUOT}:
            raise
        print(f"joulelab: the output cannot be written: {error.strerror}", file=sys.stderr)
        sys.exit(1)


def _open_streams() -> None:
    """What goes to a stream that the caller has closed goes nowhere, and its number to no other file."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("r" if name == "stdin" else "w"))  # noqa: SIM115  as long as the process
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A letter that the terminal's encoding lacks, such as the one before an error, costs no table.
        sys.stdout.reconfigure(errors="backslashreplace")


@app.callback(invoke_without_command=True)
def version(
    context: typer.Context,
    *,
    show: Annotated[
        bool, typer.Option("--version", help="Print the version and leave.", is_eager=True)
    ] = False,
) -> None:
    """What deep-learning training costs in joules, seconds and accuracy, and what to change."""
    if show:
        import joulelab

        print(joulelab.__version__)
        raise typer.Exit
    if context.invoked_subcommand not in {None, "caps"}:
        from joulelab.knobs import put_back
        from joulelab.knobs.lease import lease_folder

        put_back.repair(lease_folder(), say=_warn)


@app.command(context_settings={"allow_interspersed_args": False})
def measure(
    command: Annotated[
        list[str], typer.Argument(metavar="-- CMD ...", help="The command and its arguments.")
    ],
    *,
    name: Annotated[str, typer.Option(help="Name of the window; the command's own by default.")] = "",
    out: Annotated[
        Path | None, typer.Option(help="Trial folder to write; a new one under runs/ by default.")
    ] = None,
    device: DevicesOption = None,
    idle: Annotated[
        float, typer.Option(help="Seconds of idle power to record first; 0 for none.", min=0.0, max=3600.0)
    ] = 0.5,
) -> None:
    """Run any command and say what it cost. Output, signals and exit status are the command's own."""
    from joulelab.launch import measured
    from joulelab.records import store
    from joulelab.report import summary

    folder = out or store.new_folder(Path("runs"), name or Path(command[0]).name)
    result = measured.measure_command(
        command, out=folder, name=name, devices=tuple(device or ()), idle_s=idle
    )
    if result.reason:
        measured.tell(f"joulelab: {result.reason}")
    title = name or Path(command[0]).name
    # On stderr, so that the command's own stdout can be piped on as if nobody had measured it.
    measured.tell(summary.text(result.total(), title=title, folder=folder))
    measured.leave_with(result.exit_code)


def run(workload: str, **options: Any) -> None:
    """Train one workload as one trial. Every knob is a flag; what is not given is the recipe's own."""
    from joulelab.knobs import KNOBS
    from joulelab.records import store
    from joulelab.report import progress, table
    from joulelab.study import check
    from joulelab.study.run import run as run_trial

    out: Path | None = options.pop("out")
    launcher: str = options.pop("launcher")
    given: dict[str, object] = {**check.named_values(options.pop("set") or ())}
    given |= {name: value for name, value in options.items() if value is not None}
    plain: dict[str, Any] = {name: given.pop(name) for name in ("repeats", "warmup", "seed")}
    spec = check.trial_spec(
        workload,
        parameters={name: value for name, value in given.items() if name not in KNOBS and name != "device"},
        knobs={name: value for name, value in given.items() if name in KNOBS},
        devices=tuple(options["device"] or ()),
        **plain,
    )
    check.launcher_of(launcher)
    folder = out or store.new_folder(Path("runs"), workload.rpartition(":")[2])
    with progress.live() as on_progress:
        record = run_trial(spec, out=folder, launcher=launcher, on_progress=on_progress)
    print(table.text([record]))
    print(f"record: {folder}")
    if record.state != "done":
        sys.exit(1)


def _run_signature() -> inspect.Signature:
    """The flags of `run`, made from the declarations: a new knob or workload parameter is a flag unasked."""
    from joulelab.knobs import KNOBS
    from joulelab.launch import LAUNCHERS
    from joulelab.records import plugin
    from joulelab.study.check import parameters_by_name
    from joulelab.workloads import RECIPES

    declared: list[Parameter] = [plugin.load(KNOBS, name, what="knob").parameter for name in KNOBS]
    kinds: dict[str, type] = {"int": int, "float": float, "str": str, "bool": bool}
    options = [_option(p.name, kinds[p.kind] | None, None, f"{p.help} [{p.legal()}]") for p in declared]
    for name, owners in parameters_by_name().items():
        kind = {kinds[parameter.kind] for parameter in owners.values()}
        said = {f"{parameter.help} [{parameter.legal()}]" for parameter in owners.values()}
        text = said.pop() if len(said) == 1 else "differs from workload to workload: docs/workloads.md"
        only = f"{', '.join(owners)}: " if len(owners) < len(RECIPES) else ""
        options.append(_option(name, (kind.pop() if len(kind) == 1 else str) | None, None, only + text))
    options += [
        _option(
            "set", list[str] | None, None, "NAME=VALUE for a parameter of a plug-in; repeat for several."
        ),
        _option("repeats", int, 1, "Measured passes from fresh weights."),
        _option("warmup", int, 0, "Passes before them, left out of every mean."),
        _option("seed", int, 0, "Seed of the first measured pass."),
        _option("out", Path | None, None, "Trial folder to write; a new one under runs/ by default."),
        _option("launcher", str, "local", f"Where it runs: {', '.join(LAUNCHERS)}."),
        _option("device", list[str] | None, None, METERS),
    ]
    names = typer.Argument(
        help=f"What to train: {', '.join(RECIPES)}, or package.module:Class.", show_default=False
    )
    first = inspect.Parameter(
        "workload", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=Annotated[str, names]
    )
    return inspect.Signature([first, *options])


def _option(name: str, kind: object, default: object, text: str) -> inspect.Parameter:
    option = typer.Option(f"--{name.replace('_', '-')}", help=text, show_default=default is not None)
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, option]
    )


@app.command()
def study(
    file: Annotated[Path, typer.Argument(help="The study, a TOML file.", show_default=False)],
    *,
    out: Annotated[Path | None, typer.Option(help="Folder of the study; runs/NAME by default.")] = None,
    small: Annotated[bool, typer.Option("--small", help="Its small variant; in runs/NAME-small.")] = False,
    given: Annotated[
        list[str] | None,
        typer.Option("--set", help="NAME=VALUE of what the study does not vary, such as data=/path/to/it."),
    ] = None,
) -> None:
    """Run every trial of a study that is not done yet. The same command goes on after any interruption."""
    from joulelab.report import progress
    from joulelab.study import check, runner, study_file

    asked = study_file.read_study(file, small=small, given=check.named_values(given or ()))
    folder = out or Path("runs") / asked.name
    with progress.live() as on_progress:
        summary = runner.run_study(asked, folder, on_progress=on_progress)
    print(_table(folder))
    print(summary.text())
    print(f"record: {folder}")
    sys.exit(summary.exit_code)


@app.command()
def show(
    folder: Annotated[
        Path, typer.Argument(help="A trial, a study, or a folder of those.", show_default=False)
    ],
    *,
    sort: Annotated[str, typer.Option(help="Column to sort by; -COLUMN for the largest first.")] = "",
    json: Annotated[bool, typer.Option("--json", help="JSON instead of a table.")] = False,
    csv: Annotated[bool, typer.Option("--csv", help="CSV instead of a table.")] = False,
    loading: Annotated[
        bool, typer.Option("--loading", help="What each CSV loader costs by phase, and what it saves.")
    ] = False,
    scaling: Annotated[
        bool, typer.Option("--scaling", help="What more workers gain, in seconds and in joules.")
    ] = False,
    workers: Annotated[
        bool,
        typer.Option(
            "--workers", help="Of one trial, or of a timeline that Horovod wrote: where workers' time went."
        ),
    ] = False,
    against: Annotated[
        str,
        typer.Option(
            metavar="KEY=VALUE[,...]",
            help="Compare with the trials that have these settings; by default those that the study names.",
        ),
    ] = "",
) -> None:
    """Show the trials of a folder: energy with its error and source, time, accuracy, joules by phase."""
    from joulelab.records import store
    from joulelab.report import against as comparison
    from joulelab.report import loading as loaders
    from joulelab.report import scaling as gains
    from joulelab.report import table

    if workers:
        from joulelab.records.layout import TrialFolder
        from joulelab.report import horovod
        from joulelab.report import workers as each

        if folder.is_file():
            print((horovod.to_json if json else horovod.to_csv if csv else horovod.text)(folder))
        else:
            print((each.to_json if json else each.to_csv if csv else each.text)(TrialFolder(folder)))
        return
    records = store.load_records(folder)
    if loading or scaling:
        of = loaders if loading else gains
        print((of.to_json if json else of.to_csv if csv else of.text)(records))
    elif against and (json or csv):
        print((comparison.to_json if json else comparison.to_csv)(records, comparison.parse(against)))
    elif json or csv:
        print((table.to_json if json else table.to_csv)(records, sort=sort))
    else:
        print(_table(folder, sort=sort, against=against))


def _table(folder: Path, *, sort: str = "", against: str = "") -> str:
    from joulelab.records import store
    from joulelab.report import against as comparison
    from joulelab.study import plan

    study = plan.study_at(folder)
    return comparison.with_table(
        store.load_records(folder),
        asked=against,
        said=study.against if study else {},
        sort=sort,
        apart=plan.strangers_below(folder),
        lists=study.grid if study else {},
    )


@app.command()
def doctor(
    *,
    json: Annotated[bool, typer.Option("--json", help="JSON instead of text.")] = False,
    seconds: Annotated[
        float, typer.Option(help="How long each sensor is watched.", min=0.05, max=3600.0)
    ] = 1.0,
    calibrate: Annotated[
        bool,
        typer.Option(
            "--calibrate",
            help="Keep each GPU busy in bursts for under a minute, see which of its sensors can be trusted "
            "and how far, and keep that for the meters on this machine.",
        ),
    ] = False,
    device: DevicesOption = None,
) -> None:
    """Say which sensors this machine has, how fine each is, what is missing, and what would mend it."""
    if calibrate:
        from joulelab.hardware import calibrate as calibration
        from joulelab.report import calibration as words

        seen = calibration.calibrate(names=tuple(device or ()))
        print(words.json(seen) if json else words.text(seen))
        if not seen.cards or any(card.verdict is None for card in seen.cards):
            raise typer.Exit(1)
        return
    from joulelab.hardware import doctor as examination
    from joulelab.report import doctor as report

    found = examination.examine(names=tuple(device or ()), seconds=seconds)
    print(report.json(found) if json else report.text(found))


def _warn(words: str) -> None:
    print(f"joulelab: {words}", file=sys.stderr)


setattr(run, "__signature__", _run_signature())  # noqa: B010  typer reads the flags from here
app.command()(run)
