# SPDX-License-Identifier: MIT
"""Whether a machine has what the recording needs. Looks, and changes nothing.

Works without rich, numpy, pandas and bcc: that one of them is missing is among the things it has to say.
"""
