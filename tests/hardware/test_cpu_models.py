# SPDX-License-Identifier: Apache-2.0
"""Names of CPUs as the kernel gives them."""

from __future__ import annotations

from pathlib import Path

import pytest

from joulelab.hardware.cpu_models import MODELS, model_name, watts_per_thread


@pytest.mark.parametrize(
    ("model", "watts"),
    [
        ("Intel(R) Xeon(R) Gold 6148 CPU @ 2.40GHz", 150 / 40),
        ("Intel(R) Xeon(R) CPU E5-2698 v4 @ 2.20GHz", 135 / 40),
        ("Intel(R) Xeon(R) Platinum 8480+", 350 / 112),
        ("AMD EPYC 7763 64-Core Processor", 280 / 128),
        ("AMD Ryzen 9 5950X 16-Core Processor", 105 / 32),
        ("12th Gen Intel(R) Core(TM) i7-12700K", 125 / 20),
        ("Intel(R) Xeon(R) Gold 6248R CPU @ 3.00GHz", 205 / 48),
        ("Intel(R) Xeon(R) Gold 6248 CPU @ 2.50GHz", 150 / 40),
        ("AMD EPYC", None),
        ("AMD EPYC 7763P", None),
        ("Intel Xeon Processor (Skylake, IBRS)", None),
        ("", None),
    ],
)
def test_watts(model: str, watts: float | None) -> None:
    assert watts_per_thread(model) == (None if watts is None else pytest.approx(watts))


def test_every_line_of_the_table_is_plausible() -> None:
    assert len({name for name, _, _ in MODELS}) == len(MODELS)
    for name, rated_w, threads in MODELS:
        assert 1.0 < rated_w / threads < 10.0, name
        assert watts_per_thread(f"Some {name} @ 2 GHz") == pytest.approx(rated_w / threads)


def test_the_name_of_this_machine(tmp_path: Path) -> None:
    assert model_name()
    info = tmp_path / "cpuinfo"
    info.write_text(
        "processor\t: 0\nmodel name\t: AMD EPYC 7742 64-Core\nmodel name\t: other\n", encoding="ascii"
    )
    assert model_name(info) == "AMD EPYC 7742 64-Core"
    assert model_name(tmp_path / "none")
