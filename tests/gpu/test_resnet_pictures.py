# SPDX-License-Identifier: Apache-2.0
"""What is done to pictures on the device: nothing waits for it, and it repeats to the bit."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import torch

from joulelab.workloads.resnet import Resnet
from tests.workloads.resnet_parts import setting

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(300), pytest.mark.filterwarnings("default")]

EVERYTHING: dict[str, Any] = {
    "recipe": "fast",
    "mix": "both",
    "augment": "strong",
    "images": 128,
    "memory_format": "channels_last",
}


@pytest.fixture(autouse=True)
def _no_waiting_is_left_an_error() -> Iterator[None]:
    if not torch.cuda.is_available():
        pytest.skip("there is no CUDA device")
    yield
    torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("size", [{"image_size": 16, "mirror": "alternating"}, {"image_size": 66}])
def test_no_batch_waits_for_the_device_and_the_seed_decides(tmp_path: Path, size: dict[str, Any]) -> None:
    of = replace(setting(tmp_path, **EVERYTHING, **size), device=torch.device("cuda"))

    def batches() -> list[tuple[torch.Tensor, ...]]:
        made = Resnet(of)
        made.prepare()
        made.load()
        model = made.model().to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        seen = []
        torch.cuda.set_sync_debug_mode("default")  # at the start of an epoch its order is sent
        for given in list(made.batches(1, torch.Generator().manual_seed(1))):
            torch.cuda.set_sync_debug_mode("error")
            seen.append(made.place(given))
            made.loss(model, seen[-1])
        torch.cuda.set_sync_debug_mode("default")
        return seen

    first, second = batches(), batches()
    assert len(first) == 4
    for one, other in zip(first, second, strict=True):
        assert len(one) == 4
        assert one[0].is_contiguous(memory_format=torch.channels_last)
        assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))
