// SPDX-License-Identifier: MIT
/*
 * Stands in for the Vulkan loader: functions of the right names and arguments that do nothing.
 * Memory of more than a GiB is refused, as a driver does.
 */
#define OUT_OF_DEVICE_MEMORY (-2)

struct allocate_info {
	int type;
	const void *next;
	unsigned long size;
	unsigned int memory_type;
};

int vkCreateInstance(const void *info, const void *allocator, void **instance)
{
	(void)info, (void)allocator, (void)instance;
	return 0;
}

int vkCreateDevice(void *gpu, const void *info, const void *allocator, void **device)
{
	(void)gpu, (void)info, (void)allocator, (void)device;
	return 0;
}

int vkAllocateMemory(void *device, const struct allocate_info *info, const void *allocator,
                     void *memory)
{
	(void)device, (void)allocator, (void)memory;
	return info->size > 1UL << 30 ? OUT_OF_DEVICE_MEMORY : 0;
}

void vkCmdDispatch(void *commands, unsigned int x, unsigned int y, unsigned int z)
{
	(void)commands, (void)x, (void)y, (void)z;
}
