/* SPDX-License-Identifier: MIT */
/* flags: -pthread */
/*
 * stalled FOLDER FILE: mounts a FUSE file system on FOLDER, whose only file, `lib`, has the
 * contents of FILE; maps that as a library; and then stops answering. Prints "ready", and ends
 * with its input. Status 77: FUSE is not available.
 *
 * The protocol is that of <linux/fuse.h>: a request and its answer are one read(2) and one
 * write(2) of /dev/fuse.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ROOM = 1 << 20, LIB = 2 };

static int channel;
static atomic_bool silent;
static char *content;
static size_t length;

static void answer(const struct fuse_in_header *in, int error, const void *data, size_t size)
{
	static char out[ROOM];
	struct fuse_out_header head = {
		.len = (uint32_t)(sizeof(head) + size), .error = -error, .unique = in->unique};

	memcpy(out, &head, sizeof(head));
	memcpy(out + sizeof(head), data, size);
	if (write(channel, out, head.len) < 0 && errno != ENOENT)
		exit(1);
}

static struct fuse_attr attributes(uint64_t node)
{
	return (struct fuse_attr){.ino = node,
		.size = node == LIB ? length : 0,
		.mode = node == LIB ? S_IFREG | 0755 : S_IFDIR | 0755,
		.nlink = 1,
		.blksize = 4096};
}

static void serve_one(const struct fuse_in_header *in, const void *body)
{
	switch (in->opcode) {
	case FUSE_INIT: {
		struct fuse_init_out init = {.major = FUSE_KERNEL_VERSION,
			.minor = 31,
			.max_readahead = 65536,
			.max_write = 65536};

		answer(in, 0, &init, sizeof(init));
		break;
	}
	case FUSE_LOOKUP: {
		struct fuse_entry_out entry = {.nodeid = LIB, .attr = attributes(LIB)};

		answer(in, strcmp(body, "lib") ? ENOENT : 0, &entry, sizeof(entry));
		break;
	}
	case FUSE_GETATTR: {
		struct fuse_attr_out got = {.attr = attributes(in->nodeid)};

		answer(in, 0, &got, sizeof(got));
		break;
	}
	case FUSE_OPEN: {
		struct fuse_open_out opened = {0};

		answer(in, 0, &opened, sizeof(opened));
		break;
	}
	case FUSE_READ: {
		const struct fuse_read_in *read = body;
		size_t at = read->offset < length ? read->offset : length;
		size_t size = length - at < read->size ? length - at : read->size;

		answer(in, 0, content + at, size);
		break;
	}
	case FUSE_FORGET:
	case FUSE_BATCH_FORGET:
	case FUSE_INTERRUPT:
		break;
	default:
		answer(in, ENOSYS, "", 0);
	}
}

static void *serve(void *unused)
{
	static char in[ROOM];
	ssize_t got;

	(void)unused;
	while ((got = read(channel, in, sizeof(in))) > 0 || errno == EINTR || errno == ENOENT)
		if (got > 0 && !silent)
			serve_one((const struct fuse_in_header *)in,
				in + sizeof(struct fuse_in_header));
	return NULL;
}

static void read_content(const char *path)
{
	FILE *file = fopen(path, "r");

	content = malloc(ROOM);
	length = file && content ? fread(content, 1, ROOM, file) : 0;
	if (!length)
		exit(1);
	fclose(file);
}

int main(int argc, char **argv)
{
	char options[128], path[4096];
	volatile char sum = 0;
	pthread_t server;
	char *mapped;
	int fd;

	if (argc != 3)
		return 2;
	read_content(argv[2]);
	channel = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=%d,group_id=%d", channel,
		(int)getuid(), (int)getgid());
	if (channel < 0 || mount("stalled", argv[1], "fuse", MS_NOSUID | MS_NODEV, options))
		return 77;
	pthread_create(&server, NULL, serve, NULL);
	snprintf(path, sizeof(path), "%s/lib", argv[1]);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	mapped = mmap(NULL, length, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	if (fd < 0 || mapped == MAP_FAILED)
		return 1;
	for (size_t i = 0; i < length; i += 4096)
		sum += mapped[i];
	silent = true;
	puts("ready");
	fflush(stdout);
	while (read(STDIN_FILENO, options, sizeof(options)) > 0)
		;
	umount2(argv[1], MNT_DETACH | MNT_FORCE);
	_exit(0);
}
