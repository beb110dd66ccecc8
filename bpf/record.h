/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The wire format: what the BPF programs put into the ring and the trace's events.bin stores
 * unchanged.
 *
 * This file is the definition. src/panthor_trace/trace/records.py holds the same layouts as NumPy
 * dtypes, and tests/unit/test_records.py compiles this file and compares every offset. A record's
 * size tells nothing about its kind; its first byte does. Times are nanoseconds of CLOCK_MONOTONIC.
 * All members are naturally aligned and there is no implicit padding, so C and NumPy agree on both
 * architectures.
 *
 * New members go to the end of a record, and SCHEMA_VERSION in trace/records.py goes up with them.
 */
#ifndef PANTHOR_TRACE_RECORD_H
#define PANTHOR_TRACE_RECORD_H

enum record_type {
	RECORD_IOCTL = 1,
	RECORD_ARRAY = 2,
	RECORD_VULKAN = 3,
	RECORD_EXCEPTION = 4,
	RECORD_PROCESS = 5,
	RECORD_COUNTERS = 6,
	RECORD_DRIVER = 7,
	RECORD_KERNEL_STACK = 8,
	RECORD_MESSAGE = 9,
	RECORD_STACK = 10,
	RECORD_MAPPING = 11,
	RECORD_FAILURE = 12,
};

enum record_flag {
	/* The call had not returned when the record was made. */
	FLAG_UNFINISHED = 1 << 0,
	/* User memory could not be read: those bytes are zero and mean nothing. */
	FLAG_FAULT_BEFORE = 1 << 1,
	FLAG_FAULT_AFTER = 1 << 2,
	/* The argument is larger than ARGUMENT_BYTES; the rest is not here. */
	FLAG_ARGUMENT_CUT = 1 << 3,
	/* Part of the array the argument points to is not here. */
	FLAG_ARRAY_CUT = 1 << 4,
};

enum process_event {
	PROCESS_FORK = 1,
	PROCESS_EXEC = 2,
	PROCESS_EXIT = 3,
	/* The kernel's out-of-memory killer chose this process; the head is of who asked for
	   memory. */
	PROCESS_OOM_KILL = 4,
};

enum mapping_kind {
	/* mmap() of a panthor node. */
	MAPPING_NODE = 1,
	/* munmap() of what such an mmap() gave. */
	MAPPING_NODE_UNMAP = 2,
	/* mmap() of a file, executable: a library. */
	MAPPING_LIBRARY = 3,
	/* Any other mapping or unmapping: of it, only ENOMEM is told, by a failure_record. */
	MAPPING_OTHER = 4,
	/* openat() of a render node: `ret` is the descriptor or a negative errno, `address` where
	   the path was, `length` the process's soft limit on descriptors (0: not known). */
	MAPPING_OPEN = 5,
	/* openat() of any other file, refused for want of descriptors (EMFILE, ENFILE); `length` as
	   above. */
	MAPPING_FILE = 6,
};

/* Whether a process was stopped at its failure, or why not. */
enum hold {
	HOLD_HELD = 0,
	/* Turned off, or not possible. */
	HOLD_OFF = 1,
	/* A debugger has it. */
	HOLD_TRACED = 2,
	/* It is being stopped by somebody else. */
	HOLD_STOPPING = 3,
	/* It would notice being continued: it has a handler for SIGCONT, or blocks it. */
	HOLD_CATCHES = 4,
	/* Its parent might take notice. */
	HOLD_PARENT = 5,
	/* It was held often enough. */
	HOLD_OFTEN = 6,
	/* It is held for another thread's failure. */
	HOLD_ALREADY = 7,
	/* The signal could not be sent. */
	HOLD_REFUSED = 8,
};

/* enum bpf_stack_build_id_status (include/uapi/linux/bpf.h): what a stack frame holds. */
enum frame_status {
	FRAME_EMPTY = 0,
	/* The module's build id, and the offset in its file. */
	FRAME_BUILD_ID = 1,
	/* The address only: code of no file, or of one whose build id was not in memory. */
	FRAME_ADDRESS = 2,
};

/* What the BPF side counts because it could not record it; an index into counters. */
enum counter {
	/* No room in the ring, by record type; for an array also: longer than ARRAY_RECORDS hold.
	 */
	COUNTER_LOST_IOCTL = 0,
	COUNTER_LOST_ARRAY = 1,
	COUNTER_LOST_VULKAN = 2,
	COUNTER_LOST_EXCEPTION = 3,
	COUNTER_LOST_PROCESS = 4,
	/* A call was entered, but the map of calls in flight was full. */
	COUNTER_MISSED_IOCTL = 5,
	COUNTER_MISSED_VULKAN = 6,
	/* A Vulkan call returned whose entry was not seen. */
	COUNTER_UNMATCHED_VULKAN = 7,
	/* A child process could not be followed: the map of traced processes was full. */
	COUNTER_MISSED_PROCESS = 8,
	/* User memory that could not be read: the record is there, its bytes are not. */
	COUNTER_FAULTED = 9,
	/* No room in the ring for what a driver function did, for a message of the driver. */
	COUNTER_LOST_DRIVER = 16,
	COUNTER_LOST_MESSAGE = 17,
	/* A driver function was entered, but the map of calls in flight was full. */
	COUNTER_MISSED_DRIVER = 18,
	/* Returns that the kernel could not probe (kprobe_profile's misses), summed by user space.
	 */
	COUNTER_MISSED_RETURN = 19,
	/* A kernel stack that could not be kept. */
	COUNTER_LOST_KERNEL_STACK = 20,
	/* A failure without its user stack: no room in the ring. */
	COUNTER_LOST_STACK = 10,
	/* The same failure of the same process had STACKS_PER_SITE stacks already. */
	COUNTER_SKIPPED_STACK = 11,
	COUNTER_LOST_MAPPING = 12,
	/* A mapping of a node that could not be remembered: its end will not be seen. */
	COUNTER_MISSED_MAPPING = 13,
	/* The first failure of a kind: no room in the ring to tell user space at once. */
	COUNTER_LOST_FAILURE = 14,
	COUNTER_COUNT = 32,
};

/* The largest argument of panthor's ioctls so far is drm_panthor_group_create's, 56 bytes (7.3). */
#define ARGUMENT_BYTES 64
/* Four drm_panthor_vm_bind_op of 48 bytes. */
#define ARRAY_BYTES 192
/* A longer array spans records: up to 512 bind operations in one call. */
#define ARRAY_RECORDS 128
/* vkCmdDispatchBase has seven. */
#define VULKAN_ARGS     7
#define POINTEE_BYTES   64
#define TYPE_NAME_BYTES 128
#define PATH_BYTES      128
/* Values recorded of a driver function: arguments, members they lead to. */
#define DRIVER_VALUES    8
#define STACK_TEXT_BYTES 1536
#define MESSAGE_BYTES    224
#define NO_DESCRIPTOR    0xffffffff
#define BUILD_ID_BYTES   20
/* Mesa's ioctls lie some 20 frames below llama-bench's main() [measured, panvk 26.1.6]. */
#define STACK_FRAMES 48

struct record_head {
	u8 type;
	u8 flags;
	u16 reserved;
	u32 tgid;
	u32 tid;
	u32 reserved2;
	/* When the call was entered; for a record without duration, when it happened. */
	u64 enter_ns;
};

/* One ioctl on a panthor node. */
struct ioctl_record {
	struct record_head head;
	u64 exit_ns;
	s64 ret;
	u64 arg;
	u32 cmd;
	/* A descriptor of `file`, or NO_DESCRIPTOR where it was not found. */
	u32 fd;
	/* The node, as the kernel encodes a dev_t: major << 20 | minor. */
	u32 rdev;
	/* Size of the array the argument points to, whether or not all of it was recorded. */
	u32 array_bytes;
	u8 before[ARGUMENT_BYTES];
	u8 after[ARGUMENT_BYTES];
	/* The kernel's struct file: the same for all descriptors of one opening. GEM handles, VM,
	   group and heap ids mean something within it. */
	u64 file;
};

/* Part of the array an ioctl's argument points to, as it was at entry; same tid and enter_ns. Of a
   SYNCOBJ_TIMELINE_WAIT the points, 16 of 8 bytes, then the handles, 16 of 4. */
struct array_record {
	struct record_head head;
	u32 offset;
	u32 length;
	u8 bytes[ARRAY_BYTES];
};

/* One call of a probed Vulkan function. */
struct vulkan_record {
	struct record_head head;
	u64 exit_ns;
	s32 result;
	/* Index into the trace's own list of probed functions (meta.json). */
	u32 function;
	u64 args[VULKAN_ARGS];
	u8 pointee[POINTEE_BYTES];
};

/* A C++ exception at the moment it is thrown. */
struct exception_record {
	struct record_head head;
	char type_name[TYPE_NAME_BYTES];
};

struct process_record {
	struct record_head head;
	u32 event;
	/* PROCESS_FORK: the child, the head's tgid being the parent; PROCESS_OOM_KILL: the victim;
	   PROCESS_EXIT: the wait status, FLAG_FAULT_AFTER being set where it is not known. */
	u32 child;
	char path[PATH_BYTES];
};

/* What a function of the driver, or of DRM below it, did: a failure, or something no ioctl tells.
 */
struct driver_record {
	struct record_head head;
	u64 exit_ns;
	/* enter_ns of the ioctl it was called in on this thread; 0 outside all. */
	u64 ioctl_ns;
	/* Sign-extended from what the function returns; 0 for void. */
	s64 ret;
	/* Stack pointer at its entry: a function called by another one has a lower one. */
	u64 sp;
	/* Index into the trace's own list of probed driver functions (meta.json). */
	u32 function;
	/* The process it was done for: the head's, or found by the VM for what a kernel thread
	   does. 0: not known, or all of them. */
	u32 owner;
	/* Key of its kernel stack (kernel_stack_record); 0: none. */
	u64 stack;
	/* In the order of the function's row in meta.json. */
	u64 values[DRIVER_VALUES];
};

/* A kernel stack by name, innermost frame first, one a line; written by user space. */
struct kernel_stack_record {
	struct record_head head;
	u64 stack;
	u32 frames;
	u32 reserved;
	char text[STACK_TEXT_BYTES];
};

/* A line the driver wrote into the kernel log. */
struct message_record {
	struct record_head head;
	char text[MESSAGE_BYTES];
};

/* The same 32 bytes as struct bpf_stack_build_id. */
struct stack_frame {
	/* enum frame_status */
	s32 status;
	u8 build_id[BUILD_ID_BYTES];
	/* Offset in the module's file, or the address. */
	u64 offset;
};

/* The user stack of a failure, innermost frame first; belongs to the record of type `of` with the
   same tid and enter_ns. */
struct stack_record {
	struct record_head head;
	u32 of;
	u32 frames;
	struct stack_frame frame[STACK_FRAMES];
};

/* One mmap() or munmap(). */
struct mapping_record {
	struct record_head head;
	u64 exit_ns;
	/* The address, or a negative errno. */
	s64 ret;
	/* As asked for; 0 in an mmap() leaves the choice to the kernel. */
	u64 address;
	u64 length;
	u64 offset;
	/* enum mapping_kind */
	u32 kind;
	u32 protection;
	u32 mmap_flags;
	u32 fd;
	/* The file: the device it is (a node) or lies on (a library), and its inode number. */
	u32 device;
	/* Mappings of the process when the call returned; this and the next two are 0 where the
	   kernel's type information does not lead there. */
	u32 maps;
	u64 inode;
	/* Its address space in pages, and its soft RLIMIT_AS in bytes (all ones: none). */
	u64 address_space;
	u64 address_space_limit;
};

/* The first failure of its kind (what failed, with which error) in a process. */
struct failure_record {
	struct record_head head;
	/* When the call returned; head.enter_ns is when it was entered. */
	u64 when_ns;
	/* By `of`: the ioctl's cmd, the number of the Vulkan function, enum mapping_kind. */
	u64 what;
	/* The negative errno, or VkResult. */
	s64 error;
	/* The type of the call's record. */
	u32 of;
	/* enum hold */
	u32 hold;
};

/* The counters' sums so far; written by user space whenever they have changed. */
struct counters_record {
	struct record_head head;
	u64 values[COUNTER_COUNT];
};

#endif
