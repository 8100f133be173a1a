# SPDX-License-Identifier: Apache-2.0
"""The network has the published layers, counts and start."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn
from torch.nn import functional

from joulelab.workloads.yolo_network import ANCHORS, C3, SIZES, SPPF, STRIDES, Bottleneck, Conv, Network
from tests.workloads.candle_parts import parameters

PUBLISHED = {
    ("n", 80): 1_872_157,
    ("s", 80): 7_235_389,
    ("m", 80): 21_190_557,
    ("l", 80): 46_563_709,
    ("x", 80): 86_749_405,
    ("n", 60): 1_845_097,
    ("s", 60): 7_181_449,
    ("m", 60): 21_109_737,
    ("l", 60): 46_456_009,
    ("x", 60): 86_614_825,
}


def convolution(layer: Conv) -> nn.Conv2d:
    first = layer[0]
    assert isinstance(first, nn.Conv2d)
    return first


def on_paper(size: str, classes: int) -> Network:
    with torch.device("meta"):
        return Network(SIZES[size], classes=classes)


@pytest.mark.parametrize(("size", "classes"), PUBLISHED)
def test_it_has_the_published_number_of_parameters(size: str, classes: int) -> None:
    assert parameters(on_paper(size, classes)) == PUBLISHED[size, classes]


def test_each_layer_has() -> None:
    net = on_paper("s", 60)
    assert {name: parameters(layer) for name, layer in net.named_children() if name != "heads"} == {
        "down_1": 3_520,
        "down_2": 18_560,
        "look_2": 18_816,
        "down_3": 73_984,
        "look_3": 115_712,
        "down_4": 295_424,
        "look_4": 625_152,
        "down_5": 1_180_672,
        "look_5": 1_182_720,
        "pool_5": 656_896,
        "side_5": 131_584,
        "up_4": 361_984,
        "side_4": 33_024,
        "out_3": 90_880,
        "back_4": 147_712,
        "out_4": 296_448,
        "back_5": 590_336,
        "out_5": 1_182_720,
    }
    assert [parameters(head) for head in net.heads] == [25_155, 50_115, 100_035]


@pytest.mark.parametrize(
    ("size", "blocks", "widest"),
    [
        ("n", [1, 2, 3, 1], 256),
        ("s", [1, 2, 3, 1], 512),
        ("m", [2, 4, 6, 2], 768),
        ("l", [3, 6, 9, 3], 1024),
        ("x", [4, 8, 12, 4], 1280),
    ],
)
def test_depth_and_width_of_a_size(size: str, blocks: list[int], widest: int) -> None:
    net = on_paper(size, 60)
    down = [net.look_2, net.look_3, net.look_4, net.look_5]
    up = [net.up_4, net.out_3, net.out_4, net.out_5]
    assert [len(layer.blocks) for layer in down] == blocks
    assert {len(layer.blocks) for layer in up} == {blocks[0]}
    assert all(block.residual for layer in down for block in layer.blocks)
    assert not any(block.residual for layer in up for block in layer.blocks)
    assert convolution(net.down_5).out_channels == widest


def test_constants_of_every_layer() -> None:
    net = on_paper("n", 60)
    norms = [module for module in net.modules() if isinstance(module, nn.BatchNorm2d)]
    assert norms
    assert {(norm.eps, norm.momentum) for norm in norms} == {(1e-3, 0.03)}
    convolutions = [module for module in net.modules() if isinstance(module, nn.Conv2d)]
    assert sum(c.bias is not None for c in convolutions) == 3, "only the last ones have a bias"
    first = convolution(net.down_1)
    assert [first.kernel_size, first.stride, first.padding] == [(6, 6), (2, 2), (2, 2)]


def test_what_comes_out() -> None:
    net = Network(SIZES["n"], classes=7).eval()
    shapes = [tuple(out.shape) for out in net(torch.zeros(2, 3, 64, 96))]
    assert shapes == [(2, 3, 8, 12, 12), (2, 3, 4, 6, 12), (2, 3, 2, 3, 12)]
    assert STRIDES == (8, 16, 32)
    assert ANCHORS[0][0] == (10, 13)
    assert ANCHORS[2][2] == (373, 326)


def test_an_output_stands_in_the_place_of_its_channel() -> None:
    net = Network(SIZES["n"], classes=2).eval()
    with torch.no_grad():
        for head in net.heads:
            assert isinstance(head, nn.Conv2d)
            assert head.bias is not None
            head.weight.zero_()
            head.bias.copy_(torch.arange(21.0))
        out = net(torch.zeros(1, 3, 64, 64))[0]
    assert out[0, :, 3, 5].tolist() == torch.arange(21.0).view(3, 7).tolist()


def test_biases_say_at_first_that_little_is_there() -> None:
    torch.manual_seed(0)
    plain = nn.Conv2d(1, 1, 1)  # torch's own start is at most 1 / sqrt(inputs)
    assert plain.bias is not None
    net = Network(SIZES["s"], classes=60)
    for head, stride, inputs in zip(net.heads, STRIDES, (128, 256, 512), strict=True):
        assert isinstance(head, nn.Conv2d)
        assert head.bias is not None
        of_box = head.bias.detach().view(3, 65)
        bound = 1 / math.sqrt(inputs) + 1e-6
        assert of_box[:, :4].abs().max() <= bound
        assert (of_box[:, 4] - math.log(8 / (640 / stride) ** 2)).abs().max() <= bound
        assert (of_box[:, 5:] - math.log(0.6 / (60 - 0.99999))).abs().max() <= bound
    assert all(p.isfinite().all() for p in Network(SIZES["n"], classes=1).heads.parameters())


def test_pooling_thrice_is_pooling_over_5_9_and_13_cells() -> None:
    layer = SPPF(8).eval()
    x = torch.randn(1, 8, 20, 20)
    narrow = layer.narrow(x)
    wide = [functional.max_pool2d(narrow, size, 1, size // 2) for size in (5, 9, 13)]
    torch.testing.assert_close(layer(x), layer.join(torch.cat((narrow, *wide), 1)))


def test_half_goes_around_the_blocks() -> None:
    layer = C3(4, 8, blocks=2).eval()
    x = torch.randn(1, 4, 6, 6)
    through = layer.through(x)
    for block in layer.blocks:
        assert isinstance(block, Bottleneck)
        through = through + block.look(block.narrow(through))
    torch.testing.assert_close(layer(x), layer.join(torch.cat((through, layer.around(x)), 1)))
