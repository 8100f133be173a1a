# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from joulelab.errors import InputError
from joulelab.records.parameter import Parameter

BATCH = Parameter(name="batch_size", kind="int", help="samples a step", minimum=1, maximum=100)


@pytest.mark.parametrize("value", [0, 101, 2.5, "20", True, None, float("nan")])
def test_what_is_not_legal_is_refused_with_what_is(value: object) -> None:
    with pytest.raises(InputError, match=r"study\.toml:3: batch_size = .*\n.*whole number from 1 to 100"):
        BATCH.check(value, where="study.toml:3")


def test_types_are_kept_and_whole_numbers_serve_as_numbers() -> None:
    assert BATCH.check(20) == 20
    rate = Parameter(name="rate", kind="float", help="")
    assert isinstance(rate.check(1), float)
    flag = Parameter(name="flag", kind="bool", help="", minimum=0)
    assert flag.check(False) is False
    with pytest.raises(InputError, match="legal: a number"):
        rate.check(float("nan"))


def test_choices() -> None:
    precision = Parameter(name="precision", kind="str", help="", choices=("fp32", "bf16"))
    assert precision.check("bf16") == "bf16"
    with pytest.raises(InputError, match="legal: fp32, bf16"):
        precision.check("bf61")


@pytest.mark.parametrize(
    ("kind", "value"),
    [("int", 10**30), ("int", 2**63), ("float", float("inf")), ("float", 10**400), ("str", "caf\udce9")],
)
def test_what_no_spec_can_hold_is_refused(kind: str, value: object) -> None:
    with pytest.raises(InputError, match=r"is not legal\n  cure: legal: "):
        Parameter(name="x", kind=kind, help="").check(value)
