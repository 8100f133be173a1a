# SPDX-License-Identifier: Apache-2.0
"""Linear layers whose three products are done in eight bits: e4m3 forwards, e5m2 for gradients.

e4m3 has more digits, e5m2 more range, which gradients need. Each tensor is scaled by its own largest value so
that it fills the format; the products are added up in fp32 and given out in bf16. Weights stay in fp32.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

FORWARD, BACKWARD = torch.float8_e4m3fn, torch.float8_e5m2
_scaled = torch._scaled_mm  # noqa: SLF001  the one name it has in every torch from 2.6
MULTIPLE = 16  # the hardware's products want every width to be a multiple of this


def quantised(tensor: torch.Tensor, kind: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """`tensor` in eight bits, and the factor that gives it its size back."""
    most = torch.finfo(kind).max
    factor = (tensor.abs().amax().float() / most).clamp(min=1e-12)
    return (tensor.float() / factor).clamp(-most, most).to(kind), factor


def _by_columns(matrix: torch.Tensor) -> torch.Tensor:
    """The same matrix laid out column by column, as the second factor of a product has to be."""
    return matrix.t().contiguous().t()


class _Product(torch.autograd.Function):
    """x @ weight.t() for x of (rows, in) and a weight of (out, in)."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        x8, x_factor = quantised(x, FORWARD)
        w8, w_factor = quantised(weight, FORWARD)
        ctx.save_for_backward(x8, x_factor, w8, w_factor)
        ctx.kinds = x.dtype, weight.dtype
        return _scaled(x8, w8.t(), scale_a=x_factor, scale_b=w_factor, out_dtype=torch.bfloat16)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x8, x_factor, w8, w_factor = ctx.saved_tensors
        g8, g_factor = quantised(gradients[0], BACKWARD)
        to_x = _scaled(g8, _by_columns(w8), scale_a=g_factor, scale_b=w_factor, out_dtype=torch.bfloat16)
        to_weight = _scaled(
            g8.t().contiguous(), _by_columns(x8), scale_a=g_factor, scale_b=x_factor, out_dtype=torch.bfloat16
        )
        return to_x.to(ctx.kinds[0]), to_weight.to(ctx.kinds[1])


class Fp8Linear(nn.Linear):
    """A linear layer with the same parameters and other arithmetic."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        rows = input.reshape(-1, self.in_features)
        missing = -rows.shape[0] % MULTIPLE
        if missing:
            # Rows of zeros change no gradient of the weight, whose product runs over the rows.
            rows = functional.pad(rows, (0, 0, 0, missing))
        product: torch.Tensor = _Product.apply(rows, self.weight)  # type: ignore[no-untyped-call]
        if missing:
            product = product[:-missing]
        if self.bias is not None:
            product = product + self.bias.to(product.dtype)
        return product.reshape(*input.shape[:-1], self.out_features)


def fitted(model: nn.Module) -> int:
    """Turn the linear layers of `model` that the hardware can take into eight-bit ones; how many."""
    count = 0
    for module in model.modules():
        if type(module) is nn.Linear and not (
            module.in_features % MULTIPLE or module.out_features % MULTIPLE
        ):
            module.__class__ = Fp8Linear
            count += 1
    return count
