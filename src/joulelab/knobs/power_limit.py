# SPDX-License-Identifier: Apache-2.0
"""The power cap of the GPUs that a trial uses."""

from __future__ import annotations

from typing import ClassVar

from joulelab.knobs.power_cap import PowerCap
from joulelab.records.parameter import Parameter


class PowerLimit(PowerCap):
    """NVIDIA through NVML, AMD and Intel through their kernel drivers; the same watts or share for each."""

    kind: ClassVar[str] = "gpu"
    words: ClassVar[str] = "GPU"
    parameter: ClassVar[Parameter] = Parameter(
        name="power_limit",
        kind="str",
        help="power cap of each GPU: watts, a share of the default such as 60%, or as-is; needs permission",
    )
