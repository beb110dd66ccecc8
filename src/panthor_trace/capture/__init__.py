# SPDX-License-Identifier: MIT
"""Everything privileged: launching the command, probing it, and recording. Decides nothing."""
