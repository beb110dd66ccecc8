// SPDX-License-Identifier: MIT
/* A libvulkan.so.1 whose dispatch does nothing: what is timed is the probe on it alone. */
#include <stdint.h>

void vkCmdDispatch(void *command_buffer, uint32_t x, uint32_t y, uint32_t z)
{
	__asm__ volatile("" : : "r"(command_buffer), "r"(x), "r"(y), "r"(z));
}
