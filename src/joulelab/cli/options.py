# SPDX-License-Identifier: Apache-2.0
"""Options that several commands have."""

from __future__ import annotations

from typing import Annotated

import typer

METERS = "Meter to use (repeat for several): nvidia, rapl, estimate, fake:FILE, replay:FILE."
DevicesOption = Annotated[list[str] | None, typer.Option("--device", help=METERS)]
