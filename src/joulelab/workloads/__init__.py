# SPDX-License-Identifier: Apache-2.0
"""What can be trained. A new workload is one file and one line in each of the two tables."""

from joulelab.records.parameter import Parameter, Scalar
from joulelab.workloads.recipe import Recipe

WORKLOADS = {
    "nt3": "joulelab.workloads.nt3:NT3",
    "p1b1": "joulelab.workloads.p1b1:P1B1",
    "p1b2": "joulelab.workloads.p1b2:P1B2",
    "p1b3": "joulelab.workloads.p1b3:P1B3",
    "yolo": "joulelab.workloads.yolo:Yolo",
}

_SCALE = Parameter(
    name="scale",
    kind="float",
    default=1.0,
    minimum=0.001,
    maximum=1.0,
    help="share of the columns in the stand-in; layers shrink with its square root",
)
_DATA = Parameter(name="data", kind="str", default="", help="folder of the files; if empty, a stand-in")
_RECIPE = Parameter(
    name="recipe",
    kind="str",
    default="paper",
    choices=("paper", "modern"),
    help="paper: as the benchmark did it, quirks included; modern: as one would today",
)


def _knobs(*, batch_size: int, epochs: int) -> dict[str, Scalar]:
    return {
        "batch_size": batch_size,
        "epochs": epochs,
        "learning_rate": 0.001,
        "loader": "ours",
        "precision": "fp32",
        "threads": 0,
    }


RECIPES = {
    "nt3": Recipe(
        summary="1-D convolution over gene expression, normal against tumour tissue (CANDLE NT3)",
        parameters=(_SCALE, _DATA),
        knobs=_knobs(batch_size=20, epochs=384),
    ),
    "p1b1": Recipe(
        summary="autoencoder of gene expression, two numbers in the middle (CANDLE P1B1)",
        parameters=(_SCALE, _DATA, _RECIPE),
        knobs=_knobs(batch_size=100, epochs=384),
    ),
    "p1b2": Recipe(
        summary="kind of tumour from the mutated genes of a sample (CANDLE P1B2)",
        parameters=(_SCALE, _DATA, _RECIPE),
        knobs=_knobs(batch_size=60, epochs=768),
    ),
    "p1b3": Recipe(
        summary="growth of tumour cells under a drug (CANDLE P1B3)",
        parameters=(
            _SCALE,
            _DATA,
            _RECIPE,
            Parameter(
                name="feature_subsample",
                kind="int",
                default=0,
                minimum=0,
                help="columns drawn from each table; 0 takes all, 500 is most likely that of the 2019 study",
                unit="columns",
            ),
        ),
        knobs=_knobs(batch_size=100, epochs=1),
    ),
    "yolo": Recipe(
        summary="boxes around objects, most of all in pictures from above (YOLOv5, xView)",
        parameters=(
            Parameter(
                name="size",
                kind="str",
                default="s",
                choices=("n", "s", "m", "l", "x"),
                help="how many layers and channels",
            ),
            Parameter(
                name="source",
                kind="str",
                default="stand-in",
                choices=("stand-in", "xview", "coco", "device"),
                help="where pictures come from; device: noise on the device, nothing read or learnt",
            ),
            _DATA,
            Parameter(
                name="scale",
                kind="float",
                default=1.0,
                minimum=0.001,
                maximum=1.0,
                help="share of the pictures in the stand-in; their sides shrink with its square root",
            ),
            Parameter(
                name="classes",
                kind="int",
                default=0,
                minimum=0,
                maximum=10_000,
                help="kinds of object to look for, the most frequent first; 0 takes all",
            ),
            Parameter(
                name="image_size",
                kind="int",
                default=640,
                minimum=32,
                maximum=2048,
                help="side of what the network is shown, a multiple of 32",
                unit="px",
            ),
            Parameter(
                name="cut",
                kind="str",
                default="tiles",
                choices=("tiles", "whole"),
                help="tiles: pieces of a picture at its own scale; whole: the picture made small",
            ),
            Parameter(
                name="overlap",
                kind="float",
                default=0.0,
                minimum=0.0,
                maximum=0.9,
                help="of two tiles beside each other, as a share of their side",
            ),
            Parameter(
                name="augment",
                kind="str",
                default="mosaic",
                choices=("mosaic", "none"),
                help="mosaic: four tiles to a picture, scaled, moved, mirrored, in other colours",
            ),
        ),
        knobs={
            "batch_size": 64,
            "epochs": 100,
            "learning_rate": 0.01,
            "precision": "fp32",
            "threads": 0,
        },
    ),
}
