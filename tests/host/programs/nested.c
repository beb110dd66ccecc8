// SPDX-License-Identifier: MIT
/* Makes the calls of nested_vulkan.c: a call within a call, one that is left by longjmp(), and one
 * in which the process ends. */
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>

void vkCmdDispatch(void *buffer, uint32_t x, uint32_t y, uint32_t z);
int vkEndCommandBuffer(void *buffer);
int vkQueueSubmit(jmp_buf *queue, uint32_t count, const void *submits, uint64_t fence);
int vkQueueWaitIdle(void *queue);

int main(void)
{
	static jmp_buf left;
	int buffer;

	vkCmdDispatch(&buffer, 1, 1, 1);
	if (vkEndCommandBuffer(&buffer) != -2)
		return 1;
	if (setjmp(left) == 0)
		vkQueueSubmit(&left, 0, NULL, 0);
	vkCmdDispatch(&buffer, 3, 1, 1);
	vkQueueWaitIdle(&buffer);
	return 1;
}
