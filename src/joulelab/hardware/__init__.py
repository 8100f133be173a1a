# SPDX-License-Identifier: Apache-2.0
"""What this machine has. One vendor a file; a new vendor is one file and one line here."""

DEVICES = {
    "nvidia": "joulelab.hardware.nvidia:Nvidia",
    "rapl": "joulelab.hardware.rapl:Rapl",
    "estimate": "joulelab.hardware.estimate:Estimate",
    "fake": "joulelab.hardware.fake:Fake",
    "replay": "joulelab.hardware.replay:Replay",
}

# Looked for unasked, in this order. The estimate joins only where no energy sensor was found;
# fakes and replays only when named.
AUTOMATIC = ("nvidia", "rapl")

# Whose power can be capped; the same names as above where one vendor does both.
CAPS = {
    "nvidia": "joulelab.hardware.caps_nvidia:NvidiaCap",
    "amd": "joulelab.hardware.caps_hwmon:AmdCap",
    "intel_gpu": "joulelab.hardware.caps_hwmon:IntelGpuCap",
    "rapl": "joulelab.hardware.caps_rapl:RaplCap",
    "cray": "joulelab.hardware.caps_cray:CrayCap",
    "fake": "joulelab.hardware.caps_fake:FakeCap",
}

# A cap is looked for with these, in this order. A fake never steps in for a device that is missing or denied,
# and
# a Cray's controller is only looked at.
AUTOMATIC_CAPS = ("nvidia", "amd", "intel_gpu", "rapl")
