# SPDX-License-Identifier: Apache-2.0
"""What may be varied. A new knob is one class and one line here."""

KNOBS = {
    "batch_size": "joulelab.knobs.recipe:BatchSize",
    "cpu_power_limit": "joulelab.knobs.cpu_power_limit:CpuPowerLimit",
    "epochs": "joulelab.knobs.recipe:Epochs",
    "learning_rate": "joulelab.knobs.recipe:LearningRate",
    "loader": "joulelab.knobs.recipe:Loader",
    "power_limit": "joulelab.knobs.power_limit:PowerLimit",
    "precision": "joulelab.knobs.precision:PrecisionKnob",
    "threads": "joulelab.knobs.threads:Threads",
}
