// SPDX-License-Identifier: GPL-2.0-only
/*
 * Faults by name: /sys/kernel/debug/stub_gpu/inject.
 *
 *	echo "cs-fatal csg=0 cs=0 code=0x49" > inject	now, on that stream
 *	echo "tiler-oom at=5" > inject			when the fifth further job begins, on its
 *stream cat inject					names, what is armed, how the last armed one
 *went
 *
 * A write fails with EINVAL for a name or argument nobody knows, ENODEV where no group is running
 *(arm it with at=, or hold a job first), ENOENT where tiler-oom knows no heap, ENOSPC when too many
 *are armed.
 */
#include <linux/debugfs.h>
#include <linux/kernel.h>
#include <linux/seq_file.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#include "stub.h"

enum arg { ARG_CSG, ARG_CS, ARG_HEAP, ARG_CODE, ARG_ADDR, ARG_PASSES, ARG_RECOVER, ARG_AT, ARGS };

static const char *const arg_names[ARGS] = {
    [ARG_CSG] = "csg",   [ARG_CS] = "cs",         [ARG_HEAP] = "heap",       [ARG_CODE] = "code",
    [ARG_ADDR] = "addr", [ARG_PASSES] = "passes", [ARG_RECOVER] = "recover", [ARG_AT] = "at",
};

struct args {
	u64 value[ARGS];
	u32 given;
};

struct kind {
	const char *name;
	const char *help;
	int (*fire)(const struct args *args, unsigned int g, unsigned int q);
	u32 takes; /* arguments, beside csg, cs and at of those that need a stream */
	bool needs_stream;
	bool at_job_only; /* means something only when a job begins: at=1 if not given */
};

struct armed {
	const struct kind *kind; /* NULL: free */
	struct args args;
	u64 jobs_left;
};

static struct armed armed[8];
static const struct kind *last_armed;
static int last_armed_result;

static u64 arg(const struct args *args, enum arg which, u64 otherwise)
{
	return args->given & BIT(which) ? args->value[which] : otherwise;
}

/* The heap the stream itself set; else one its group set; else one set in the same address space.
 */
static u64 known_heap(unsigned int g, unsigned int q)
{
	u32 as = CSG_CONFIG_AS(csg_in(g)->config);
	unsigned int i, j;

	if (stub.csg[g].cs[q].heap)
		return stub.csg[g].cs[q].heap;
	for (j = 0; j < FW_CS_COUNT; j++)
		if (stub.csg[g].cs[j].heap)
			return stub.csg[g].cs[j].heap;
	for (i = 0; i < FW_CSG_COUNT; i++) {
		if (!csg_running(i) || CSG_CONFIG_AS(csg_in(i)->config) != as)
			continue;
		for (j = 0; j < FW_CS_COUNT; j++)
			if (stub.csg[i].cs[j].heap)
				return stub.csg[i].cs[j].heap;
	}
	return 0;
}

static int fire_tiler_oom(const struct args *args, unsigned int g, unsigned int q)
{
	struct cs_output *out = cs_out(g, q);
	u64 heap = arg(args, ARG_HEAP, known_heap(g, q));
	u32 passes = arg(args, ARG_PASSES, 1);

	if (!heap)
		return -ENOENT;
	if (!passes)
		return -EINVAL;
	WRITE_ONCE(out->heap_address, heap);
	/* Render passes in flight are vt_start - frag_end; the driver wants frag_end <= vt_end <
	 * vt_start. */
	WRITE_ONCE(out->heap_vt_start, passes);
	WRITE_ONCE(out->heap_vt_end, passes - 1);
	WRITE_ONCE(out->heap_frag_end, 0);
	stub.csg[g].cs[q].oom_pending = 1;
	stub.count.tiler_oom_events++;
	cs_event(g, q, CS_TILER_OOM);
	return 0;
}

/* Codes: enum drm_panthor_exception_type, panthor_device.h */
#define EXCEPTION_CS_INVALID_INSTRUCTION 0x49
#define EXCEPTION_DATA_INVALID_FAULT     0x58
/* TRANSLATION_FAULT at level 3, a read */
#define FAULTSTATUS_TRANSLATION_READ 0x2c3

static int fire_cs_fault(const struct args *args, unsigned int g, unsigned int q)
{
	WRITE_ONCE(cs_out(g, q)->fault, arg(args, ARG_CODE, EXCEPTION_DATA_INVALID_FAULT));
	WRITE_ONCE(cs_out(g, q)->fault_info, arg(args, ARG_ADDR, 0));
	stub.csg[g].cs[q].faulted = 1;
	cs_event(g, q, CS_FAULT);
	return 0;
}

static int fire_cs_fatal(const struct args *args, unsigned int g, unsigned int q)
{
	WRITE_ONCE(cs_out(g, q)->fatal, arg(args, ARG_CODE, EXCEPTION_CS_INVALID_INSTRUCTION));
	WRITE_ONCE(cs_out(g, q)->fatal_info, arg(args, ARG_ADDR, 0));
	stub.csg[g].cs[q].fatal = 1;
	cs_event(g, q, CS_FATAL);
	return 0;
}

static int fire_mmu_fault(const struct args *args, unsigned int g, unsigned int q)
{
	/* The stream cannot go on after a failed access. */
	stub.csg[g].cs[q].fatal = 1;
	mmu_fault(CSG_CONFIG_AS(csg_in(g)->config), arg(args, ARG_ADDR, 0xdead000),
	          arg(args, ARG_CODE, FAULTSTATUS_TRANSLATION_READ));
	return 0;
}

static int fire_hang(const struct args *args, unsigned int g, unsigned int q)
{
	stub.csg[g].cs[q].hung = 1;
	return 0;
}

static int fire_progress_timeout(const struct args *args, unsigned int g, unsigned int q)
{
	csg_event(g, CSG_PROGRESS_TIMER_EVENT);
	return 0;
}

static int fire_mcu_dead(const struct args *args, unsigned int g, unsigned int q)
{
	stub.mcu_dead = true;
	stub.mcu_dead_until_boot = arg(args, ARG_RECOVER, 0);
	return 0;
}

static int fire_hold(const struct args *args, unsigned int g, unsigned int q)
{
	stub.hold = true;
	return 0;
}

static int fire_release(const struct args *args, unsigned int g, unsigned int q)
{
	stub.hold = false;
	return 0;
}

static int fire_clear(const struct args *args, unsigned int g, unsigned int q)
{
	unsigned int i, j;

	memset(armed, 0, sizeof(armed));
	stub.hold = false;
	stub.mcu_dead = false;
	for (i = 0; i < FW_CSG_COUNT; i++)
		for (j = 0; j < FW_CS_COUNT; j++)
			stub.csg[i].cs[j].hung = 0;
	return 0;
}

static const struct kind kinds[] = {
    {"tiler-oom", "the tiler wants a heap chunk: panthor_heap_grow (heap=VA passes=N)",
     fire_tiler_oom, BIT(ARG_HEAP) | BIT(ARG_PASSES), true},
    {"cs-fault", "CS_FAULT, the stream goes on (code=0x58 addr=INFO)", fire_cs_fault,
     BIT(ARG_CODE) | BIT(ARG_ADDR), true},
    {"cs-fatal", "CS_FATAL, the stream stops, the group is lost (code=0x49 addr=INFO)",
     fire_cs_fatal, BIT(ARG_CODE) | BIT(ARG_ADDR), true},
    {"mmu-fault", "page fault in the group's address space (addr=VA code=FAULTSTATUS)",
     fire_mmu_fault, BIT(ARG_CODE) | BIT(ARG_ADDR), true},
    {"hang", "the next job never ends: the driver's 5 s job timeout", fire_hang, 0, true, true},
    {"progress-timeout", "CSG_PROGRESS_TIMER_EVENT: the group made no progress",
     fire_progress_timeout, 0, true},
    {"mcu-dead",
     "the firmware answers nothing, boots neither (recover=1: boots again after a reset)",
     fire_mcu_dead, BIT(ARG_RECOVER)},
    {"hold", "leave jobs in their rings, so that groups stay resident", fire_hold},
    {"release", "end hold and run what was held", fire_release},
    {"clear", "disarm everything, end hold, hang and mcu-dead", fire_clear},
};

/* Armed events, when a job begins on slot g, stream q. From the timer: nothing is printed here. */
void inject_job_begins(unsigned int g, unsigned int q)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(armed); i++) {
		struct armed *a = &armed[i];

		if (!a->kind || arg(&a->args, ARG_CSG, g) != g || arg(&a->args, ARG_CS, q) != q)
			continue;
		if (--a->jobs_left)
			continue;
		last_armed = a->kind;
		last_armed_result = a->kind->fire(&a->args, g, q);
		stub.count.injections += !last_armed_result;
		a->kind = NULL;
	}
}

/* The stream an immediate event hits: as told, else the first running one, one with work if any
 * has. */
static int pick_stream(const struct args *args, unsigned int *g, unsigned int *q)
{
	bool found = false;
	unsigned int i, j;

	if (!mcu_alive())
		return -ENODEV;
	for (i = 0; i < FW_CSG_COUNT; i++) {
		if (arg(args, ARG_CSG, i) != i || !csg_running(i))
			continue;
		for (j = 0; j < FW_CS_COUNT; j++) {
			if (arg(args, ARG_CS, j) != j || !cs_running(i, j))
				continue;
			if (found && !ring_has_work(i, j))
				continue;
			*g = i;
			*q = j;
			found = true;
			if (ring_has_work(i, j))
				return 0;
		}
	}
	return found ? 0 : -ENODEV;
}

static int arm(const struct kind *kind, const struct args *args, u64 jobs)
{
	unsigned int i;

	if (!jobs)
		return -EINVAL;
	for (i = 0; i < ARRAY_SIZE(armed); i++) {
		if (armed[i].kind)
			continue;
		armed[i].kind = kind;
		armed[i].args = *args;
		armed[i].jobs_left = jobs;
		return 0;
	}
	return -ENOSPC;
}

static int inject(const struct kind *kind, const struct args *args)
{
	unsigned int g = 0, q = 0;
	int ret;

	if (kind->at_job_only || (args->given & BIT(ARG_AT)))
		return arm(kind, args, arg(args, ARG_AT, 1));
	if (kind->needs_stream) {
		ret = pick_stream(args, &g, &q);
		if (ret)
			return ret;
	}
	ret = kind->fire(args, g, q);
	if (ret)
		return ret;
	stub.count.injections++;
	if (mcu_alive())
		csg_run_all(); /* release, clear: run what waited */
	return 0;
}

static int parse_args(const struct kind *kind, char *text, struct args *args)
{
	u32 takes = kind->takes | BIT(ARG_AT);
	char *word;

	if (kind->needs_stream)
		takes |= BIT(ARG_CSG) | BIT(ARG_CS);
	while ((word = strsep(&text, " \t"))) {
		char *value = strchr(word, '=');
		unsigned int which;

		if (!*word)
			continue;
		if (!value)
			return -EINVAL;
		*value++ = '\0';
		for (which = 0; which < ARGS && strcmp(arg_names[which], word); which++)
			;
		if (which == ARGS || !(takes & BIT(which)) ||
		    kstrtou64(value, 0, &args->value[which]))
			return -EINVAL;
		args->given |= BIT(which);
	}
	if (arg(args, ARG_CSG, 0) >= FW_CSG_COUNT || arg(args, ARG_CS, 0) >= FW_CS_COUNT)
		return -EINVAL;
	return 0;
}

static void complain(const char *line)
{
	char names[160] = "";
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(kinds); i++) {
		strlcat(names, " ", sizeof(names));
		strlcat(names, kinds[i].name, sizeof(names));
	}
	pr_warn("stub_gpu: cannot inject \"%s\"; known:%s (arguments: read the file)\n", line,
	        names);
}

static const struct kind *find_kind(const char *name)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(kinds); i++)
		if (!strcmp(kinds[i].name, name))
			return &kinds[i];
	return NULL;
}

static ssize_t inject_write(struct file *file, const char __user *from, size_t size, loff_t *pos)
{
	char line[256], original[256];
	struct args args = {};
	const struct kind *kind;
	char *rest = line;
	unsigned long flags;
	int ret;

	if (size >= sizeof(line))
		return -EINVAL;
	if (copy_from_user(line, from, size))
		return -EFAULT;
	line[size] = '\0';
	strscpy(original, strim(line), sizeof(original));
	strscpy(line, original, sizeof(line));
	kind = find_kind(strsep(&rest, " \t"));
	if (!kind || parse_args(kind, rest, &args)) {
		complain(original);
		return -EINVAL;
	}
	raw_spin_lock_irqsave(&stub.lock, flags);
	stub.now = ktime_get();
	stub.last_activity = stub.now;
	ret = inject(kind, &args);
	raw_spin_unlock_irqrestore(&stub.lock, flags);
	if (ret == -ENODEV)
		pr_warn("stub_gpu: \"%s\": no such stream is running; arm it with at=N, or hold a "
		        "job\n",
		        original);
	else if (ret == -ENOENT)
		pr_warn("stub_gpu: \"%s\": no stream has set a heap; pass heap=VA\n", original);
	return ret ? ret : size;
}

static int inject_show(struct seq_file *seq, void *unused)
{
	struct armed now[ARRAY_SIZE(armed)];
	const struct kind *last;
	unsigned long flags;
	bool hold, dead;
	int result;
	unsigned int i;

	raw_spin_lock_irqsave(&stub.lock, flags);
	memcpy(now, armed, sizeof(now));
	last = last_armed;
	result = last_armed_result;
	hold = stub.hold;
	dead = stub.mcu_dead;
	raw_spin_unlock_irqrestore(&stub.lock, flags);

	for (i = 0; i < ARRAY_SIZE(kinds); i++)
		seq_printf(seq, "%-17s %s\n", kinds[i].name, kinds[i].help);
	seq_puts(seq,
	         "arguments: at=N (when the Nth further job begins); csg= cs= (default: the first"
	         " running stream, or the one whose job begins)\n");
	seq_printf(seq, "hold: %s\nmcu-dead: %s\n", hold ? "yes" : "no", dead ? "yes" : "no");
	for (i = 0; i < ARRAY_SIZE(now); i++)
		if (now[i].kind)
			seq_printf(seq, "armed: %s in %llu jobs\n", now[i].kind->name,
			           now[i].jobs_left);
	if (last)
		seq_printf(seq, "last armed: %s %s\n", last->name,
		           result == -ENOENT ? "failed: no stream has set a heap"
		           : result          ? "failed"
		                             : "fired");
	return 0;
}

static int inject_open(struct inode *inode, struct file *file)
{
	return single_open(file, inject_show, NULL);
}

static const struct file_operations inject_fops = {
    .owner = THIS_MODULE,
    .open = inject_open,
    .read = seq_read,
    .write = inject_write,
    .llseek = seq_lseek,
    .release = single_release,
};

void inject_init(struct dentry *dir)
{
	debugfs_create_file("inject", 0600, dir, NULL, &inject_fops);
}
