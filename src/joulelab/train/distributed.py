# SPDX-License-Identifier: Apache-2.0
"""Workers that train together: one process a device, gradients averaged while others are still made.

Started by torchrun, or by anything that sets the same variables. NCCL between GPUs, gloo otherwise.
"""

from __future__ import annotations

import datetime as dt
import os
import socket
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
import torch
from torch import distributed, nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel

from joulelab.errors import TrialError
from joulelab.knobs.sharing import processes_of
from joulelab.train.clocks import Offset, offset
from joulelab.train.ranks import Ranks
from joulelab.train.trace import Trace

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from joulelab.records.parameter import Scalar

# A worker may read files for long while the others wait for it; one that dies is noticed at once.
PATIENCE = dt.timedelta(minutes=30)
HANGING_UP = ("Connection closed by peer", "Connection reset by peer", "Broken pipe")
VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def join(knobs: Mapping[str, Scalar], environment: Mapping[str, str] = os.environ) -> Ranks:
    """This process's place among the workers that `knobs` asks for; where that is one, it is alone."""
    wanted, there = processes_of(knobs), int(environment.get("WORLD_SIZE") or 1)
    if wanted != there:
        raise TrialError(
            f"workers = {wanted}, and {there} {'process was' if there == 1 else 'processes were'} started",
            cure="launcher = 'local' starts them; or torchrun --nproc-per-node with just that number",
        )
    if wanted == 1:
        return Ranks()
    missing = [name for name in VARIABLES if not environment.get(name)]
    if missing:
        raise TrialError(f"{', '.join(missing)} not set", cure="start the workers with torchrun")
    return Group(environment)


def agree(ranks: Ranks, said: str, *, what: str) -> None:
    """An error in all workers where they do not say the same."""
    heard = ranks.texts(said)
    other = next((rank for rank, words in enumerate(heard) if words != heard[0]), None)
    if other is not None:
        raise TrialError(
            f"the workers differ in {what}: the first has {heard[0] or 'none'}, worker {other} has "
            f"{heard[other] or 'none'}",
            cure="give all machines the same environment and the same files",
        )


def rank_here(environment: Mapping[str, str] = os.environ) -> int:
    """Which of the workers this process is, before they have met."""
    return int(environment.get("RANK") or 0)


def device_of(ranks: Ranks) -> torch.device:
    if isinstance(ranks, Group):
        return ranks.device
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def gone(error: BaseException) -> bool:
    """Whether this is what a worker hears when another one ends in the middle of a conversation."""
    said = str(error)
    heard = isinstance(error, RuntimeError) and any(words in said for words in HANGING_UP)
    return heard or isinstance(error, distributed.DistError)


class Group(Ranks):
    """All workers of a trial."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        super().__init__()
        self.rank, self.count = int(environment["RANK"]), int(environment["WORLD_SIZE"])
        self.local_rank = int(environment["LOCAL_RANK"])
        self.device = _device(self.local_rank, int(environment["LOCAL_WORLD_SIZE"]))
        self._parallel: DistributedDataParallel | None = None
        self._hears: list[Callable[[torch.Tensor], None]] = []
        try:
            distributed.init_process_group(
                "nccl" if self.device.type == "cuda" else "gloo",
                timeout=PATIENCE,
                device_id=self.device if self.device.type == "cuda" else None,
            )
        except (RuntimeError, ValueError) as error:
            raise TrialError(
                f"the workers did not find each other at {environment['MASTER_ADDR']}:"
                f"{environment['MASTER_PORT']}: {str(error).splitlines()[0]}",
                cure="see that no other job uses that port, and that the machines reach each other",
            ) from error
        # Words and clocks go by the host; a GPU is for gradients.
        self._side = distributed.new_group(backend="gloo") if self.device.type == "cuda" else None
        self.hosts = tuple(self.texts(socket.gethostname()))

    # ---- words and numbers ---------------------------------------------------------------------------------

    def add(self, sums: torch.Tensor) -> torch.Tensor:
        distributed.all_reduce(sums)
        return sums

    def any(self, flag: bool) -> bool:  # noqa: FBT001  a question has one argument
        return bool(self.add(torch.tensor([float(flag)], device=self.device)).item())

    def same(self, figures: Mapping[str, float]) -> dict[str, float]:
        values = torch.tensor(list(figures.values()), dtype=torch.float64, device=self.device)
        if len(values):
            distributed.broadcast(values, 0)
        return dict(zip(figures, values.tolist(), strict=True))

    def texts(self, text: str) -> list[str]:
        # Lengths first; then all are as long as the longest. Objects would have to be pickled.
        said = torch.frombuffer(bytearray(text.encode()), dtype=torch.uint8) if text else None
        own = torch.tensor([0 if said is None else len(said)])
        lengths = [torch.zeros_like(own) for _ in range(self.count)]
        distributed.all_gather(lengths, own, group=self._side)
        longest = max(1, *(int(length.item()) for length in lengths))
        padded = torch.zeros(longest, dtype=torch.uint8)
        if said is not None:
            padded[: len(said)] = said
        heard = [torch.zeros_like(padded) for _ in range(self.count)]
        distributed.all_gather(heard, padded, group=self._side)
        return [
            bytes(line[: int(length.item())].numpy()).decode()
            for line, length in zip(heard, lengths, strict=True)
        ]

    # ---- gradients -----------------------------------------------------------------------------------------

    def spread(self, model: nn.Module) -> None:
        inner = _Inner(model)
        # What the wrapper does first is to compare shapes, and to wait for all: a worker that still reads its
        # files is waited for here.
        with self.trace.collective("broadcast"):
            self._parallel = parallel = DistributedDataParallel(
                inner,
                device_ids=[self.device.index] if self.device.type == "cuda" else None,
                gradient_as_bucket_view=True,
            )
        if type(self.trace) is not Trace:
            self._hook(parallel)

        def call(*given: Any, **named: Any) -> Any:
            learning = model.training and torch.is_grad_enabled()
            return (parallel if learning else inner)(*given, **named)

        # Where compiled code has its place, too: the model stays what it is for whoever asks for its parts.
        model._compiled_call_impl = call  # noqa: SLF001

    def listen(self, hear: Callable[[torch.Tensor], None]) -> None:
        assert self._parallel is not None
        if not self._hears and type(self.trace) is Trace:
            self._hook(self._parallel)
        self._hears.append(hear)

    def _hook(self, parallel: DistributedDataParallel) -> None:
        """Be there when gradients are averaged. A wrapper takes one hook, once."""
        group, hears, trace = distributed.group.WORLD, self._hears, self.trace
        assert group is not None

        # The wrapper knows the second argument by its name, and refuses an annotation that is text.
        def averaged(_, bucket):  # type: ignore[no-untyped-def]
            for hear in hears:
                hear(bucket.buffer())
            done = trace.bucket(bucket.index(), bucket.buffer().nbytes)
            mean = default_hooks.allreduce_hook(group, bucket)
            return mean if done is None else mean.then(partial(_done, done))

        parallel.register_comm_hook(None, averaged)

    def last_of_step(self, last: bool) -> None:  # noqa: FBT001  as above
        if self._parallel is not None:
            self._parallel.require_backward_grad_sync = last

    def average(self, gradients: Sequence[torch.Tensor]) -> None:
        for gradient in gradients:
            distributed.all_reduce(gradient)
            gradient.div_(self.count)

    def clock(self) -> Offset:
        leaders = [rank for rank, host in enumerate(self.hosts) if host not in self.hosts[:rank]]
        # All workers of a machine read the same clock, and know what its first one found.
        own = offset(self.rank, leaders, self._side) if self.rank in leaders else None
        said = self.texts(msgspec.json.encode(own).decode())
        leader = self.hosts.index(self.hosts[self.rank])
        return msgspec.json.decode(said[leader], type=Offset)

    def release(self, model: nn.Module) -> None:
        self._parallel = None
        self._hears = []
        model._compiled_call_impl = None  # noqa: SLF001


def _done(done: Callable[[], None], mean: torch.futures.Future[torch.Tensor]) -> torch.Tensor:
    done()
    return mean.value()


class _Inner(nn.Module):
    """The model, compiled or not, for the wrapper to call."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self._call: Callable[..., Any] = model._compiled_call_impl or model._call_impl  # noqa: SLF001

    def forward(self, *given: Any, **named: Any) -> Any:
        return self._call(*given, **named)


def _device(local_rank: int, local_count: int) -> torch.device:
    if not torch.cuda.is_available():
        return torch.device("cpu")
    found = torch.cuda.device_count()
    if local_count > found:
        raise TrialError(
            f"{local_count} workers and {found} GPU{'s' * (found != 1)} on this machine",
            cure=f"workers = {found}, more machines, or emulated = true",
        )
    torch.cuda.set_device(local_rank)
    return torch.device("cuda", local_rank)
