/* SPDX-License-Identifier: MIT */
/*
 * glibc puts the functions of its loader into static programs, too, but a static program has no
 * loader that works before the program: it runs its own ifunc resolvers, and only then sets the
 * thread pointer. The loader is a library with a name of its own (DT_SONAME), also where it is
 * executed directly (ld.so PROGRAM); a static program has no such name.
 *
 * Sources: glibc, csu/libc-start.c (ARCH_SETUP_IREL comes before ARCH_SETUP_TLS), elf/Makefile.
 */
#include <link.h>
#include <stdio.h>
#include <sys/stat.h>

#include "libprobe/follow/follow.h"
#include "libprobe/process/process.h"
#include "libprobe/registry/registry.h"

struct file *program_file(pid_t pid, const struct files *files)
{
	char path[32];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	return files && stat(path, &st) == 0 ? files_known(files, &st) : NULL;
}

static bool is_glibc_loader(const struct module *m)
{
	return threads_is_loader(m) && object_is_64bit(m->object) && object_soname(m->object);
}

bool program_has_glibc_loader(pid_t pid, struct files *files)
{
	struct file *program = program_file(pid, files);
	struct modules modules = {0};
	struct probe_error *error;
	bool found = false;

	if (program && program->glibc_loads)
		return true;
	error = modules_read(pid, files, &modules);
	for (size_t i = 0; !error && i < modules.count && !found; i++) {
		struct module *m = &modules.items[i];
		uint64_t value, size;

		found = is_glibc_loader(m) &&
			object_symbol(m->object, "_dl_allocate_tls", 16, &value, &size);
	}
	program = program_file(pid, files);
	if (program)
		program->glibc_loads = found;
	probe_error_free(error);
	modules_deinit(&modules);
	return found;
}

bool program_is_loading(pid_t pid, struct files *files)
{
	struct modules modules = {0};
	struct probe_error *error = modules_read(pid, files, &modules);
	bool loading = false;

	for (size_t i = 0; !error && i < modules.count; i++) {
		struct module *m = &modules.items[i];
		struct r_debug debug;
		uint64_t value, size;

		if (!is_glibc_loader(m) ||
			!object_symbol(m->object, "_r_debug", 8, &value, &size) ||
			memory_read(pid, value + m->bias, &debug, sizeof(debug)) != sizeof(debug))
			continue;
		loading = debug.r_version == 0 || debug.r_state != RT_CONSISTENT;
		break;
	}
	probe_error_free(error);
	modules_deinit(&modules);
	return loading;
}
