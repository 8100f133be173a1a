# SPDX-License-Identifier: Apache-2.0
"""What may be varied. A new knob is one class and one line here."""

KNOBS = {
    "accumulate": "joulelab.knobs.recipe:Accumulate",
    "affinity": "joulelab.knobs.affinity:Affinity",
    "batch_rule": "joulelab.knobs.sharing:BatchRule",
    "batch_size": "joulelab.knobs.recipe:BatchSize",
    "compile": "joulelab.knobs.compile:Compile",
    "cpu_power_limit": "joulelab.knobs.cpu_power_limit:CpuPowerLimit",
    "deterministic": "joulelab.knobs.deterministic:Deterministic",
    "emulated": "joulelab.knobs.sharing:Emulated",
    "epochs": "joulelab.knobs.recipe:Epochs",
    "layerwise": "joulelab.knobs.sharing:Layerwise",
    "learning_rate": "joulelab.knobs.recipe:LearningRate",
    "loader": "joulelab.knobs.recipe:Loader",
    "memory_format": "joulelab.knobs.recipe:MemoryFormat",
    "power_limit": "joulelab.knobs.power_limit:PowerLimit",
    "precision": "joulelab.knobs.precision:PrecisionKnob",
    "rate_rule": "joulelab.knobs.sharing:RateRule",
    "sharing": "joulelab.knobs.sharing:Sharing",
    "target": "joulelab.knobs.target:TargetKnob",
    "task": "joulelab.knobs.recipe:Task",
    "threads": "joulelab.knobs.threads:Threads",
    "timeline_every": "joulelab.knobs.sharing:TimelineEvery",
    "warmup_updates": "joulelab.knobs.sharing:WarmupUpdates",
    "workers": "joulelab.knobs.sharing:Workers",
}
