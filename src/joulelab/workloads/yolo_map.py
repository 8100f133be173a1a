# SPDX-License-Identifier: Apache-2.0
"""Mean average precision of detections, by COCO's own program."""

from __future__ import annotations

import contextlib
import importlib.util
import io
from typing import TYPE_CHECKING, Any

from joulelab.errors import InputError
from joulelab.workloads.yolo_boxes import KEPT

if TYPE_CHECKING:
    import torch


def needed() -> None:
    """An InputError where that program is not installed."""
    if importlib.util.find_spec("pycocotools") is None:
        raise InputError(
            "detections are judged by pycocotools, which is not installed",
            cure="pip install 'joulelab[vision]'",
        )


def mean_average_precision(
    wanted: torch.Tensor, detections: torch.Tensor, *, pictures: int
) -> dict[str, float]:
    """`map50` at IoU 0.5 and `map` over 0.50:0.95, means over the classes of which there is an object.

    `wanted`: rows of picture, class, x1, y1, x2, y2. `detections`: the same with a score behind. Pictures
    count from 0; of each, the most confident 300 of a class enter.
    """
    needed()
    with contextlib.redirect_stdout(io.StringIO()):  # it tells its progress
        precision = _precision(wanted.double().cpu(), detections.double().cpu(), pictures=pictures)
    # -1 stands where a class has no object.
    told = precision[precision > -1]
    if not told.size:
        return {"map50": 0.0, "map": 0.0}
    at_half = precision[0][precision[0] > -1]
    return {"map50": float(at_half.mean()), "map": float(told.mean())}


def _precision(wanted: torch.Tensor, detections: torch.Tensor, *, pictures: int) -> Any:
    """Precision by IoU, recall (101 of them) and class."""
    import numpy as np
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    truth = COCO()
    sides = (wanted[:, 4:6] - wanted[:, 2:4]).tolist()
    truth.dataset = {
        # Numbers from 1: pycocotools takes 0 for no match.
        "images": [{"id": picture + 1} for picture in range(pictures)],
        "categories": [{"id": kind} for kind in sorted({int(kind) for kind in wanted[:, 1].tolist()})],
        "annotations": [
            {
                "id": number,
                "image_id": int(picture) + 1,
                "category_id": int(kind),
                "bbox": [x, y, w, h],
                "area": w * h,
                "iscrowd": 0,
            }
            for number, ((picture, kind, x, y, *_), (w, h)) in enumerate(
                zip(wanted.tolist(), sides, strict=True), start=1
            )
        ],
    }
    truth.createIndex()
    found = COCO()
    found.dataset = {
        "images": truth.dataset["images"],
        "categories": truth.dataset["categories"],
        "annotations": [
            {
                "id": number,
                "image_id": int(picture) + 1,
                "category_id": int(kind),
                "bbox": [x, y, x2 - x, y2 - y],
                "area": (x2 - x) * (y2 - y),
                "score": score,
                "iscrowd": 0,
            }
            for number, (picture, kind, x, y, x2, y2, score) in enumerate(detections.tolist(), start=1)
        ],
    }
    found.createIndex()
    judge = COCOeval(truth, found, "bbox")
    judge.params.maxDets = [KEPT]
    judge.params.areaRng, judge.params.areaRngLbl = [[0, 1e10]], ["all"]
    judge.evaluate()
    judge.accumulate()
    return np.asarray(judge.eval["precision"])[:, :, :, 0, 0]
