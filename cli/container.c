/* SPDX-License-Identifier: MIT */
/*
 * The kernel knows no containers. Whoever starts one puts it into a control group with its name:
 *
 *	/system.slice/docker-ID.scope, /docker/ID                 Docker
 *	/machine.slice/libpod-ID.scope, .../libpod-ID.scope/...   Podman
 *	/kubepods.slice/.../cri-containerd-ID.scope, crio-ID      Kubernetes
 *	/lxc.payload.NAME, /lxc/NAME                              LXC, Incus
 *	/machine.slice/systemd-nspawn@NAME.service, machine-NAME  systemd-nspawn
 *
 * An id has 64 hexadecimal digits, of which people type the first ones. Docker and Podman know a
 * container by its name only in files of their own:
 *
 *	/var/lib/docker/containers/ID/config.v2.json           {...,"Name":"/web",...}
 *	.../containers/storage/overlay-containers/containers.json
 *	                                                       [{"id":"5f3c...","names":["web"],...
 *
 * They are only searched for these words; texts inside of texts have \" there.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/container.h"
#include "libprobe/base/file.h"

enum {
	ID_DIGITS = 64,
	TYPED_DIGITS = 4, /* of an id, at least */
	STATE_BYTES = 1 << 20
};

static const char digits[] = "0123456789abcdef";
static const char docker_folder[] = "/var/lib/docker/containers";

/* ---- Names ------------------------------------------------------------------------- */

char *container_named_in_docker(const char *folder, const char *name)
{
	char *text = malloc(STATE_BYTES), path[512], wanted[300], *found = NULL;
	DIR *dir = text ? opendir(folder) : NULL;
	struct dirent *entry;

	snprintf(wanted, sizeof(wanted), "\"Name\":\"/%s\"", name);
	while (dir && !found && (entry = readdir(dir))) {
		if (strspn(entry->d_name, digits) != ID_DIGITS)
			continue;
		snprintf(path, sizeof(path), "%s/%s/config.v2.json", folder, entry->d_name);
		if (file_read_whole(path, text, STATE_BYTES) && strstr(text, wanted))
			found = strdup(entry->d_name);
	}
	if (dir)
		closedir(dir);
	free(text);
	return found;
}

/* Does the list of names that follows an id have this one? */
static bool is_named(const char *object, const char *end, const char *wanted)
{
	static const char field[] = "\"names\":[";
	const char *names = strstr(object, field), *found, *close;

	if (!names || names >= end)
		return false;
	close = strchr(names + strlen(field), ']');
	found = strstr(names + strlen(field) - 1, wanted);
	return close && found && found < close;
}

char *container_named_in_storage(const char *path, const char *name)
{
	static const char field[] = "\"id\":\"";
	char *text = malloc(STATE_BYTES), wanted[300], *found = NULL;
	const char *at = NULL;

	snprintf(wanted, sizeof(wanted), "\"%s\"", name);
	if (text && file_read_whole(path, text, STATE_BYTES))
		at = strstr(text, field);
	while (at && !found) {
		const char *id = at + strlen(field), *next = strstr(id, field);
		const char *end = next ? next : text + strlen(text);

		if (strspn(id, digits) == ID_DIGITS && is_named(id, end, wanted))
			found = strndup(id, ID_DIGITS);
		at = next;
	}
	free(text);
	return found;
}

static char *named_in_home(const char *name)
{
	const char *home = getenv("HOME");
	char path[512];

	if (!home)
		return NULL;
	snprintf(path, sizeof(path),
		"%s/.local/share/containers/storage/overlay-containers/containers.json", home);
	return container_named_in_storage(path, name);
}

struct probe_error *container_find(const char *text, char **ret)
{
	if (!text[0] || strchr(text, '"') || strlen(text) >= 256)
		return probe_error_new(PROBE_ERROR_USAGE,
			"--container '%s': give the id or the name of a container", text);
	*ret = container_named_in_docker(docker_folder, text);
	if (!*ret)
		*ret = container_named_in_storage(
			"/var/lib/containers/storage/overlay-containers/containers.json", text);
	if (!*ret)
		*ret = named_in_home(text);
	if (!*ret)
		*ret = strdup(text);
	return *ret ? NULL : probe_error_no_memory();
}

/* ---- Groups ------------------------------------------------------------------------- */

/* Is a folder of a path, "docker-5f3c....scope", of the container with this id? */
static bool has_id(const char *folder, size_t length, const char *id)
{
	const char *at = folder + length;
	size_t typed = strlen(id);

	if (typed < TYPED_DIGITS || strspn(id, digits) != typed)
		return false;
	while (at > folder && at[-1] != '-')
		at--;
	return strspn(at, digits) == ID_DIGITS && strncmp(at, id, typed) == 0;
}

static bool has_name(const char *folder, size_t length, const char *name, bool below_lxc)
{
	static const char *const forms[][2] = {{"lxc.payload.", ""}, {"machine-", ".scope"},
		{"systemd-nspawn@", ".service"}, {"libpod-", ".scope"}, {"docker-", ".scope"}};
	char whole[400];

	for (size_t i = 0; i < sizeof(forms) / sizeof(*forms); i++) {
		int got = snprintf(whole, sizeof(whole), "%s%s%s", forms[i][0], name, forms[i][1]);

		if ((size_t)got == length && memcmp(whole, folder, length) == 0)
			return true;
	}
	return below_lxc && strlen(name) == length && memcmp(name, folder, length) == 0;
}

bool container_has(const char *container, const char *groups)
{
	const char *at = groups;
	bool below_lxc = false;

	while (*at) {
		size_t length = strcspn(at, "/\n");

		if (has_id(at, length, container) || has_name(at, length, container, below_lxc))
			return true;
		below_lxc = length == 3 && strncmp(at, "lxc", 3) == 0;
		at += length;
		at += *at != '\0';
	}
	return false;
}
