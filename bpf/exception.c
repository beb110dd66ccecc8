// SPDX-License-Identifier: GPL-2.0-only
/*
 * C++ exceptions when they are thrown: __cxa_throw(object, type_info, destructor) of libstdc++. A
 * std::type_info is a vtable pointer and the mangled name (Itanium C++ ABI 2.9.5), so the type is
 * known without symbols.
 */
int exception_thrown(struct pt_regs *ctx)
{
	struct exception_record *record;
	u64 now = bpf_ktime_get_ns();
	u64 name = 0;

	if (!is_traced(bpf_get_current_pid_tgid()))
		return 0;
	record = events.ringbuf_reserve(sizeof(struct exception_record));
	if (!record) {
		count(COUNTER_LOST_EXCEPTION);
		return 0;
	}
	fill_head(&record->head, RECORD_EXCEPTION, 0, now);
	__builtin_memset(record->type_name, 0, TYPE_NAME_BYTES);
	bpf_probe_read_user(&name, sizeof(name), (void *)(PT_REGS_PARM2(ctx) + 8));
	if (bpf_probe_read_user_str(record->type_name, TYPE_NAME_BYTES, (void *)name) < 0) {
		record->head.flags = FLAG_FAULT_BEFORE;
		count(COUNTER_FAULTED);
	}
	events.ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	record_stack_of(ctx, RECORD_EXCEPTION, 0, PT_REGS_PARM2(ctx), now, return_address(ctx));
	return 0;
}
