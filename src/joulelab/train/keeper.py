# SPDX-License-Identifier: Apache-2.0
"""One repeat with checkpoints: taken up where an earlier attempt left it, and saved as it goes.

A checkpoint is taken between two optimizer steps. The state is copied on the thread that trains; a thread of
its own asks what the kept work has cost, and writes.
"""

from __future__ import annotations

import signal
import socket
import time
from typing import TYPE_CHECKING, Any

import msgspec
import torch

from joulelab.errors import TrialError
from joulelab.meter.sums import SHORT, SHORT_ESTIMATE
from joulelab.records.measurement import Measurement
from joulelab.train import checkpoint_file as file
from joulelab.train import checkpoint_state
from joulelab.train.checkpoint_state import Copies, Parts, State
from joulelab.train.job import add_up, noted

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from joulelab.records.trial import Repeat
    from joulelab.train.checkpoint import Checkpoints
    from joulelab.train.job import Job

TORCH = str(torch.__version__)
AGREE_STEPS = 8  # between two comparisons: each is a message that all workers wait for
STOP_S = 15.0  # for the last step, and the checkpoint after it, once somebody has asked to stop


class Spent(msgspec.Struct, kw_only=True):
    """What one attempt has cost a repeat up to a checkpoint."""

    total: Measurement
    phases: dict[str, Measurement]


class Keeper:
    """The neutral one: an epoch's batches are those of the workload, and nothing is written."""

    first_epoch = 1
    time_s = 0.0  # of this repeat, in earlier attempts

    def __init__(self, parts: Parts) -> None:
        self.parts = parts

    def batches(self, epoch: int) -> Iterator[Any]:
        """The batches of the epoch. Between two of them is the moment for a checkpoint."""
        yield from self.parts.waiting.over(self.parts.workload.batches(epoch, self.parts.orders[0]))

    def finished(self, repeat: Repeat) -> Repeat:
        """The repeat with what its earlier attempts did and cost."""
        return repeat


def keeper(job: Job, parts: Parts) -> Keeper:
    """What the loop asks, with the repeat put back to its last checkpoint if there is one."""
    return Keeper(parts) if job.checkpoints is None else Saving(job, job.checkpoints, parts)


class Saving(Keeper):
    """One repeat with checkpoints: taken up where an earlier attempt left it, and saved as it goes."""

    def __init__(self, job: Job, checkpoints: Checkpoints, parts: Parts) -> None:
        super().__init__(parts)
        self._job = job
        self._all = checkpoints
        self._copies = Copies()
        self._rank, self._ranks = job.setting.rank, job.setting.ranks
        self._kept: dict[int, Spent] = {}
        self._notes: list[str] = []
        self._taken = 0
        self._held_ns = 0
        self._stop = False  # somebody has asked one of the workers to
        self._skip = 0  # batches of the first epoch that were done before
        self._orders: list[torch.Tensor] = []  # what that epoch was drawn from
        self._random: State = {}
        self._marks = {name: list(mark) for name, mark in parts.workload.marks().items()}
        self._take_up()
        self._step = parts.precision.attempted
        self._saved_s = time.monotonic()
        # From here on a request to stop waits for the next step.
        checkpoints.stopping.patience_s = STOP_S

    # ---- going on ------------------------------------------------------------------------------------------

    def _take_up(self) -> None:
        chosen = self._chosen()
        if chosen is None:
            return
        folder, seal = chosen
        of_all = file.read(folder, 0)
        of_rank = file.read(folder, self._rank) if self._rank else of_all
        self._restore(of_all, of_rank, seal)
        self._all.say(
            f"repeat {self._job.index} goes on from {folder.name}: epoch {self.first_epoch}, "
            f"{self._skip} batches done"
        )

    def _chosen(self) -> tuple[Path, file.Seal] | None:
        """The latest whole checkpoint. The first of several workers looks, and all take what it found."""
        found = self._latest() if not self._rank else None
        name = self._job.ranks.texts(found[0].name if found else "")[0]
        if not name:
            return None
        folder = self._all.root / name
        return found or (folder, file.seals(folder)[0])

    def _latest(self) -> tuple[Path, file.Seal] | None:
        for folder in file.found(self._all.root, repeat=self._job.index):
            try:
                seals = file.seals(folder)
                self._check(seals[0])
                file.read(folder, 0)
            except file.Torn as torn:
                self._all.say(f"{folder.name} is passed over, the checkpoint before it is taken: {torn}")
                file.remove(folder)
                continue
            return folder, seals[0]
        return None

    def _check(self, seal: file.Seal) -> None:
        root = self._all.root
        self._all.must_be_of(seal.spec)
        if seal.ranks != self._ranks:
            raise TrialError(
                f"the checkpoint was written by {seal.ranks} workers, and this is a run of {self._ranks}",
                cure=f"start it with {seal.ranks} workers, or remove {root} to begin anew",
            )
        if seal.torch.partition(".")[0] != TORCH.partition(".")[0]:
            raise TrialError(
                f"the checkpoint was written by torch {seal.torch}, and this is torch {TORCH}",
                cure=f"install torch {seal.torch.partition('.')[0]} again, or remove {root} to begin anew",
            )
        if seal.torch != TORCH:
            self._notes.append(f"begun with torch {seal.torch}, ended with torch {TORCH}")

    def _restore(self, of_all: State, of_rank: State, seal: file.Seal) -> None:
        self._compare(of_all["marks"])
        try:
            with self.parts.phases("restore"):
                checkpoint_state.put_back(self.parts, of_all=of_all["shared"], of_rank=of_rank["own"])
        except (RuntimeError, ValueError, TypeError, LookupError) as error:
            # Whole, and of this trial: then the code of the workload has changed since.
            words = " ".join(str(error).split())[:300]
            raise TrialError(
                f"the checkpoint does not fit this workload any more: {type(error).__name__}: {words}",
                cure=f"go back to the code that it was written by, or remove {self._all.root} to begin anew",
            ) from error
        self.first_epoch, self._skip = of_rank["epoch"], of_rank["batches"]
        self._orders, self._random = of_rank["orders"], of_rank["own"]
        self._kept = {int(number): msgspec.convert(spent, Spent) for number, spent in of_all["kept"].items()}
        self._taken, self._held_ns = of_all["taken"], of_all["held_ns"]
        if of_all["host"] != socket.gethostname():
            self._notes.append(f"begun on {of_all['host']}, ended on {socket.gethostname()}")
        self._notes += [note for note in of_all["notes"] if note not in self._notes]
        self.time_s = sum(spent.total.time_s for spent in self._kept.values())
        for line in of_all["lines"]:
            self._all.epoch(line)

    def _compare(self, before: dict[str, list[int]]) -> None:
        for name in sorted({*before, *self._marks}):
            was, is_now = before.get(name, []), self._marks.get(name, [])
            if was[:1] != is_now[:1]:
                sizes = " and now ".join(str(mark[0]) if mark else "none" for mark in (was, is_now))
                raise TrialError(
                    f"the data have changed since the checkpoint: {name} had the size {sizes}",
                    cure=f"put the data back, or remove {self._all.root} to begin anew",
                )
            if was != is_now:
                self._notes.append(f"{name} is as long as when the training began, and was written since")

    def batches(self, epoch: int) -> Iterator[Any]:
        parts, done = self.parts, 0
        for generator, state in zip(parts.orders, self._orders, strict=False):
            generator.set_state(state)
        orders = [generator.get_state() for generator in parts.orders]
        given = parts.waiting.over(parts.workload.batches(epoch, parts.orders[0]))
        waited_s = parts.waiting.time_s
        while done < self._skip and next(given, self) is not self:
            done += 1
        if self._orders:
            # Drawing the same batches again was no waiting of the training.
            parts.waiting.restore(waited_s)
            checkpoint_state.put_back_random(self._random)
            self._orders, self._skip, self._random = [], 0, {}
        for batch in given:
            yield batch
            done += 1
            began_ns = time.monotonic_ns()
            if parts.precision.between_steps and self._due():
                self.save(epoch, done, orders)
                self._held_ns += time.monotonic_ns() - began_ns
                if self._stop:
                    self._all.writer.wait()
                    self._all.stopping.stop(signal.SIGTERM)

    # ---- saving --------------------------------------------------------------------------------------------

    def _due(self) -> bool:
        step = self.parts.precision.attempted
        by_steps = 0 < self._all.steps <= step - self._step
        if self._ranks > 1 and not by_steps and step % AGREE_STEPS:
            return False  # clocks and requests differ between workers: they are compared now and then
        by_time = 0 < self._all.every_s <= time.monotonic() - self._saved_s
        asked, by_time, busy = self._agreed(bool(self._all.stopping.asked), by_time, self._all.writer.busy)
        self._stop = asked
        if asked:
            self._all.writer.wait()
            return True
        # While the last one is being written the next waits, and the training does not.
        return (by_steps or by_time) and not busy

    def _agreed(self, *here: bool) -> list[bool]:
        """For each question whether any worker says yes."""
        if self._ranks == 1:
            return list(here)
        told = torch.tensor([float(each) for each in here], device=self._job.setting.device)
        return [bool(each) for each in self._job.ranks.add(told).tolist()]

    def save(self, epoch: int, done: int, orders: list[torch.Tensor]) -> None:
        parts, step = self.parts, self.parts.precision.attempted
        self._step, self._saved_s = step, time.monotonic()
        state: State = {"own": checkpoint_state.own(parts), "orders": orders}
        if not self._rank:
            state["shared"] = checkpoint_state.shared(parts)
        copied = self._copies.take(state)
        # The device has come to the end of the step, and what was drawn until now is what the state cost.
        now_ns = time.monotonic_ns()
        self._taken += 1
        content: State = {
            **copied,
            "epoch": epoch,
            "batches": done,
            "marks": self._marks,
            "host": socket.gethostname(),
            "lines": [dict(line) for line in self._all.lines],
            "notes": list(self._notes),
            "taken": self._taken,
            "held_ns": self._held_ns,
        }
        seal = file.Seal(
            spec=self._all.spec,
            torch=TORCH,
            repeat=self._job.index,
            step=step,
            rank=self._rank,
            ranks=self._ranks,
        )
        windows = parts.phases.opened()

        def write() -> None:
            kept = self._kept if self._rank else {**self._kept, self._all.ledger.attempt: spent()}
            content["kept"] = {number: msgspec.to_builtins(each) for number, each in kept.items()}
            file.write(self._all.root, seal, content)
            if not self._rank:
                # Of several workers another may still be writing the last one.
                keep = self._all.keep + (self._ranks > 1)
                file.prune(self._all.root, repeat=self._job.index, keep=keep)

        def spent() -> Spent:
            by_phase: dict[str, list[Measurement]] = {}
            for name, window in windows:
                by_phase.setdefault(name, []).append(window.until(now_ns))
            phases = {name: add_up(costs) for name, costs in by_phase.items()}
            return Spent(total=parts.whole.until(now_ns), phases=phases)

        self._all.writer.start(write)

    # ---- the end -------------------------------------------------------------------------------------------

    def finished(self, repeat: Repeat) -> Repeat:
        self._all.stopping.patience_s = 0.0
        self._all.writer.wait()
        kept = list(self._kept.values())
        phases = {name: [measured] for name, measured in repeat.phases.items()}
        for spent in kept:
            for name, measured in spent.phases.items():
                phases.setdefault(name, []).append(measured)
        totals = {number: spent.total for number, spent in self._kept.items()}
        if totals and len(set(self._job.ranks.hosts)) > 1:
            self._notes.append("restarted: of earlier attempts only the first machine's energy is known")
        return msgspec.structs.replace(
            repeat,
            total=noted(_long(add_up([repeat.total, *totals.values()])), self._notes),
            phases={name: add_up(costs) for name, costs in phases.items()},
            restarts=self._all.ledger.restarts(repeat.index),
            lost=self._all.ledger.lost(repeat.index, totals),
            checkpoints=self._taken,
            checkpoint_s=self._held_ns * 1e-9,
        )


def _long(total: Measurement) -> Measurement:
    """Without what is said of a short part of it, where the whole is long enough."""
    if total.relative_error() > (SHORT_ESTIMATE if total.source == "estimated" else SHORT):
        return total
    return msgspec.structs.replace(total, flags=tuple(f for f in total.flags if not f.startswith("short:")))
