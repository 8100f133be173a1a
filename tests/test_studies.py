# SPDX-License-Identifier: Apache-2.0
"""The studies that come with the package can be planned."""

from __future__ import annotations

from pathlib import Path

import pytest

from joulelab.study.plan import plan
from joulelab.study.study_file import read_study

STUDIES = sorted((Path(__file__).parents[1] / "studies").glob("*.toml"))


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.stem)
def test_it_can_be_planned(path: Path) -> None:
    assert plan(read_study(path))


def test_sizes_and_batches_of_the_detector() -> None:
    (path,) = [path for path in STUDIES if path.stem == "edelman_yolo"]
    specs = plan(read_study(path))
    assert len(specs) == 25
    assert {spec.knobs["batch_size"] for spec in specs} == {32, 64, 128, 256, 512}
    assert {spec.parameters["size"] for spec in specs} == set("nsmlx")
    assert {spec.knobs["epochs"] for spec in specs} == {100}
