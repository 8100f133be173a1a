# SPDX-License-Identifier: Apache-2.0
"""`joulelab caps`: power caps that trials set on this machine."""

from __future__ import annotations

import sys

import typer

from joulelab.cli.options import DevicesOption  # noqa: TC001  typer reads it

caps = typer.Typer(help="Power caps that trials set on this machine.", rich_markup_mode=None)


@caps.callback(invoke_without_command=True)
def caps_default(context: typer.Context) -> None:
    """Power caps that trials set on this machine. Without a command: show them."""
    if context.invoked_subcommand is None:
        caps_show(device=None)


@caps.command("show")
def caps_show(*, device: DevicesOption = None) -> None:
    """Show the cap of each device: in force, range, who holds it, what a trial that was killed left."""
    from joulelab.hardware.find_caps import find_caps
    from joulelab.knobs.lease import lease_folder
    from joulelab.report import caps as report

    found = find_caps("", tuple(device or ()))
    print(report.text(found, folder=lease_folder()))
    found.close()


@caps.command("restore")
def caps_restore() -> None:
    """Put back what trials that were killed left, as every command does; 1 if something could not be.

    Caps of trials that run are left alone. For administrators: a line of a scheduler's epilog.
    """
    from joulelab.knobs import put_back
    from joulelab.knobs.lease import lease_folder

    sys.exit(0 if put_back.repair(lease_folder(), say=print) else 1)
