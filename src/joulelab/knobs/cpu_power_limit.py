# SPDX-License-Identifier: Apache-2.0
"""The power cap of the CPU packages."""

from __future__ import annotations

from typing import ClassVar

from joulelab.knobs.power_cap import PowerCap
from joulelab.records.parameter import Parameter


class CpuPowerLimit(PowerCap):
    """RAPL's long-term and short-term limit of each package, both set to the cap."""

    kind: ClassVar[str] = "cpu"
    words: ClassVar[str] = "CPU package"
    parameter: ClassVar[Parameter] = Parameter(
        name="cpu_power_limit",
        kind="str",
        help="power cap of each CPU package: watts, a share of its rated power such as 60%, or as-is; needs "
        "permission",
    )
