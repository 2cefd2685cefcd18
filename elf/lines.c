/* SPDX-License-Identifier: MIT */
/*
 * Source lines, by libdwfl.
 *
 * A separate debug file is looked for by build id only. libdw's standard way
 * would also try names and check sums, which reads whole files, and ask
 * debuginfod servers, which is not for a tracer to do unasked.
 *
 * libdwfl maps what it reads, and a mapped file that is cut short kills us with
 * SIGBUS. So it is given a copy in memory (memfd_create(2)), which nobody else can
 * change. Separate debug files are the administrator's, and are not copied.
 */
#include <errno.h>
#include <elfutils/libdwfl.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <unistd.h>

#include "elf/internal.h"
#include "elf/lines.h"

enum { COPY_BYTES = 1 << 24 };
/* A program of that size, with debug information in it, has more lines than anybody lists. */
#define COPIED_BYTES_MAX (UINT64_C(4) << 30)

struct libdw {
	typeof(dwfl_begin) *begin;
	typeof(dwfl_end) *end;
	typeof(dwfl_report_offline) *report_offline;
	typeof(dwfl_report_end) *report_end;
	typeof(dwfl_module_getelf) *module_getelf;
	typeof(dwfl_module_getsrc) *module_getsrc;
	typeof(dwfl_lineinfo) *lineinfo;
	typeof(dwfl_build_id_find_debuginfo) *find_debuginfo;
	typeof(dwfl_offline_section_address) *section_address;
};

struct lines {
	struct libdw libdw;
	Dwfl_Callbacks callbacks; /* referred to by dwfl */
	Dwfl *dwfl;
	Dwfl_Module *module; /* NULL where libdw cannot read the file */
	GElf_Addr bias;	     /* libdw's addresses minus the file's */
};

static struct probe_error *functions_load(struct libdw *libdw)
{
	const struct libdw_function functions[] = {
		{"dwfl_begin", (void **)&libdw->begin},
		{"dwfl_end", (void **)&libdw->end},
		{"dwfl_report_offline", (void **)&libdw->report_offline},
		{"dwfl_report_end", (void **)&libdw->report_end},
		{"dwfl_module_getelf", (void **)&libdw->module_getelf},
		{"dwfl_module_getsrc", (void **)&libdw->module_getsrc},
		{"dwfl_lineinfo", (void **)&libdw->lineinfo},
		{"dwfl_build_id_find_debuginfo", (void **)&libdw->find_debuginfo},
		{"dwfl_offline_section_address", (void **)&libdw->section_address},
	};

	return libdw_load("source lines need", functions, sizeof(functions) / sizeof(functions[0]));
}

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8U /* <linux/memfd.h>, from Linux 6.3 on */
#endif

/* Where vm.memfd_noexec is 2, memory must not be executable; older kernels have no word for it. */
static int memory_file(void)
{
	int fd = memfd_create("probectl lines", MFD_CLOEXEC | MFD_NOEXEC_SEAL);

	return fd < 0 && errno == EINVAL ? memfd_create("probectl lines", MFD_CLOEXEC) : fd;
}

/* A copy of the file as it is now; -1 where there is no memory for it. */
static int copy_file(const struct object *object)
{
	int fd = memory_file();
	uint64_t left = object->file_size;
	off_t at = 0;

	while (fd >= 0 && left) {
		ssize_t n = sendfile(fd, object->fd, &at, left < COPY_BYTES ? left : COPY_BYTES);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			close(fd);
			return -1;
		}
		if (n == 0) /* cut short meanwhile */
			break;
		left -= (uint64_t)n;
	}
	return fd;
}

/* Shows the file to libdw. Failures leave module NULL: there are no lines then. */
static void lines_report(struct lines *lines, const struct object *object)
{
	/* libdwfl keeps the descriptor and closes it. */
	int fd = object->file_size <= COPIED_BYTES_MAX ? copy_file(object) : -1;

	if (fd < 0)
		return;
	lines->module = lines->libdw.report_offline(lines->dwfl, object->path, object->path, fd);
	if (!lines->module)
		close(fd);
	lines->libdw.report_end(lines->dwfl, NULL, NULL);
	if (lines->module && !lines->libdw.module_getelf(lines->module, &lines->bias))
		lines->module = NULL;
}

struct probe_error *lines_open(struct object *object, struct lines **ret)
{
	struct lines *lines = calloc(1, sizeof(*lines));
	struct probe_error *error;

	if (!lines)
		return probe_error_no_memory();
	error = functions_load(&lines->libdw);
	if (error) {
		lines_close(lines);
		return error;
	}
	lines->callbacks = (Dwfl_Callbacks){
		.find_debuginfo = lines->libdw.find_debuginfo,
		.section_address = lines->libdw.section_address,
	};
	lines->dwfl = lines->libdw.begin(&lines->callbacks);
	if (!lines->dwfl) {
		lines_close(lines);
		return probe_error_no_memory();
	}
	lines_report(lines, object);
	*ret = lines;
	return NULL;
}

void lines_close(struct lines *lines)
{
	if (!lines)
		return;
	if (lines->dwfl)
		lines->libdw.end(lines->dwfl);
	free(lines);
}

bool lines_find(struct lines *lines, uint64_t address, const char **file_ret, int *line_ret)
{
	Dwfl_Line *line = NULL;
	const char *file;
	int number = 0;

	errno = 0;
	if (lines->module)
		line = lines->libdw.module_getsrc(lines->module, address + lines->bias);
	/* Its tree of units then has a node that leads nowhere: the next look-up would crash. */
	if (!line && errno == ENOMEM)
		lines->module = NULL;
	if (!line)
		return false;
	file = lines->libdw.lineinfo(line, NULL, &number, NULL, NULL, NULL);
	/* Line 0 is code that belongs to no line (DWARF 5, 6.2.2). */
	if (!file || number <= 0)
		return false;
	*file_ret = file;
	*line_ret = number;
	return true;
}
