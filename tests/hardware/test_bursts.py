# SPDX-License-Identifier: Apache-2.0
"""Bursts at given instants; here torch has no GPU, and that is said."""

from __future__ import annotations

import json
import subprocess
import sys

from joulelab.hardware import bursts


def test_a_burst_begins_and_ends_on_the_clock() -> None:
    now_s = [10.0]
    burnt: list[float] = []

    def clock() -> float:
        now_s[0] += 0.0001
        return now_s[0]

    def burn() -> None:
        burnt.append(now_s[0])
        now_s[0] += 0.003

    def sleep(seconds: float) -> None:
        now_s[0] += seconds

    began_s, ended_s = bursts.run(burn, 11.0, 11.05, clock=clock, sleep=sleep)
    assert 11.0 <= began_s < 11.001
    assert 11.05 <= ended_s < 11.055, "it goes on for one product at most"
    assert 14 <= len(burnt) <= 17
    late_s, _ = bursts.run(burn, 11.0, 11.06, clock=clock, sleep=sleep)
    assert late_s > 11.0, "a burst that comes too late says so"


def test_it_refuses_in_words_without_a_gpu() -> None:
    script = (
        "import sys, types; torch = types.ModuleType('torch'); torch.__version__ = '9.9';"
        "torch.cuda = types.SimpleNamespace(is_available=lambda: False); sys.modules['torch'] = torch;"
        "from joulelab.hardware import bursts; bursts.main()"
    )
    run = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=30
    )
    said = json.loads(run.stdout)
    assert said["refused"] == "torch 9.9 sees no GPU"
    assert "torch" in said["cure"]
