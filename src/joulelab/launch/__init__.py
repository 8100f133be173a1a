# SPDX-License-Identifier: Apache-2.0
"""Where a trial runs. A new launcher is one file and one line here."""

LAUNCHERS = {
    "inline": "joulelab.launch.inline:Inline",
    "local": "joulelab.launch.local:Local",
    "slurm": "joulelab.launch.slurm:Slurm",
}
