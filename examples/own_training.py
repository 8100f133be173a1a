# SPDX-License-Identifier: Apache-2.0
"""Your own training loop, measured: three lines are ours. Run it as it is: python examples/own_training.py"""

import torch

import joulelab

torch.manual_seed(0)
inputs = torch.randn(2048, 64)
labels = (inputs[:, :8].sum(dim=1) > 0).long()
model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

for epoch in range(3):
    with joulelab.measure("epoch") as window:  # ours
        for batch in range(0, len(inputs), 64):
            loss = torch.nn.functional.cross_entropy(
                model(inputs[batch : batch + 64]), labels[batch : batch + 64]
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    accuracy = (model(inputs).argmax(dim=1) == labels).float().mean().item()
    cost = f"{window.energy_j:.1f} J +- {window.energy_error_j:.1f} ({window.source})"  # ours
    print(f"epoch {epoch}: {cost}, {window.time_s:.2f} s, accuracy {accuracy:.3f}")
