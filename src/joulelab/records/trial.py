# SPDX-License-Identifier: Apache-2.0
"""What a trial is: what was asked, and what came of it."""

from __future__ import annotations

import hashlib
import re

import msgspec

from joulelab.records.layout import SCHEMA
from joulelab.records.measurement import Measurement
from joulelab.records.parameter import Scalar


class TrialSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What was asked of one trial.

    Two specs with equal content are the same trial, whatever the order of keys.
    """

    workload: str
    parameters: dict[str, Scalar] = {}  # what the workload is given: scale, data
    knobs: dict[str, Scalar] = {}  # what is varied and put back: batch_size, precision, loader
    repeats: int = 1
    warmup: int = 0  # repeats that run first and are left out of every mean
    seed: int = 0
    command: tuple[str, ...] = ()  # for a command that is measured from outside
    devices: tuple[str, ...] = ()  # empty: whatever the machine has
    small: bool = False  # of the small variant of a study: it shows the way, its figures are not the study's
    schema: int = SCHEMA

    def identity(self) -> str:
        """Eight hex digits of the content."""
        content = msgspec.json.encode(self, order="deterministic")
        if not self.small:
            # As it was before there were small variants: what is done already stays done.
            fields = msgspec.json.decode(content, type=dict[str, msgspec.Raw])
            del fields["small"]
            content = msgspec.json.encode(fields)
        return hashlib.sha256(content).hexdigest()[:8]

    def folder_name(self) -> str:
        """Readable, unique, and safe as a file name whatever the values hold."""
        parts = [self.workload.rpartition(":")[2]]
        parts += ["small"] if self.small else []
        parts += [f"{key}={value}" for key, value in sorted(self.knobs.items())]
        slug = re.sub(r"[^A-Za-z0-9_.=+-]+", "_", "-".join(parts)).strip("._")[:100]
        return f"{slug}-{self.identity()}"


class Repeat(msgspec.Struct, frozen=True, kw_only=True):
    """One pass from fresh weights: its total, its phases, and what was learnt."""

    index: int
    seed: int
    warmup: bool
    total: Measurement
    phases: dict[str, Measurement]
    samples: int  # training samples processed
    epochs: int
    metrics: dict[str, float] = {}  # at the end: loss, accuracy, val_loss, val_accuracy
    task: str = "train"  # or inference: then `samples` are those of the passes, and nothing was trained
    waiting_s: float | None = None  # for the next batch, over all epochs; None where nobody looked
    target: str = ""  # what ends the training early, as it was asked for
    reached: bool | None = None  # whether it was reached: if so, `total` is what it cost; None without target
    skipped_steps: int = 0
    restarts: int = 0  # how often it went on from a checkpoint, or began anew, after its process had gone
    lost: Measurement | None = (
        None  # drawn in those processes for work that had to be done again; not in `total`
    )
    checkpoints: int = 0  # written in it
    checkpoint_s: float | None = (
        None  # how long the training stood still for them; None where none was asked for
    )
    valid: bool = True
    reason: str = ""  # why it is not valid


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """How a trial ended. The totals, under the names of `Measurement`, cover all of it, warm-up included."""

    state: str  # done | failed | interrupted
    time_s: float
    energy_j: float | None
    energy_error_j: float | None
    energy_j_by_device: dict[str, float] = {}
    power_w: float | None = None
    source: str = "counter"
    resolution_s: float = 0.0
    flags: tuple[str, ...] = ()
    valid: bool = True
    reason: str = ""
    exit_code: int = 0
    restarts: int = 0  # of its repeats
    lost: Measurement | None = None  # of its repeats; the totals are without it, and both together were drawn
    repeats: tuple[Repeat, ...] = ()
    schema: int = SCHEMA

    def total(self) -> Measurement:
        return Measurement(**{name: getattr(self, name) for name in Measurement.__struct_fields__})


def result_of(total: Measurement, *, state: str, **rest: object) -> Result:
    """A Result whose totals are those of `total`."""
    return msgspec.convert(
        {**msgspec.structs.asdict(total), "state": state, **rest}, Result, from_attributes=True
    )
