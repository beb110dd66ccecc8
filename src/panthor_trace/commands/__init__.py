# SPDX-License-Identifier: MIT
"""One module a subcommand: options in, calls out, no logic of its own."""
