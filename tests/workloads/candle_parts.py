# SPDX-License-Identifier: Apache-2.0
"""What the tests of the three workloads share: a setting, and a training loop without its measurements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from joulelab.workloads.workload import Setting, Workload

if TYPE_CHECKING:
    from pathlib import Path

KNOBS = {"learning_rate": 0.001, "loader": "ours", "precision": "fp32", "threads": 1}


def setting(
    data: Path, *, scale: float, batch_size: int, epochs: int = 1, given: Path | str = "", **more: Any
) -> Setting:
    """`given` is the folder of the files; `more` are parameters where there are such, else knobs."""
    parameters: dict[str, Any] = {"scale": scale, "data": str(given), "recipe": "paper"}
    names = {*parameters, "feature_subsample", "stop_after"}
    parameters |= {name: value for name, value in more.items() if name in names}
    knobs = {**KNOBS, **{name: value for name, value in more.items() if name not in names}}
    return Setting(
        parameters=parameters, knobs={**knobs, "batch_size": batch_size, "epochs": epochs}, data=data
    )


def train(workload: Workload, *, seed: int = 1) -> list[dict[str, float]]:
    """The figures of each epoch: means over the training batches, then what `evaluate` says."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # small layers: more threads only wait for each other, and sum in another order
    try:
        return _train(workload, seed=seed)
    finally:
        torch.set_num_threads(threads)


def _train(workload: Workload, *, seed: int) -> list[dict[str, float]]:
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    workload.prepare()
    workload.load()
    model = workload.model()
    optimizer = workload.optimizer(model)
    found = []
    for epoch in range(1, int(workload.setting.knobs["epochs"]) + 1):
        sums: dict[str, float] = {}
        samples = 0
        model.train()
        for batch in workload.batches(epoch, generator):
            step = workload.loss(model, batch)
            step.loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            optimizer.zero_grad()
            samples += step.samples
            for name, value in {"loss": step.loss, **step.metrics}.items():
                sums[name] = sums.get(name, 0.0) + step.samples * float(value.detach())
        model.eval()
        with torch.no_grad():
            figures = workload.evaluate(model)
        found.append({name: total / samples for name, total in sums.items()} | figures)
    return found


def parameters(model: torch.nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())
