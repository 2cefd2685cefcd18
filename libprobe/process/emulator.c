/* SPDX-License-Identifier: MIT */
/*
 * Recognises two emulators. Valgrind is a static program with the path
 * VALGRIND_LIB/TOOL-ARCH-linux. It maps the emulated program and, if that program has a loader,
 * preloads vgpreload_*.so into it. The program of qemu's user mode is called qemu-ARCH or
 * qemu-ARCH-static. It maps the emulated program as data.
 *
 * Sources: valgrind, coregrind/launcher-linux.c; qemu, scripts/qemu-binfmt-conf.sh.
 */
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "libprobe/process/process.h"

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static bool ends_with(const char *text, const char *end)
{
	size_t length = strlen(text), wanted = strlen(end);

	return length >= wanted && strcmp(text + length - wanted, end) == 0;
}

const char *emulator_of(pid_t pid, const struct modules *modules, char buffer[64])
{
	char link[48], path[PATH_MAX];
	const char *name;
	ssize_t length;

	for (size_t i = 0; i < modules->count; i++)
		if (strncmp(base_name(modules->items[i].path), "vgpreload_", 10) == 0)
			return "valgrind";
	snprintf(link, sizeof(link), "/proc/%d/exe", pid);
	length = readlink(link, path, sizeof(path) - 1);
	path[length < 0 ? 0 : length] = '\0';
	name = base_name(path);
	if (strstr(path, "/valgrind/") && ends_with(name, "-linux"))
		return "valgrind";
	if (strncmp(name, "qemu-", 5) != 0 || strncmp(name, "qemu-system-", 12) == 0)
		return NULL;
	snprintf(buffer, 64, "%s", name);
	return buffer;
}
