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
