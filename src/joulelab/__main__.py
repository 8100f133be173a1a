# SPDX-License-Identifier: Apache-2.0
"""`python -m joulelab` is `joulelab`."""

from joulelab.cli import main

main()
