# SPDX-License-Identifier: Apache-2.0
"""Adam as Keras 2.2 computed it: its epsilon is added before the bias of the second moment is corrected."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Iterable


class KerasAdam(torch.optim.Adam):
    """torch's Adam with, at each step t, the epsilon that amounts to `keras_eps` before the correction.

    Keras: lr * sqrt(1 - b2^t) / (1 - b1^t) * m / (sqrt(v) + eps); torch: lr / (1 - b1^t) * m / (sqrt(v / (1 -
    b2^t)) + eps). So eps in torch is eps in Keras over sqrt(1 - b2^t): 32 times as much at the first step. It
    matters where gradients are as small as epsilon, as those of a mean over 60,000 outputs are.
    """

    def __init__(self, params: Iterable[Any], *, lr: float = 1e-3, keras_eps: float = 1e-7) -> None:
        # foreach, not fused: a fused Adam advances its state on the overflowing steps that GradScaler must
        # skip.
        super().__init__(params, lr=lr, betas=(0.9, 0.999), foreach=True)
        for group in self.param_groups:
            group["keras_eps"] = keras_eps
            group["keras_steps"] = 0  # in the group, so that it is saved and restored with the state
        # A hook, because an optimizer that overrides step() and calls the parent's runs everybody's hooks
        # twice.
        self.register_step_pre_hook(_set_eps)


def _set_eps(optimizer: torch.optim.Optimizer, *_: Any) -> None:
    for group in optimizer.param_groups:
        group["keras_steps"] += 1
        group["eps"] = group["keras_eps"] / math.sqrt(1.0 - group["betas"][1] ** group["keras_steps"])
