# SPDX-License-Identifier: Apache-2.0
"""A worker of which the second one ends before it has met the others: `early.py FOLDER`."""

from __future__ import annotations

import os
import sys

from joulelab.train.worker import main

if __name__ == "__main__":
    os._exit(7 if os.environ["RANK"] == "1" else main(sys.argv[1:]))
