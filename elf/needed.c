/* SPDX-License-Identifier: MIT */
/* A file's own name and the libraries that it needs, from its dynamic section. */
#include "elf/internal.h"

typedef bool take_fn(const char *name, void *data);

/* Calls `take` for each name with a tag (DT_*) in a section, until it returns false. */
static bool walk_section(struct object *object, Elf_Scn *section, const GElf_Shdr *header,
	int64_t tag, take_fn *take, void *data)
{
	Elf_Data *bytes = elf_getdata(section, NULL);
	size_t count = bytes && header->sh_entsize ? bytes->d_size / header->sh_entsize : 0;
	GElf_Dyn entry;

	for (size_t i = 0; i < count && i < INT32_MAX; i++) {
		const char *name;

		if (!gelf_getdyn(bytes, (int)i, &entry) || entry.d_tag == DT_NULL)
			return true;
		if (entry.d_tag != tag)
			continue;
		name = elf_strptr(object->elf, header->sh_link, entry.d_un.d_val);
		if (name && !take(name, data))
			return false;
	}
	return true;
}

static void walk(struct object *object, int64_t tag, take_fn *take, void *data)
{
	Elf_Scn *section = NULL;
	GElf_Shdr header;

	while ((section = elf_nextscn(object->elf, section)))
		if (gelf_getshdr(section, &header) && header.sh_type == SHT_DYNAMIC &&
			!walk_section(object, section, &header, tag, take, data))
			return;
}

void object_needed(struct object *object, bool (*take)(const char *name, void *data), void *data)
{
	walk(object, DT_NEEDED, take, data);
}

static bool take_first(const char *name, void *data)
{
	*(const char **)data = name;
	return false;
}

const char *object_soname(struct object *object)
{
	const char *name = NULL;

	walk(object, DT_SONAME, take_first, &name);
	return name;
}
