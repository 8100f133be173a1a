# SPDX-License-Identifier: Apache-2.0
"""Counts, names, shapes and outputs are those of the published networks, worked out here in another way."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from joulelab.workloads.resnet_network import Basic, Bottleneck, ResNet
from tests.workloads.candle_parts import parameters

DEPTHS = (18, 34, 50, 101, 152)
PARAMETERS = {18: 11_689_512, 34: 21_797_672, 50: 25_557_032, 101: 44_549_160, 152: 60_192_808}
GMAC = {18: 1.8141, 34: 3.6638, 50: 4.0892, 101: 7.8014, 152: 11.5136}
STAGES = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}


def on_paper(depth: int, **more: Any) -> ResNet:
    with torch.device("meta"):
        return ResNet(depth, **{"classes": 1000, **more})


@pytest.mark.parametrize("depth", DEPTHS)
def test_it_has_the_published_number_of_parameters(depth: int) -> None:
    assert parameters(on_paper(depth)) == PARAMETERS[depth]


@pytest.mark.parametrize("depth", DEPTHS)
def test_it_does_the_published_work(depth: int) -> None:
    net, done = on_paper(depth).eval(), []

    def note(layer: nn.Module, _: Any, out: torch.Tensor) -> None:
        assert isinstance(layer.weight, torch.Tensor)
        each = layer.weight[0].numel()
        done.append(out.numel() * each)

    for layer in net.modules():
        if isinstance(layer, nn.Conv2d | nn.Linear):
            layer.register_forward_hook(note)
    net(torch.empty(1, 3, 224, 224, device="meta"))
    assert len(done) == depth + 3 + (depth > 34), "one in the name for each but those of the shortcuts"
    assert sum(done) / 1e9 == pytest.approx(GMAC[depth], abs=5e-5)


def named(depth: int, *, classes: int = 1000) -> dict[str, tuple[int, ...]]:
    """Names and shapes as torchvision has them."""

    def norm(name: str, width: int) -> None:
        for part in ("weight", "bias", "running_mean", "running_var"):
            found[f"{name}.{part}"] = (width,)
        found[f"{name}.num_batches_tracked"] = ()

    found: dict[str, tuple[int, ...]] = {"conv1.weight": (64, 3, 7, 7)}
    norm("bn1", 64)
    inputs = 64
    for stage, count in enumerate(STAGES[depth]):
        width = 64 * 2**stage
        out = width if depth < 50 else 4 * width
        for block in range(count):
            here = f"layer{stage + 1}.{block}"
            layers = [(inputs, width, 3), (width, width, 3)]
            if depth >= 50:
                layers = [(inputs, width, 1), (width, width, 3), (width, out, 1)]
            for number, (a, b, side) in enumerate(layers, start=1):
                found[f"{here}.conv{number}.weight"] = (b, a, side, side)
                norm(f"{here}.bn{number}", b)
            if block == 0 and inputs != out:
                found[f"{here}.downsample.0.weight"] = (out, inputs, 1, 1)
                norm(f"{here}.downsample.1", out)
            inputs = out
    return found | {"fc.weight": (classes, inputs), "fc.bias": (classes,)}


@pytest.mark.parametrize("depth", DEPTHS)
def test_names_and_shapes_are_those_of_torchvision(depth: int) -> None:
    found = {name: tuple(tensor.shape) for name, tensor in on_paper(depth).state_dict().items()}
    assert found == named(depth)
    assert list(found) == list(named(depth)), "and their order"


def reference(state: dict[str, torch.Tensor], x: torch.Tensor, *, depth: int, stem: str) -> torch.Tensor:
    """The network in evaluation, from its weights alone."""

    def layer(x: torch.Tensor, conv: str, norm: str, *, stride: int = 1) -> torch.Tensor:
        weight = state[f"{conv}.weight"]
        x = functional.conv2d(x, weight, stride=stride, padding=(weight.shape[2] - 1) // 2)
        mean, var, scale, shift = (
            state[f"{norm}.{part}"][:, None, None]
            for part in ("running_mean", "running_var", "weight", "bias")
        )
        return (x - mean) / torch.sqrt(var + 1e-5) * scale + shift

    x = layer(x, "conv1", "bn1", stride=2 if stem == "imagenet" else 1).relu()
    if stem == "imagenet":
        x = functional.max_pool2d(x, kernel_size=3, stride=2, padding=1)
    for stage, count in enumerate(STAGES[depth], start=1):
        for block in range(count):
            here = f"layer{stage}.{block}"
            stride = 2 if stage > 1 and block == 0 else 1
            y = x
            strides = (stride, 1) if depth < 50 else (1, stride, 1)  # of a bottleneck: in the 3x3
            for number, each in enumerate(strides, start=1):
                y = layer(y, f"{here}.conv{number}", f"{here}.bn{number}", stride=each)
                y = y.relu() if number < len(strides) else y
            if f"{here}.downsample.0.weight" in state:
                x = layer(x, f"{here}.downsample.0", f"{here}.downsample.1", stride=stride)
            x = (x + y).relu()
    return functional.linear(x.flatten(2).mean(2), state["fc.weight"], state["fc.bias"])


def lived_in(net: ResNet) -> ResNet:
    """With statistics, scales and shifts that are not those of the start."""
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            assert module.running_mean is not None
            assert module.running_var is not None
            nn.init.normal_(module.running_mean, std=0.1)
            nn.init.uniform_(module.running_var, 0.5, 1.5)
            nn.init.uniform_(module.weight, 0.2, 0.6)
            nn.init.normal_(module.bias, std=0.1)
    return net.eval()


@pytest.mark.parametrize("stem", ["imagenet", "cifar"])
@pytest.mark.parametrize("depth", DEPTHS)
def test_what_comes_out_is_what_another_way_gives(depth: int, stem: str) -> None:
    torch.manual_seed(depth)
    net = lived_in(ResNet(depth, classes=7, stem=stem, width=8)).double()
    x = torch.randn(2, 3, 40, 33, dtype=torch.float64)
    with torch.no_grad():
        found = net(x)
        wanted = reference(net.state_dict(), x, depth=depth, stem=stem)
    assert found.shape == (2, 7)
    assert found.std() > 1e-3
    torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-9)


def strides(net: ResNet) -> dict[str, tuple[int, ...]]:
    return {
        name: layer.stride
        for name, layer in net.named_modules()
        if isinstance(layer, nn.Conv2d) and layer.stride != (1, 1)
    }


def test_the_stride_of_a_bottleneck_is_in_its_wide_convolution() -> None:
    two = (2, 2)
    assert strides(on_paper(50)) == {
        "conv1": two,
        **{f"layer{k}.0.conv2": two for k in (2, 3, 4)},
        **{f"layer{k}.0.downsample.0": two for k in (2, 3, 4)},
    }
    assert strides(on_paper(18, stem="cifar")) == {
        **{f"layer{k}.0.conv1": two for k in (2, 3, 4)},
        **{f"layer{k}.0.downsample.0": two for k in (2, 3, 4)},
    }


def test_the_stem_for_small_pictures() -> None:
    net = on_paper(18, stem="cifar", classes=10)
    assert tuple(net.conv1.weight.shape) == (64, 3, 3, 3)
    assert parameters(net) == PARAMETERS[18] - 64 * 3 * (49 - 9) - 513 * 990 == 11_173_962
    x = torch.empty(1, 3, 32, 32, device="meta")
    assert net.layer1(net.maxpool(net.bn1(net.conv1(x)))).shape == (1, 64, 32, 32), "no pixel is lost"  # type: ignore[operator]
    whole = on_paper(18)
    x = torch.empty(1, 3, 224, 224, device="meta")
    assert whole.maxpool(whole.conv1(x)).shape == (1, 64, 56, 56)


def test_the_start() -> None:
    torch.manual_seed(0)
    net = ResNet(50, classes=1000)
    for name, module in net.named_modules():
        if isinstance(module, nn.Conv2d):
            fan_out = module.out_channels * module.kernel_size[0] * module.kernel_size[1]
            assert module.bias is None
            assert float(module.weight.detach().std()) == pytest.approx(math.sqrt(2 / fan_out), rel=0.05), (
                name
            )
        if isinstance(module, nn.BatchNorm2d):
            assert (module.eps, module.momentum) == (1e-5, 0.1)
            assert (module.weight == 1).all()
            assert (module.bias == 0).all()
    bound = 1 / math.sqrt(2048)
    assert 0.99 * bound < float(net.fc.weight.detach().abs().max()) <= bound


@pytest.mark.parametrize(("depth", "kind"), [(18, Basic), (50, Bottleneck)])
def test_a_block_that_begins_as_identity_gives_its_shortcut(depth: int, kind: type[nn.Module]) -> None:
    torch.manual_seed(0)
    net = ResNet(depth, classes=3, width=8)
    before = parameters(net)
    net.begin_as_identity()
    blocks = [module for module in net.modules() if isinstance(module, kind)]
    assert len(blocks) == sum(STAGES[depth])
    x = torch.rand(2, 8, 6, 6)
    for block in net.layer1:  # type: ignore[union-attr]
        beside = x if block.downsample is None else block.downsample(x)
        x = block(x)
        assert torch.equal(x, beside.relu())
    assert parameters(net) == before
    zeros = [name for name, p in net.named_parameters() if name.endswith("weight") and not p.any()]
    last = {Basic: "bn2.weight", Bottleneck: "bn3.weight"}[kind]
    assert len(zeros) == len(blocks)
    assert all(name.endswith(last) for name in zeros)
