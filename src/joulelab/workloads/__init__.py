# SPDX-License-Identifier: Apache-2.0
"""What can be trained. A new workload is one file and one line in each of the two tables."""

from joulelab.records.parameter import Parameter
from joulelab.workloads.recipe import Recipe

WORKLOADS = {
    "nt3": "joulelab.workloads.nt3:NT3",
}

RECIPES = {
    "nt3": Recipe(
        summary="1-D convolution over gene expression, normal against tumour tissue (CANDLE NT3)",
        parameters=(
            Parameter(
                name="scale",
                kind="float",
                default=1.0,
                minimum=0.001,
                maximum=1.0,
                help="share of the 60,483 genes; filters shrink with its square root",
            ),
            Parameter(name="data", kind="str", default="", help="folder of the files; if empty, a stand-in"),
        ),
        knobs={
            "batch_size": 20,
            "epochs": 384,
            "learning_rate": 0.001,
            "loader": "ours",
            "precision": "fp32",
            "threads": 0,
        },
    ),
}
