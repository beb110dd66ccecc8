// SPDX-License-Identifier: MIT
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gpu.h"
#include "machine.h"
#include "undo.h"

static char root[128];      /* where cgroup v2 is mounted */
static char group[192];     /* ours */
static bool enabled_memory; /* we switched the controller on for the root's children */

uint64_t more_than_memory(void)
{
	struct sysinfo info;
	uint64_t total;

	sysinfo(&info);
	total = (uint64_t)(info.totalram + info.totalswap) * info.mem_unit;
	return (total + 128 * MIB) / (2 * MIB) * (2 * MIB);
}

/* A small file's text in `text`; -errno or its length. */
static int read_text(const char *path, char *text, size_t room)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t length;

	text[0] = '\0';
	if (fd < 0)
		return -errno;
	length = read(fd, text, room - 1);
	close(fd);
	if (length < 0)
		return -errno;
	text[length] = '\0';
	return (int)length;
}

/* Async-signal-safe. */
static int write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	int error = 0;

	if (fd < 0)
		return errno;
	if (write(fd, text, strlen(text)) < 0)
		error = errno;
	close(fd);
	return error;
}

static bool has_word(const char *text, const char *word)
{
	size_t length = strlen(word);

	for (const char *at = text; (at = strstr(at, word)); at += length)
		if ((at == text || at[-1] == ' ') && (!at[length] || strchr(" \n", at[length])))
			return true;
	return false;
}

static bool find_root(void)
{
	char mounts[8192], device[64], path[128], type[32];

	if (root[0])
		return true;
	if (read_text("/proc/self/mounts", mounts, sizeof(mounts)) < 0)
		return false;
	for (char *line = strtok(mounts, "\n"); line; line = strtok(NULL, "\n"))
		if (sscanf(line, "%63s %127s %31s", device, path, type) == 3 &&
		    !strcmp(type, "cgroup2")) {
			snprintf(root, sizeof(root), "%s", path);
			return true;
		}
	return false;
}

const char *cgroup_missing(void)
{
	char path[192], text[256];

	if (!find_root())
		return "no cgroup v2 hierarchy is mounted";
	snprintf(path, sizeof(path), "%s/cgroup.controllers", root);
	read_text(path, text, sizeof(text));
	if (!has_word(text, "memory"))
		return "the memory controller is not in the cgroup v2 hierarchy";
	if (access(root, W_OK))
		return "no permission to make a cgroup";
	return NULL;
}

static void remove_cgroup(long unused)
{
	char path[192];

	(void)unused;
	rmdir(group);
	if (!enabled_memory)
		return;
	/* snprintf is not on the list of async-signal-safe functions; strcpy and strcat are. */
	strcpy(path, root);
	strcat(path, "/cgroup.subtree_control");
	write_text(path, "-memory");
	enabled_memory = false;
}

bool cgroup_create(uint64_t memory_max)
{
	char path[256], text[256];
	int error;

	snprintf(path, sizeof(path), "%s/cgroup.subtree_control", root);
	read_text(path, text, sizeof(text));
	if (!has_word(text, "memory")) {
		error = write_text(path, "+memory");
		if (!expect(!error, "enabling the memory controller: %s", error_name(error)))
			return false;
		enabled_memory = true;
	}
	snprintf(group, sizeof(group), "%s/simfail-%d", root, getpid());
	undo_push(remove_cgroup, 0);
	if (!expect(!mkdir(group, 0755), "mkdir %s: %s", group, error_name(errno)))
		return false;
	snprintf(path, sizeof(path), "%s/memory.max", group);
	snprintf(text, sizeof(text), "%llu", (unsigned long long)memory_max);
	error = write_text(path, text);
	note("cgroup %s memory.max=%s memory.swap.max=0", group, text);
	if (!expect(!error, "setting memory.max: %s", error_name(error)))
		return false;
	/* Absent where the kernel has no swap accounting: then there is none to keep out of. */
	snprintf(path, sizeof(path), "%s/memory.swap.max", group);
	write_text(path, "0");
	return true;
}

bool cgroup_enter(void)
{
	char path[256];
	int error;

	snprintf(path, sizeof(path), "%s/cgroup.procs", group);
	error = write_text(path, "0");
	return expect(!error, "entering the cgroup: %s", error_name(error));
}

unsigned long long cgroup_event(const char *field)
{
	char path[256], text[512];
	size_t length = strlen(field);

	snprintf(path, sizeof(path), "%s/memory.events", group);
	read_text(path, text, sizeof(text));
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
		if (!strncmp(line, field, length) && line[length] == ' ')
			return strtoull(line + length, NULL, 10);
	return 0;
}

static void kill_child(long child)
{
	/* ECHILD where it has been waited for: then there is nobody to kill. */
	if (waitpid((pid_t)child, NULL, WNOHANG) == 0) {
		kill((pid_t)child, SIGKILL);
		waitpid((pid_t)child, NULL, 0);
	}
}

pid_t child_start(void (*body)(int index), int index)
{
	pid_t parent = getpid();
	pid_t child = fork();

	if (child) {
		if (expect(child > 0, "fork: %s", error_name(errno)))
			undo_push(kill_child, child);
		return child;
	}
	undo_forget();
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	body(index);
	undo_all();
	_exit(0);
}

int child_wait(pid_t child)
{
	int status = 0;

	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	return status;
}

bool child_finish(pid_t child)
{
	int status;

	if (child < 0)
		return false;
	status = child_wait(child);
	if (WIFSIGNALED(status))
		return expect(false, "child %d was killed by %s", child,
		              sigabbrev_np(WTERMSIG(status)));
	return expect(WEXITSTATUS(status) == 0, "child %d exited with %d", child,
	              WEXITSTATUS(status));
}
