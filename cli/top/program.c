/* SPDX-License-Identifier: MIT */
/*
 * The program that `probectl top` starts. If there is a screen, the terminal is ours: those of the
 * program's standard files that are the terminal become an unnamed file for its output, and an
 * empty one for its input. With a pipe, killing us would also end the program.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "cli/child.h"
#include "cli/top/top.h"

enum { STANDARD_FILES = 3 };

static struct probe_error *open_kept(struct top_program *program)
{
	program->kept = tmpfile();
	/* A program that opens /dev/stderr appends to it. */
	if (!program->kept || fcntl(fileno(program->kept), F_SETFL, O_APPEND) < 0 ||
		fcntl(fileno(program->kept), F_SETFD, FD_CLOEXEC) < 0)
		return probe_error_system(errno, "cannot make a file for the program's output");
	return NULL;
}

/* Puts others in the place of our own files that are the terminal; these go to ours[]. */
static struct probe_error *swap_files(const struct top_program *program, int ours[STANDARD_FILES])
{
	int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC), err = errno;
	bool ok = nothing >= 0;

	for (int fd = 0; fd < STANDARD_FILES; fd++) {
		int other = fd == STDIN_FILENO ? nothing : fileno(program->kept);

		if (!ok || !isatty(fd))
			continue;
		ours[fd] = fcntl(fd, F_DUPFD_CLOEXEC, STANDARD_FILES);
		ok = ours[fd] >= 0 && dup2(other, fd) >= 0;
		err = errno;
	}
	if (nothing >= 0)
		close(nothing);
	return ok ? NULL : probe_error_system(err, "cannot change the program's standard files");
}

static void restore_files(const int ours[STANDARD_FILES])
{
	for (int fd = 0; fd < STANDARD_FILES; fd++) {
		if (ours[fd] < 0)
			continue;
		dup2(ours[fd], fd);
		close(ours[fd]);
	}
}

struct probe_error *program_start(
	struct top_program *program, char *const argv[], bool is_screen, struct probe_target **ret)
{
	int ours[STANDARD_FILES] = {-1, -1, -1};
	struct probe_error *error = NULL;

	if (is_screen)
		error = open_kept(program);
	if (!error && is_screen)
		error = swap_files(program, ours);
	if (!error)
		error = child_start(argv, ret, &program->status);
	restore_files(ours);
	return error;
}

size_t program_read(struct top_program *program, char *bytes, size_t size)
{
	ssize_t count = -1;

	if (program->kept)
		count = pread(fileno(program->kept), bytes, size, program->read);
	if (count <= 0)
		return 0;
	program->read += count;
	return (size_t)count;
}

void program_deinit(struct top_program *program)
{
	if (program->kept)
		fclose(program->kept);
}
