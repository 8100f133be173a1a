# SPDX-License-Identifier: Apache-2.0
"""CUDA_VISIBLE_DEVICES as CUDA reads it."""

from __future__ import annotations

import pytest

from joulelab.hardware.nvidia_visible import Board, select

BOARDS = (
    Board(index=0, uuid="GPU-aaaa1111-0000"),
    Board(index=1, uuid="GPU-aaaa2222-0000"),
    Board(index=2, uuid="GPU-bbbb3333-0000", mig_uuids=("MIG-c0ffee-1", "MIG-c0ffee-2"), mig_enabled=True),
)


@pytest.mark.parametrize(
    ("visible", "indices", "stop"),
    [
        (None, [0, 1, 2], ""),
        ("", [], ""),
        ("  ", [], ""),
        ("0", [0], ""),
        (" 1 , 0 ", [1, 0], ""),
        ("0,-1,1", [0], ""),
        ("-1", [], ""),
        ("0,7,1", [0], "7"),
        ("0,0", [0], ""),
        ("NoDevFiles", [], "NoDevFiles"),
        ("GPU-aaaa2222-0000", [1], ""),
        ("GPU-aaaa2,GPU-bbbb", [1, 2], ""),
        ("GPU-aaaa", [], "GPU-aaaa"),  # two boards begin like that
        ("GPU-ffff,0", [], "GPU-ffff"),
        ("MIG-c0ffee-2", [2], ""),
        ("MIG-c0ffee-2,MIG-c0ffee-1", [2], ""),
        ("MIG-nope", [], "MIG-nope"),
        ("MIG-", [], "MIG-"),
        ("MIG-GPU-bbbb3333-0000/1/0", [2], ""),
        ("MIG-GPU-none/1/0", [], "MIG-GPU-none/1/0"),
        ("0x1", [], "0x1"),
    ],
)
def test_entries(visible: str | None, indices: list[int], stop: str) -> None:
    choices, stopped = select(visible, BOARDS)
    assert [c.board.index for c in choices] == indices
    assert stopped == stop


def test_a_board_with_mig_is_used_in_slices_only() -> None:
    for visible in (None, "2", "MIG-c0ffee-1", "GPU-bbbb"):
        choices, _ = select(visible, BOARDS)
        assert [c.is_slice for c in choices] == [c.board.index == 2 for c in choices]


def test_no_boards() -> None:
    assert select("0", ()) == ((), "0")
    assert select(None, ()) == ((), "")
