# SPDX-License-Identifier: Apache-2.0
"""The networks are torchvision's, weight for weight and number for number."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from joulelab.workloads.resnet_network import ResNet

DEPTHS = (18, 34, 50, 101, 152)
pytestmark = [pytest.mark.gpu, pytest.mark.timeout(300), pytest.mark.filterwarnings("default")]


@pytest.fixture(scope="module")
def models() -> Any:
    if not torch.cuda.is_available():
        pytest.skip("there is no CUDA device")
    return pytest.importorskip("torchvision", reason="torchvision is not installed").models


@pytest.fixture(autouse=True)
def _products_in_full(request: pytest.FixtureRequest) -> Any:
    """fp32 is fp32, and the same algorithm is taken for the same layer."""
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    before = matmul.allow_tf32, cudnn.allow_tf32, cudnn.benchmark, cudnn.deterministic
    matmul.allow_tf32 = cudnn.allow_tf32 = cudnn.benchmark = False
    cudnn.deterministic = True
    yield
    matmul.allow_tf32, cudnn.allow_tf32, cudnn.benchmark, cudnn.deterministic = before


def about(name: str) -> Any:
    """What is said of a difference: in which layer it is."""
    return lambda words: f"{name}: {words}"


def pair(models: Any, depth: int) -> tuple[torch.nn.Module, ResNet]:
    """Theirs and ours with the same weights, and statistics of normalisations that tell layers apart."""
    torch.manual_seed(depth)
    theirs = getattr(models, f"resnet{depth}")(weights=None)
    for module in theirs.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            assert module.running_mean is not None
            assert module.running_var is not None
            torch.nn.init.normal_(module.running_mean, std=0.1)
            torch.nn.init.uniform_(module.running_var, 0.5, 1.5)
            torch.nn.init.uniform_(module.weight, 0.2, 0.6)
    ours = ResNet(depth, classes=1000)
    told = ours.load_state_dict(theirs.state_dict())
    assert not told.missing_keys
    assert not told.unexpected_keys
    return theirs, ours


@pytest.mark.parametrize("depth", DEPTHS)
def test_parameters_and_their_order_are_theirs(models: Any, depth: int) -> None:
    theirs, ours = pair(models, depth)
    shapes = [[(name, tuple(p.shape)) for name, p in net.named_parameters()] for net in (theirs, ours)]
    assert shapes[0] == shapes[1]
    assert sum(p.numel() for p in ours.parameters()) == sum(p.numel() for p in theirs.parameters())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("depth", DEPTHS)
def test_outputs_are_theirs(models: Any, depth: int, dtype: torch.dtype) -> None:
    theirs, ours = (net.to("cuda", dtype).eval() for net in pair(models, depth))
    x = torch.randn(4, 3, 224, 224, device="cuda", dtype=dtype)
    with torch.no_grad():
        wanted, found = theirs(x), ours(x)
    assert wanted.std() > 1e-4, "the outputs differ between pictures and classes"
    close = 1e-9 if dtype == torch.float64 else 1e-4
    torch.testing.assert_close(found, wanted, rtol=close, atol=close * float(wanted.abs().max()))


@pytest.mark.parametrize("depth", DEPTHS)
def test_a_training_step_gives_their_gradients(models: Any, depth: int) -> None:
    theirs, ours = (net.to("cuda", torch.float64).train() for net in pair(models, depth))
    x = torch.randn(8, 3, 64, 64, device="cuda", dtype=torch.float64)
    y = torch.arange(8, device="cuda")
    for net in (theirs, ours):
        torch.nn.functional.cross_entropy(net(x), y).backward()  # type: ignore[no-untyped-call]
    for (name, a), (_, b) in zip(theirs.named_parameters(), ours.named_parameters(), strict=True):
        assert a.grad is not None
        assert b.grad is not None
        torch.testing.assert_close(
            b.grad,
            a.grad,
            rtol=1e-6,
            atol=1e-9 * float(a.grad.abs().max()),
            msg=about(name),
        )
    for (name, mean), (_, other) in zip(theirs.named_buffers(), ours.named_buffers(), strict=True):
        torch.testing.assert_close(other, mean, msg=about(name))
