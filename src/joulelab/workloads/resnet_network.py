# SPDX-License-Identifier: Apache-2.0
"""Residual networks of 18 to 152 layers. Names and shapes of the parameters are those of torchvision's.

The stride of a bottleneck is in its 3x3 convolution, as everybody has it today; the paper of 2015 had it in
the first 1x1.
"""

from __future__ import annotations

import torch
from torch import nn

BLOCKS = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}
BOTTLENECKS = (50, 101, 152)


def _convolution(inputs: int, outputs: int, width: int, *, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, width, stride, padding=width // 2, bias=False)


class Basic(nn.Module):
    """Two 3x3 convolutions beside a shortcut."""

    expansion = 1

    def __init__(self, inputs: int, width: int, *, stride: int) -> None:
        super().__init__()
        self.conv1 = _convolution(inputs, width, 3, stride=stride)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = _convolution(width, width, 3)
        self.bn2 = nn.BatchNorm2d(width)
        self.downsample = _shortcut(inputs, width, stride=stride)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        beside = x if self.downsample is None else self.downsample(x)
        x = self.relu(self.bn1(self.conv1(x)))
        x = self.bn2(self.conv2(x))
        out: torch.Tensor = self.relu(x + beside)
        return out

    def last_norm(self) -> nn.BatchNorm2d:
        return self.bn2


class Bottleneck(nn.Module):
    """A 3x3 convolution between two of 1x1, beside a shortcut."""

    expansion = 4

    def __init__(self, inputs: int, width: int, *, stride: int) -> None:
        super().__init__()
        self.conv1 = _convolution(inputs, width, 1)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = _convolution(width, width, 3, stride=stride)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = _convolution(width, width * self.expansion, 1)
        self.bn3 = nn.BatchNorm2d(width * self.expansion)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = _shortcut(inputs, width * self.expansion, stride=stride)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        beside = x if self.downsample is None else self.downsample(x)
        x = self.relu(self.bn1(self.conv1(x)))
        x = self.relu(self.bn2(self.conv2(x)))
        x = self.bn3(self.conv3(x))
        out: torch.Tensor = self.relu(x + beside)
        return out

    def last_norm(self) -> nn.BatchNorm2d:
        return self.bn3


def _shortcut(inputs: int, outputs: int, *, stride: int) -> nn.Sequential | None:
    if stride == 1 and inputs == outputs:
        return None
    return nn.Sequential(_convolution(inputs, outputs, 1, stride=stride), nn.BatchNorm2d(outputs))


class ResNet(nn.Module):
    """`stem` is that for ImageNet (7x7 in steps of two, then pooling) or that for CIFAR (3x3, no pooling)."""

    def __init__(self, depth: int, *, classes: int, stem: str = "imagenet", width: int = 64) -> None:
        super().__init__()
        small = stem == "cifar"
        self.conv1 = _convolution(3, width, 3 if small else 7, stride=1 if small else 2)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.Identity() if small else nn.MaxPool2d(3, 2, padding=1)
        block = Bottleneck if depth in BOTTLENECKS else Basic
        inputs = width
        for number, count in enumerate(BLOCKS[depth]):
            stage = nn.Sequential()
            for k in range(count):
                wide, stride = width << number, 2 if number and not k else 1
                stage.append(block(inputs, wide, stride=stride))
                inputs = wide * block.expansion
            self.add_module(f"layer{number + 1}", stage)
        self.fc = nn.Linear(inputs, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        for number in range(1, 5):
            x = self.get_submodule(f"layer{number}")(x)
        out: torch.Tensor = self.fc(x.mean((2, 3)))
        return out

    def begin_as_identity(self) -> None:
        """Each block begins as its shortcut alone: large batches and large rates then start smoothly."""
        for module in self.modules():
            if isinstance(module, Basic | Bottleneck):
                nn.init.zeros_(module.last_norm().weight)
