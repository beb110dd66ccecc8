# SPDX-License-Identifier: MIT
"""What user space and the kernel say to one another, as data: ioctls, errnos, Vulkan functions."""
