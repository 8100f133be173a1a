# SPDX-License-Identifier: Apache-2.0
"""What may be varied. A new knob is one class and one line here."""

KNOBS = {
    "batch_size": "joulelab.knobs.recipe:BatchSize",
    "epochs": "joulelab.knobs.recipe:Epochs",
    "learning_rate": "joulelab.knobs.recipe:LearningRate",
    "loader": "joulelab.knobs.recipe:Loader",
    "precision": "joulelab.knobs.precision:PrecisionKnob",
    "threads": "joulelab.knobs.threads:Threads",
}
