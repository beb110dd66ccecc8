# SPDX-License-Identifier: MIT
"""Tables as files."""
