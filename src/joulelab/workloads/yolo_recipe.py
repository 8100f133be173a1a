# SPDX-License-Identifier: Apache-2.0
"""What YOLOv5 takes and listens to, apart from the table of all recipes because it is long."""

from joulelab.records.parameter import Parameter
from joulelab.workloads.recipe import Recipe

YOLO = Recipe(
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
        Parameter(name="data", kind="str", default="", help="folder of the files; if empty, a stand-in"),
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
        "checkpoint_keep": 2,
        "checkpoint_minutes": 0.0,
        "checkpoint_steps": 0,
        "cpu_power_limit": "as-is",
        "epochs": 100,
        "learning_rate": 0.01,
        "power_limit": "as-is",
        "precision": "fp32",
        "target": "",
        "task": "train",
        "threads": 0,
    },
    figures=("loss", "box_loss", "objectness_loss", "class_loss", "map50", "map"),
)
