# SPDX-License-Identifier: Apache-2.0
"""The other end of `joulelab.hardware.bursts`: starts it, tells it when to burn, waits for its answers."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import time
from collections.abc import Mapping, Sequence
from typing import Any

from joulelab.errors import SensorError

Spans = list[tuple[float, float]]


class Burner:
    """One process that keeps a GPU busy at given instants."""

    def __init__(self, command: Sequence[str], *, environment: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **environment},
        )
        self._received = b""
        self.ended = False

    def wait(self, timeout_s: float) -> str:
        """Until it is ready; what it is, in words."""
        answer = self._answer(timeout_s)
        if "ready" not in answer:
            words = str(answer.get("refused") or answer)
            raise SensorError(f"nothing can keep this GPU busy: {words}", cure=str(answer.get("cure", "")))
        return str(answer["ready"])

    def send(self, spans_s: Spans) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"spans_s": spans_s}).encode() + b"\n")
            self._process.stdin.flush()
        except OSError as error:
            self.ended = True
            raise SensorError("the load has ended") from error

    def spans(self, timeout_s: float) -> Spans:
        """The last train as it came to be."""
        answer = self._answer(timeout_s)
        if "spans_s" not in answer:
            raise SensorError(f"the load failed: {answer.get('failed') or answer}")
        return [(float(a), float(b)) for a, b in answer["spans_s"]]

    def close(self) -> None:
        """End it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(timeout=5.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def _answer(self, timeout_s: float) -> dict[str, Any]:
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        end_s = time.monotonic() + timeout_s
        # Libraries may print lines of their own; only objects are answers.
        while True:
            while b"\n" in self._received:
                line, _, self._received = self._received.partition(b"\n")
                with contextlib.suppress(ValueError):
                    answer = json.loads(line)
                    if isinstance(answer, dict):
                        return answer
            left_s = end_s - time.monotonic()
            if left_s <= 0 or not select.select([descriptor], [], [], left_s)[0]:
                raise SensorError(f"the load did not answer within {timeout_s:g} s")
            data = os.read(descriptor, 1 << 16)
            if not data:
                self.ended = True
                raise SensorError(
                    f"the load ended with {self._process.wait()}",
                    cure="run `python -m joulelab.hardware.bursts` by hand and look at what it says",
                )
            self._received += data
