/* SPDX-License-Identifier: MIT */
/*
 * Finds the symbols that were stripped from a file: in a separate debug file, or in MiniDebugInfo.
 *
 * A separate debug file has the same build id. It is in /usr/lib/debug by this id, or has the name
 * in .gnu_debuglink and is beside the file, in .debug there, or below /usr/lib/debug, or somebody
 * has downloaded it (debuginfod-find(1)). Without a build id no file is used, since a name alone
 * does not say that it belongs to this version.
 *
 * MiniDebugInfo is an ELF file with symbols of functions only, compressed by xz in .gnu_debugdata.
 * liblzma decompresses it into a memory file. It is opened with dlopen(3), because few files need
 * it.
 *
 * Source: gdb's manual, "Separate Debug Files" and "MiniDebugInfo".
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "elf/internal.h"
#include "libprobe/base/cleanup.h"
#include "libprobe/base/library.h"

enum { UNPACKED_MAX = 64 << 20, PACKED_MAX = 16 << 20, LZMA_MEMORY = 128 << 20 };

/* Opens a debug file if it has the build id of the object. Returns NULL if it has not. */
static struct object *open_same(struct object *object, const char *path)
{
	struct object *debug;
	struct probe_error *error = object_open(path, &debug);

	if (error) {
		probe_error_free(error);
		return NULL;
	}
	if (debug->machine == object->machine &&
		!strcmp(object_build_id(debug), object_build_id(object)))
		return debug;
	object_close(debug);
	return NULL;
}

static struct object *open_by_link(struct object *object)
{
	static const char *const forms[] = {"%.*s/%s", "%.*s/.debug/%s", "/usr/lib/debug%.*s/%s"};
	const char *slash = strrchr(object->path, '/');
	struct object *debug = NULL;
	char name[256], path[4096];
	GElf_Shdr header;
	size_t size;

	if (!slash || !object_section(object, ".gnu_debuglink", &header))
		return NULL;
	size = header.sh_size < sizeof(name) ? header.sh_size : sizeof(name);
	size = object_read_file(object, header.sh_offset, name, size);
	if (!size || !memchr(name, 0, size) || strchr(name, '/'))
		return NULL;
	for (size_t i = 0; i < sizeof(forms) / sizeof(*forms) && !debug; i++)
		if ((size_t)snprintf(path, sizeof(path), forms[i], (int)(slash - object->path),
			    object->path, name) < sizeof(path))
			debug = open_same(object, path);
	return debug;
}

/* ---- MiniDebugInfo --------------------------------------------------------------------- */

/* lzma_stream_buffer_decode() of <lzma.h>, whose headers the build does not need. */
struct liblzma {
	int (*decode)(uint64_t *memory, uint32_t flags, const void *allocator, const uint8_t *in,
		size_t *in_at, size_t in_size, uint8_t *out, size_t *out_at, size_t out_size);
};

/* Decompresses into a memory file. Returns its descriptor, or -1. */
static int unpack(const uint8_t *packed, size_t size)
{
	static const struct library library = {"liblzma.so.5", "MiniDebugInfo needs liblzma",
		"MiniDebugInfo needs a newer liblzma"};
	static const char *const names[] = {"lzma_stream_buffer_decode", NULL};
	AUTO_FREE uint8_t *bytes = malloc(UNPACKED_MAX);
	uint64_t memory = LZMA_MEMORY;
	size_t from = 0, length = 0;
	struct liblzma liblzma = {NULL};
	int fd;

	probe_error_free(library_load(&library, names, &liblzma));
	if (!bytes || !liblzma.decode ||
		liblzma.decode(
			&memory, 0, NULL, packed, &from, size, bytes, &length, UNPACKED_MAX) != 0)
		return -1;
	fd = memfd_create("minidebuginfo", MFD_CLOEXEC);
	if (fd < 0 || write(fd, bytes, length) == (ssize_t)length)
		return fd;
	close(fd);
	return -1;
}

static struct object *open_mini(struct object *object)
{
	AUTO_FREE uint8_t *packed = NULL;
	struct object *debug = NULL;
	GElf_Shdr header;
	int fd = -1;

	if (!object_section(object, ".gnu_debugdata", &header) || header.sh_size > PACKED_MAX)
		return NULL;
	packed = malloc(header.sh_size + 1);
	if (packed && object_read_file(object, header.sh_offset, packed, header.sh_size) ==
			      header.sh_size)
		fd = unpack(packed, header.sh_size);
	if (fd < 0)
		return NULL;
	probe_error_free(object_open_fd(fd, object->path, &debug));
	if (!debug)
		close(fd);
	else
		debug->owns_fd = true;
	return debug;
}

/* Opens a file in debuginfod's cache, without asking a server. */
static struct object *open_cached(struct object *object)
{
	static const struct {
		const char *variable, *folder;
	} caches[] = {{"DEBUGINFOD_CACHE_PATH", ""}, {"XDG_CACHE_HOME", "/debuginfod_client"},
		{"HOME", "/.cache/debuginfod_client"}, {"HOME", "/.debuginfod_client_cache"}};
	struct object *debug = NULL;
	char path[4096];

	for (size_t i = 0; i < sizeof(caches) / sizeof(*caches) && !debug; i++) {
		const char *cache = getenv(caches[i].variable);

		if (cache && (size_t)snprintf(path, sizeof(path), "%s%s/%s/debuginfo", cache,
				     caches[i].folder, object_build_id(object)) < sizeof(path))
			debug = open_same(object, path);
	}
	return debug;
}

static struct object *open_separate(struct object *object)
{
	const char *id = object_build_id(object);
	struct object *debug = NULL;
	char path[512];

	if (strlen(id) > 2 && strlen(id) < sizeof(path) / 2) {
		snprintf(path, sizeof(path), "/usr/lib/debug/.build-id/%.2s/%s.debug", id, id + 2);
		debug = open_same(object, path);
		if (!debug)
			debug = open_by_link(object);
		if (!debug)
			debug = open_cached(object);
	}
	return debug;
}

struct object *object_open_debug(struct object *object)
{
	struct object *debug = open_separate(object);

	return debug ? debug : open_mini(object);
}

bool object_has_debug(const struct object *object, const char *kind)
{
	/* Old compilers compressed it under another name. */
	static const char *const prefixes[] = {".debug_", ".zdebug_"};
	GElf_Shdr header;
	char name[32];

	for (size_t i = 0; i < sizeof(prefixes) / sizeof(*prefixes); i++) {
		snprintf(name, sizeof(name), "%s%s", prefixes[i], kind);
		if (object_section(object, name, &header))
			return true;
	}
	return false;
}

struct object *object_of_debug(struct object *object, const char *kind)
{
	struct object *separate = object_has_debug(object, kind) ? NULL : open_separate(object);

	return separate ? separate : object;
}
