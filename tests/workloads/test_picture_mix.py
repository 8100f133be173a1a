# SPDX-License-Identifier: Apache-2.0
"""CutMix and mixup on pictures of which every pixel says whose it is."""

from __future__ import annotations

import pytest
import torch

from joulelab.workloads.picture_mix import Mixed


def mixed(count: int, *, how: str, share: float = 1.0, size: int = 8, seed: int = 0) -> Mixed:
    return Mixed(count, size=size, how=how, share=share, generator=torch.Generator().manual_seed(seed))


def numbered(count: int, size: int = 8) -> torch.Tensor:
    """Every pixel of a picture is its number, from nought."""
    return torch.arange(float(count))[:, None, None, None].expand(count, 3, size, size).contiguous()


def test_a_box_of_another_worked_out_by_hand() -> None:
    made = mixed(2, how="cutmix", size=4)
    # The first has columns 1 and 2 of rows 0 to 2 from the other, the other only its last corner.
    made._first = torch.tensor([[[0.0], [3.0]], [[1.0], [3.0]]])
    made._end = torch.tensor([[[3.0], [4.0]], [[3.0], [4.0]]])
    x, others, own = made(numbered(2, 4) + 5, torch.tensor([7, 9]), slice(0, 2))
    assert x[0, 0].tolist() == [[5, 6, 6, 5], [5, 6, 6, 5], [5, 6, 6, 5], [5, 5, 5, 5]]
    assert x[1, 2].tolist() == [[6, 6, 6, 6], [6, 6, 6, 6], [6, 6, 6, 6], [6, 6, 6, 5]]
    assert others.tolist() == [9, 7]
    assert own.tolist() == [10 / 16, 15 / 16]


def test_one_shines_through_the_other_by_its_share() -> None:
    made = mixed(2, how="mixup", size=4)
    made._own = torch.tensor([0.75, 0.5])
    x, others, own = made(numbered(2, 4) * 8, torch.tensor([7, 9]), slice(0, 2))
    assert (x[0] == 2.0).all()
    assert (x[1] == 4.0).all()
    assert (others.tolist(), own.tolist()) == ([9, 7], [0.75, 0.5])


def test_boxes_are_anywhere_of_any_size_and_counted_to_the_pixel() -> None:
    count, size = 2000, 16
    x, others, own = mixed(count, how="cutmix", size=size)(
        numbered(count, size), torch.arange(count), slice(0, count)
    )
    mine = x == torch.arange(float(count))[:, None, None, None]
    theirs = x == others[:, None, None, None]
    assert (mine | theirs).all(), "pixels are of one or the other"
    assert (mine[:, :1] == mine).all(), "of all colours"
    torch.testing.assert_close(own, mine[:, 0].float().mean((1, 2)))
    for one in theirs[:, 0]:
        high, wide = one.any(1), one.any(0)
        assert int(one.sum()) == int(high.sum()) * int(wide.sum()), "a box"
        assert int(high.diff().sum()) <= 2, "without a gap"
        assert int(wide.diff().sum()) <= 2, "without a gap"
    # Of a box of side s about any place s - s^2/4 lies inside in each direction; squared, and s^2 being any
    # number from 0 to 1, that is 1/2 - 1/5 + 1/48 = 0.321 on average.
    assert float(own.mean()) == pytest.approx(0.679, abs=0.02)
    assert float(own.min()) < 0.1
    assert (own == 1).float().mean() < 0.02, "hardly one has no pixel of the other"
    at = theirs[:, 0].float().mean(0)
    assert float((at - at.flip(0)).abs().max()) < 0.05
    assert float((at - at.flip(1)).abs().max()) < 0.05
    assert float((at - at.T).abs().max()) < 0.05


def test_all_shares_of_mixup_are_equally_likely() -> None:
    own = mixed(4000, how="mixup", size=2)(numbered(4000, 2), torch.arange(4000), slice(0, 4000))[2]
    tenths = torch.histc(own, 10, 0.0, 1.0) / 4000
    assert ((tenths > 0.08) & (tenths < 0.12)).all()


def test_so_many_are_mixed_and_the_others_are_as_they_were() -> None:
    for how in ("cutmix", "mixup", "both"):
        x, _, own = mixed(2000, how=how, share=0.3, size=32)(
            numbered(2000, 32), torch.arange(2000), slice(0, 2000)
        )
        alone = own == 1.0
        assert 0.68 < float(alone.float().mean()) < 0.74, how
        assert torch.equal(x[alone], numbered(2000, 32)[alone])
        # Of one picture every pixel is of the same kind under mixup, and whole pixels are taken in CutMix.
        flat = (x == x[:, :1, :1, :1]).flatten(1).all(1)
        through = float((flat & ~alone).float().mean())
        assert (0.0 <= through < 0.02, 0.27 < through < 0.33, 0.12 < through < 0.18)[
            ("cutmix", "mixup", "both").index(how)
        ]
    none = mixed(50, how="both", share=0.0)(numbered(50), torch.arange(50), slice(0, 50))
    assert torch.equal(none[0], numbered(50))


def test_a_batch_is_mixed_with_itself_by_the_draws_of_its_place() -> None:
    made = mixed(30, how="both")
    labels = torch.arange(30)
    x, others, own = made(numbered(30)[10:15], labels[10:15], slice(10, 15))
    assert others.tolist() == [14, 13, 12, 11, 10]
    assert 10 <= float(x.min()) <= float(x.max()) <= 14
    again = mixed(30, how="both")(numbered(30)[10:15], labels[10:15], slice(10, 15))
    assert torch.equal(again[0], x)
    assert torch.equal(again[2], own)
    other_seed = mixed(30, how="both", seed=1)(numbered(30)[10:15], labels[10:15], slice(10, 15))
    assert not torch.equal(other_seed[2], own)
    assert not torch.equal(made(numbered(5), labels[:5], slice(0, 5))[2], own), "other draws elsewhere"


@pytest.mark.parametrize("how", ["cutmix", "both"])
@pytest.mark.parametrize("order", [torch.channels_last, torch.contiguous_format])
def test_order_in_memory_and_format_are_kept(order: torch.memory_format, how: str) -> None:
    batch = numbered(6).double().contiguous(memory_format=order)
    x, _, own = mixed(6, how=how)(batch, torch.arange(6), slice(0, 6))
    assert x.is_contiguous(memory_format=order)
    assert x.dtype == own.dtype == torch.float64
