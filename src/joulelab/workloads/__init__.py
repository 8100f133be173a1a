# SPDX-License-Identifier: Apache-2.0
"""What can be trained. A new workload is one file and one line in each of the two tables."""

from joulelab.records.parameter import Parameter, Scalar
from joulelab.workloads.recipe import Recipe
from joulelab.workloads.yolo_recipe import YOLO

WORKLOADS = {
    "nt3": "joulelab.workloads.nt3:NT3",
    "p1b1": "joulelab.workloads.p1b1:P1B1",
    "p1b2": "joulelab.workloads.p1b2:P1B2",
    "p1b3": "joulelab.workloads.p1b3:P1B3",
    "resnet": "joulelab.workloads.resnet:Resnet",
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
_STOP_AFTER = Parameter(
    name="stop_after",
    kind="int",
    default=0,
    minimum=0,
    help="ends the training after the first epoch that ends so late; the benchmark says 3600, 0 is never",
    unit="s",
)


def _knobs(*, batch_size: int, epochs: int) -> dict[str, Scalar]:
    return {
        "accumulate": 1,
        "batch_size": batch_size,
        "checkpoint_keep": 2,
        "checkpoint_minutes": 0.0,
        "checkpoint_steps": 0,
        "compile": "off",
        "cpu_power_limit": "as-is",
        "deterministic": False,
        "epochs": epochs,
        "learning_rate": 0.001,
        "loader": "ours",
        "power_limit": "as-is",
        "precision": "fp32",
        "target": "",
        "threads": 0,
    }


RECIPES = {
    "nt3": Recipe(
        summary="1-D convolution over gene expression, normal against tumour tissue (CANDLE NT3)",
        parameters=(_SCALE, _DATA, _RECIPE, _STOP_AFTER),
        knobs=_knobs(batch_size=20, epochs=384),
        figures=("loss", "accuracy", "val_loss", "val_accuracy"),
    ),
    "p1b1": Recipe(
        summary="autoencoder of gene expression, two numbers in the middle (CANDLE P1B1)",
        parameters=(_SCALE, _DATA, _RECIPE, _STOP_AFTER),
        knobs=_knobs(batch_size=100, epochs=384),
        figures=("loss", "xent", "corr", "val_loss", "val_xent", "val_corr"),
    ),
    "p1b2": Recipe(
        summary="kind of tumour from the mutated genes of a sample (CANDLE P1B2)",
        parameters=(_SCALE, _DATA, _RECIPE),
        knobs=_knobs(batch_size=60, epochs=768),
        figures=("loss", "accuracy", "val_loss", "val_accuracy"),
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
        refused={"loader": {"loadtxt": "it reads no gaps, and the descriptors of P1B3 have some"}},
        figures=("loss", "val_loss", "val_accuracy", "test_loss", "test_accuracy"),
    ),
    "resnet": Recipe(
        summary="residual networks of 18 to 152 layers on pictures (ImageNet, CIFAR, or drawn ones)",
        parameters=(
            Parameter(
                name="data",
                kind="str",
                default="",
                help="folder with train/CLASS/ and val/CLASS/; empty: drawn pictures; 'device': noise there",
            ),
            Parameter(
                name="recipe",
                kind="str",
                default="imagenet",
                choices=("imagenet", "fast"),
                help="imagenet: the usual one of 90 epochs; fast: the same accuracy for fewer joules",
            ),
            Parameter(
                name="depth",
                kind="int",
                default=50,
                choices=(18, 34, 50, 101, 152),
                help="layers with weights",
                unit="layers",
            ),
            Parameter(
                name="stem",
                kind="str",
                default="imagenet",
                choices=("imagenet", "cifar"),
                help="first layers: a quarter of the side is left, or all of it",
            ),
            Parameter(
                name="image_size",
                kind="int",
                default=224,
                minimum=8,
                help="side of the pictures that the network sees",
                unit="pixels",
            ),
            Parameter(
                name="width",
                kind="int",
                default=64,
                minimum=4,
                help="channels of the first stage; 64 is usual",
            ),
            Parameter(
                name="images",
                kind="int",
                default=2560,
                minimum=1,
                help="pictures an epoch, where they are drawn",
                unit="pictures",
            ),
            Parameter(
                name="classes", kind="int", default=1000, minimum=2, help="classes, where pictures are drawn"
            ),
            Parameter(
                name="evaluate_mirrored",
                kind="bool",
                default=False,
                help="evaluate each picture and its mirror image together",
            ),
        ),
        knobs={
            "accumulate": 1,
            "batch_size": 256,
            "checkpoint_keep": 2,
            "checkpoint_minutes": 0.0,
            "checkpoint_steps": 0,
            "compile": "off",
            "deterministic": False,
            "epochs": 90,
            "learning_rate": 0.1,
            "memory_format": "contiguous",
            "cpu_power_limit": "as-is",
            "power_limit": "as-is",
            "precision": "fp32",
            "target": "",
            "task": "train",
            "threads": 0,
        },
        figures=("loss", "val_loss", "val_accuracy", "val_top5"),
    ),
    "yolo": YOLO,
}
