/* SPDX-License-Identifier: MIT */
/* Standard error that is not read for a while, and then is. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "cli/print/print.h"

enum { LINES = 5000 };

static void fill(int fd)
{
	char bytes[4096];

	memset(bytes, 'x', sizeof(bytes));
	bytes[sizeof(bytes) - 1] = '\n';
	assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
	while (write(fd, bytes, sizeof(bytes)) > 0)
		;
	assert_int_equal(fcntl(fd, F_SETFL, 0), 0);
}

/* Reads what is there. Counts the test's lines, and the messages that are reported as dropped. */
static void read_all(int fd, unsigned int *lines, unsigned int *dropped)
{
	static char text[1 << 20];
	size_t length = 0;
	ssize_t got;

	while ((got = read(fd, text + length, sizeof(text) - 1 - length)) > 0)
		length += (size_t)got;
	text[length] = '\0';
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
		unsigned int number, count;

		if (sscanf(line, "line %u of these", &number) == 1) {
			assert_int_equal(number, *lines); /* the newest are dropped */
			++*lines;
		}
		if (sscanf(line, "probectl: %u messages were dropped", &count) == 1)
			*dropped += count;
	}
}

static void test_unread(void **state)
{
	int before = dup(STDERR_FILENO), ends[2];
	unsigned int lines = 0, dropped = 0, last;
	FILE *stream = stderr;

	(void)state;
	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	assert_int_equal(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
	fill(ends[1]);
	dup2(ends[1], STDERR_FILENO);
	messages_begin();
	for (unsigned int i = 0; i < LINES; i++) {
		fprintf(stderr, "line %u ", i);
		fputs("of these", stderr);
		putc('\n', stderr);
	}
	/* The unfinished line must follow the line about dropped messages. */
	fputs("half", stderr);
	for (int i = 0; i < 10; i++) {
		read_all(ends[0], &lines, &dropped);
		messages_retry();
	}
	dup2(before, STDERR_FILENO);
	assert_int_equal(lines + dropped, LINES);
	assert_true(lines > 1000 && dropped > 1000);
	last = dropped;

	/* Messages pass again. At the end, messages_end() does not wait long for a reader. */
	fputs(" a line\n", stderr);
	read_all(ends[0], &lines, &dropped);
	assert_int_equal(dropped, last);
	fill(ends[1]);
	fputs("nobody reads this\n", stderr);
	messages_end();
	stderr = stream;
	close(ends[0]);
	close(ends[1]);
	close(before);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_unread),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
