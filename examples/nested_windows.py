# SPDX-License-Identifier: Apache-2.0
"""Windows inside windows, a running value, and a decorator. Nothing is written to disk."""

import joulelab


@joulelab.measure("decode")
def decode(count: int) -> int:
    return sum(number * number for number in range(count))


with joulelab.measure("all") as everything:
    with joulelab.measure("first half") as first:
        decode(300_000)
    so_far = everything.so_far()  # read while the window runs
    decode(300_000)

print(f"first half {first.time_s:.3f} s, so far {so_far.time_s:.3f} s, all {everything.time_s:.3f} s")
assert first.time_s <= so_far.time_s <= everything.time_s
