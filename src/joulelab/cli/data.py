# SPDX-License-Identifier: Apache-2.0
"""`joulelab data`: stand-ins, and what is kept of files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

data = typer.Typer(help="Files to train on.", no_args_is_help=True, rich_markup_mode=None)


@data.command()
def generate(
    workload: Annotated[
        str, typer.Argument(help="Whose files: nt3, p1b1, p1b2, p1b3, yolo.", show_default=False)
    ],
    *,
    out: Annotated[Path, typer.Option(help="Folder to write; a new or an empty one.", show_default=False)],
    scale: Annotated[
        float,
        typer.Option(
            help="Share of the columns, or of the pictures; 1 gives the published sizes.", min=0.001, max=1.0
        ),
    ] = 1.0,
    seed: Annotated[int, typer.Option(help="The same seed gives the same bytes.", min=0)] = 0,
) -> None:
    """Make stand-ins for the files of a workload: their layout, number formats and sizes, made-up values."""
    from joulelab.data import generate as stand_ins
    from joulelab.report import bar

    with bar.live(f"{workload} to {out}") as progress:
        for path in stand_ins.generate(workload, out, scale=scale, seed=seed, progress=progress):
            print(f"{path}  {path.stat().st_size:,} bytes")


@data.command()
def cache(
    folders: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[FOLDER ...]",
            help="Also what is kept beside the files in these folders.",
            show_default=False,
        ),
    ] = None,
    *,
    show: Annotated[
        bool, typer.Option("--list", help="List what is kept (without --clear, the default).")
    ] = False,
    clear: Annotated[bool, typer.Option("--clear", help="Remove it.")] = False,
) -> None:
    """Show or remove what is kept: tables of `loader = "ours_cached"`, decoded pictures."""
    from joulelab.data import cache_folder
    from joulelab.report.numbers import quantity

    found = cache_folder.below([cache_folder.own(), *(folders or ())])
    if show or not clear:
        for entry in cache_folder.entries(found):
            print(f"{entry.state:9} {quantity(entry.size, 'B'):>8}  {entry.source or entry.path}")
    if clear:
        files, size = cache_folder.clear(found)
        print(f"removed {files} files, {quantity(size, 'B')}")
