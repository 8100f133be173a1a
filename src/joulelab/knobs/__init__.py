# SPDX-License-Identifier: Apache-2.0
"""What may be varied. A new knob is one class and one line here."""

KNOBS = {
    "accumulate": "joulelab.knobs.recipe:Accumulate",
    "batch_size": "joulelab.knobs.recipe:BatchSize",
    "checkpoint_keep": "joulelab.knobs.checkpoint:CheckpointKeep",
    "checkpoint_minutes": "joulelab.knobs.checkpoint:CheckpointMinutes",
    "checkpoint_steps": "joulelab.knobs.checkpoint:CheckpointSteps",
    "compile": "joulelab.knobs.compile:Compile",
    "cpu_power_limit": "joulelab.knobs.cpu_power_limit:CpuPowerLimit",
    "deterministic": "joulelab.knobs.deterministic:Deterministic",
    "epochs": "joulelab.knobs.recipe:Epochs",
    "learning_rate": "joulelab.knobs.recipe:LearningRate",
    "loader": "joulelab.knobs.recipe:Loader",
    "memory_format": "joulelab.knobs.recipe:MemoryFormat",
    "power_limit": "joulelab.knobs.power_limit:PowerLimit",
    "precision": "joulelab.knobs.precision:PrecisionKnob",
    "target": "joulelab.knobs.target:TargetKnob",
    "task": "joulelab.knobs.recipe:Task",
    "threads": "joulelab.knobs.threads:Threads",
}
