// SPDX-License-Identifier: GPL-2.0-only
/*
 * The command buffers that vkQueueSubmit and vkQueueSubmit2 hand over, as array records of the
 * call's tid and enter_ns: only they tie a recorded dispatch to what was given to the kernel.
 *
 * Bounded: SUBMITS structs a call, SUBMIT_PARTS records a struct. What is beyond is counted, and
 * marks the call with FLAG_ARRAY_CUT.
 */
#define SUBMITS      16
#define SUBMIT_PARTS 4

/* vulkan_core.h: VkSubmitInfo holds handles, VkSubmitInfo2 structs of 32 bytes with a handle in. */
struct submit_layout {
	u32 size;
	u32 count;
	u32 pointer;
	u32 element;
};

/*
 * What went wrong goes into `flags`, in a map: of a variable the verifier would follow each value
 * it can have through each pass of the loops.
 */
static __always_inline void record_command_buffers(u64 submits, u32 submit_count, u32 version,
                                                   u64 enter_ns, u32 *flags)
{
	const struct submit_layout layout = {
	    .size = version == 2 ? 64 : 72,
	    .count = version == 2 ? 32 : 40,
	    .pointer = version == 2 ? 40 : 48,
	    .element = version == 2 ? 32 : 8,
	};
	u32 recorded = 0;
	u32 i, part;

#pragma clang loop unroll(disable)
	for (i = 0; i < SUBMITS; i++) {
		u64 place = submits + (u64)i * layout.size;
		u64 array = 0, total = 0;
		u32 buffers = 0;

		if (i >= submit_count)
			break;
		if (bpf_probe_read_user(&buffers, sizeof(buffers),
		                        (void *)(place + layout.count)) ||
		    bpf_probe_read_user(&array, sizeof(array), (void *)(place + layout.pointer))) {
			*flags |= FLAG_FAULT_BEFORE;
			break;
		}
		total = (u64)buffers * layout.element;
#pragma clang loop unroll(disable)
		for (part = 0; part < SUBMIT_PARTS; part++) {
			struct array_record *record;
			u64 at = (u64)part * ARRAY_BYTES;
			u64 length = total - at;

			if (at >= total)
				break;
			if (length > ARRAY_BYTES)
				length = ARRAY_BYTES;
			record = events.ringbuf_reserve(sizeof(struct array_record));
			if (!record) {
				*flags |= FLAG_ARRAY_CUT;
				break;
			}
			fill_head(&record->head, RECORD_ARRAY, 0, enter_ns);
			record->offset = recorded;
			record->length = length;
			if (bpf_probe_read_user(record->bytes, length, (void *)(array + at))) {
				record->head.flags = FLAG_FAULT_BEFORE;
				*flags |= FLAG_FAULT_BEFORE;
			}
			events.ringbuf_submit(record, BPF_RB_NO_WAKEUP);
			recorded += length;
		}
		if (total > SUBMIT_PARTS * ARRAY_BYTES)
			*flags |= FLAG_ARRAY_CUT;
	}
	if (submit_count > SUBMITS)
		*flags |= FLAG_ARRAY_CUT;
	if (*flags & FLAG_ARRAY_CUT)
		count(COUNTER_LOST_ARRAY);
	if (*flags & FLAG_FAULT_BEFORE) {
		count(COUNTER_FAULTED);
		/* To the call, it is the array that is incomplete, whatever the reason. */
		*flags = FLAG_ARRAY_CUT;
	}
}
