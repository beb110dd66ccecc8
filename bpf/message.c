// SPDX-License-Identifier: GPL-2.0-only
/*
 * What the driver writes into the kernel log. The faults of a command stream are handled in
 * functions the compiler inlines: the kernel's own words are all there is to see of them.
 */

/* dev_printk() puts the driver's name in front ("panthor fb000000.gpu: …"): these eight bytes. */
#define DRIVER_PREFIX 0x20726f68746e6170ull

TRACEPOINT_PROBE(printk, console)
{
	struct message_record *record = events.ringbuf_reserve(sizeof(struct message_record));

	if (!record) {
		count(COUNTER_LOST_MESSAGE);
		return 0;
	}
	__builtin_memset(record->text, 0, MESSAGE_BYTES);
	bpf_probe_read_kernel_str(record->text, MESSAGE_BYTES,
	                          (void *)args + (args->data_loc_msg & 0xffff));
	if (*(u64 *)record->text != DRIVER_PREFIX) {
		events.ringbuf_discard(record, BPF_RB_NO_WAKEUP);
		return 0;
	}
	fill_head(&record->head, RECORD_MESSAGE, 0, bpf_ktime_get_ns());
	events.ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	return 0;
}
