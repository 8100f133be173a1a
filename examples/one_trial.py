# SPDX-License-Identifier: Apache-2.0
"""One trial of a built-in workload from Python: what was asked, what it cost, what was learnt."""

import sys
from pathlib import Path

import joulelab

out = Path(sys.argv[1] if len(sys.argv) > 1 else "runs/one-trial")
spec = joulelab.TrialSpec(
    workload="nt3",
    parameters={"scale": 0.002},
    knobs={"batch_size": 40, "epochs": 1, "learning_rate": 0.02, "precision": "fp32"},
)
record = joulelab.run(spec, out=out)
for repeat in record.result.repeats:
    phases = ", ".join(f"{name} {phase.energy_j:.1f} J" for name, phase in repeat.phases.items())
    print(f"{record.state}: {repeat.total.energy_j:.1f} J ({record.result.source}): {phases}")
