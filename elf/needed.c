/* SPDX-License-Identifier: MIT */
/* The libraries that a file needs (DT_NEEDED). */
#include "elf/internal.h"

/* The names in one section of type SHT_DYNAMIC. */
static bool walk_section(struct object *object, Elf_Scn *section, const GElf_Shdr *header,
	bool (*take)(const char *name, void *data), void *data)
{
	Elf_Data *bytes = elf_getdata(section, NULL);
	size_t count = bytes && header->sh_entsize ? bytes->d_size / header->sh_entsize : 0;
	GElf_Dyn entry;

	for (size_t i = 0; i < count && i < INT32_MAX; i++) {
		const char *name;

		if (!gelf_getdyn(bytes, (int)i, &entry) || entry.d_tag == DT_NULL)
			return true;
		if (entry.d_tag != DT_NEEDED)
			continue;
		name = elf_strptr(object->elf, header->sh_link, entry.d_un.d_val);
		if (name && !take(name, data))
			return false;
	}
	return true;
}

void object_needed(struct object *object, bool (*take)(const char *name, void *data), void *data)
{
	Elf_Scn *section = NULL;
	GElf_Shdr header;

	while ((section = elf_nextscn(object->elf, section)))
		if (gelf_getshdr(section, &header) && header.sh_type == SHT_DYNAMIC &&
			!walk_section(object, section, &header, take, data))
			return;
}
