// SPDX-License-Identifier: GPL-2.0-only
/*
 * mmap() and munmap() of panthor's nodes, refused ones included: a buffer the kernel gave but would
 * not map fails the allocation as surely as one it refused. And the executable mappings of files,
 * by which user space learns that a library has come to be probed. And openings of render nodes,
 * for who is refused one never gets to make a request.
 */
#define PROT_EXEC     0x4
#define MAP_ANONYMOUS 0x20
#define MAX_ERRNO     4095
#define ENOENT        2
#define ENOMEM        12
#define ENFILE        23
#define EMFILE        24
#define RLIMIT_NOFILE 7
#define RLIMIT_AS     9
/* struct rlimit64: soft and hard. */
#define RLIMIT_BYTES 16

struct mapping_in_flight {
	u64 enter_ns;
	u64 address;
	u64 length;
	u64 offset;
	u64 inode;
	u32 kind;
	u32 protection;
	u32 mmap_flags;
	u32 fd;
	u32 device;
	u32 reserved;
};

struct node_mapping {
	u64 address;
	u64 tgid;
};

BPF_HASH(mappings_in_flight, u32, struct mapping_in_flight, 4096);
/* What of a node is mapped, for munmap() does not say what it unmaps. As many as a process may have
   mappings by default (vm.max_map_count); BPF_F_NO_PREALLOC is 1. */
BPF_F_TABLE("hash", struct node_mapping, u64, node_mappings, 65536, 1);

TRACEPOINT_PROBE(syscalls, sys_enter_mmap)
{
	struct mapping_in_flight call = {};
	u64 pid_tgid = bpf_get_current_pid_tgid();
	u32 tid = pid_tgid;
	u64 inode;

	if ((args->flags & MAP_ANONYMOUS) || !is_traced(pid_tgid))
		return 0;
	inode = file_behind(args->fd);
	inode = inode ? read_pointer(inode, FILE_INODE) : 0;
	if (!inode)
		return 0;
	call.device = read_u32(inode, INODE_RDEV);
	if (nodes.lookup(&call.device)) {
		call.kind = MAPPING_NODE;
	} else if (args->prot & PROT_EXEC) {
		call.kind = MAPPING_LIBRARY;
		call.device = read_u32(read_pointer(inode, INODE_SB), SB_DEV);
	} else {
		return 0;
	}
	call.inode = read_pointer(inode, INODE_INO);
	call.enter_ns = bpf_ktime_get_ns();
	call.address = args->addr;
	call.length = args->len;
	call.offset = args->off;
	call.protection = args->prot;
	call.mmap_flags = args->flags;
	call.fd = args->fd;
	if (mappings_in_flight.update(&tid, &call))
		count(COUNTER_LOST_MAPPING);
	return 0;
}

TRACEPOINT_PROBE(syscalls, sys_enter_munmap)
{
	struct mapping_in_flight call = {};
	u64 pid_tgid = bpf_get_current_pid_tgid();
	struct node_mapping key = {};
	u32 tid = pid_tgid;

	if (!is_traced(pid_tgid))
		return 0;
	key.address = args->addr;
	key.tgid = pid_tgid >> 32;
	if (!node_mappings.lookup(&key))
		return 0;
	call.kind = MAPPING_NODE_UNMAP;
	call.enter_ns = bpf_ktime_get_ns();
	call.address = args->addr;
	call.length = args->len;
	if (mappings_in_flight.update(&tid, &call))
		count(COUNTER_LOST_MAPPING);
	return 0;
}

/* Every opening is remembered: its path can only be read for certain when the kernel has read it.
 */
TRACEPOINT_PROBE(syscalls, sys_enter_openat)
{
	struct mapping_in_flight call = {};
	u64 pid_tgid = bpf_get_current_pid_tgid();
	u32 tid = pid_tgid;

	if (!is_traced(pid_tgid))
		return 0;
	call.kind = MAPPING_OPEN;
	call.enter_ns = bpf_ktime_get_ns();
	call.address = (u64)args->filename;
	call.fd = NO_DESCRIPTOR;
	if (mappings_in_flight.update(&tid, &call))
		count(COUNTER_LOST_MAPPING);
	return 0;
}

/* "/dev/dri" and "/render", little-endian. */
#define NODE_DIRECTORY 0x6972642f7665642full
#define NODE_RENDER    0x007265646e65722full

static __always_inline bool is_render_node(u64 path)
{
	u64 begins[2] = {};

	if (bpf_probe_read_user_str(begins, sizeof(begins), (const void *)path) < 0)
		return false;
	return begins[0] == NODE_DIRECTORY && begins[1] == NODE_RENDER;
}

/* How far the process is from its limits on mappings; a moment later it may have given them back.
 */
static __always_inline void process_limits(struct mapping_record *record)
{
#ifdef MM_MAP_COUNT
	u64 task = bpf_get_current_task();
	u64 mm = read_pointer(task, TASK_MM);

	record->maps = read_u32(mm, MM_MAP_COUNT);
	record->address_space = read_pointer(mm, MM_TOTAL_VM);
	record->address_space_limit =
	    read_pointer(read_pointer(task, TASK_SIGNAL), SIGNAL_RLIM + RLIMIT_AS * RLIMIT_BYTES);
	if (record->kind == MAPPING_OPEN || record->kind == MAPPING_FILE)
		record->length = read_pointer(read_pointer(task, TASK_SIGNAL),
		                              SIGNAL_RLIM + RLIMIT_NOFILE * RLIMIT_BYTES);
#endif
}

/* Puts what is known of a call that has returned into the ring. */
static __always_inline void record_mapping(struct mapping_in_flight *call, u64 pid_tgid, s64 ret)
{
	struct node_mapping key = {.tgid = pid_tgid >> 32};
	bool refused = ret < 0 && ret >= -MAX_ERRNO;
	struct mapping_record *record;

	if (call->kind == MAPPING_NODE && !refused) {
		key.address = ret;
		if (node_mappings.update(&key, &call->length))
			count(COUNTER_MISSED_MAPPING);
	} else if (call->kind == MAPPING_NODE_UNMAP && !refused) {
		key.address = call->address;
		node_mappings.delete(&key);
	}
	record = call_returned(sizeof(struct mapping_record), RECORD_MAPPING, 0, pid_tgid,
	                       call->enter_ns, COUNTER_LOST_MAPPING);
	if (!record)
		return;
	record->ret = ret;
	record->address = call->address;
	record->length = call->length;
	record->offset = call->offset;
	record->kind = call->kind;
	record->protection = call->protection;
	record->mmap_flags = call->mmap_flags;
	record->fd = call->fd;
	record->device = call->device;
	record->inode = call->inode;
	record->maps = 0;
	record->address_space = 0;
	record->address_space_limit = 0;
	process_limits(record);
	events.ringbuf_submit(record, BPF_RB_NO_WAKEUP);
}

/* Whether an errno is news. A library is tried in many places, and of a mapping that is not ours
   nothing is recorded: only want of memory counts, for who has none fails at something else next.
   Programs look for nodes by trying their names: that one is not there is no failure. */
static __always_inline bool mapping_failed(u32 kind, s64 ret)
{
	if (ret >= 0 || ret < -MAX_ERRNO)
		return false;
	if (kind == MAPPING_LIBRARY || kind == MAPPING_OTHER)
		return ret == -ENOMEM;
	return kind != MAPPING_OPEN || ret != -ENOENT;
}

/* A server may try for ever: the first ones of a process are told. */
#define FILES_TOLD 32
BPF_TABLE("lru_hash", u32, u32, files_told, 1024);

static __always_inline bool is_want_of_descriptors(s64 ret)
{
	u32 tgid = bpf_get_current_pid_tgid() >> 32;
	u32 zero = 0;
	u32 *told;

	if (ret != -EMFILE && ret != -ENFILE)
		return false;
	told = files_told.lookup_or_try_init(&tgid, &zero);
	return told && (*told)++ < FILES_TOLD;
}

/* What all events of system calls' ends have (events/syscalls/sys_exit_mmap/format). */
struct system_call_end {
	u64 common;
	s64 number;
	s64 ret;
};

/* At the end of mmap(), munmap() and openat(): one program, compiled once. */
int mapping_leave(struct system_call_end *end)
{
	u64 pid_tgid = bpf_get_current_pid_tgid();
	u32 tid = pid_tgid;
	struct mapping_in_flight *call = mappings_in_flight.lookup(&tid);
	u64 enter_ns = bpf_ktime_get_ns();
	u32 kind = MAPPING_OTHER;
	s64 ret = end->ret;

	if (call) {
		if (call->kind == MAPPING_OPEN && !is_render_node(call->address))
			call->kind = is_want_of_descriptors(ret) ? MAPPING_FILE : 0;
		kind = call->kind;
		enter_ns = call->enter_ns;
		if (kind)
			record_mapping(call, pid_tgid, ret);
		mappings_in_flight.delete(&tid);
	} else if (ret != -ENOMEM || !is_traced(pid_tgid)) {
		return 0;
	}
	if (kind && mapping_failed(kind, ret))
		call_failed(end, kind != MAPPING_LIBRARY && kind != MAPPING_OTHER, RECORD_MAPPING,
		            kind, ret, enter_ns);
	return 0;
}
