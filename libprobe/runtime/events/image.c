/* SPDX-License-Identifier: MIT */
/*
 * Controllers find probes in the ELF files that a process has mapped. So probes whose names are
 * known only at run time need a file of their own. It has room for a number of them, and gets
 * a note for each one when it is named:
 *
 *     0        ELF header, program headers                            mapped for reading
 *              .eh_frame        how to unwind from the functions
 *              .stapsdt.base    a byte, without which many readers see no probes
 *              .note.gnu.build-id
 *              .symtab, .strtab, .shstrtab
 *     code     .text            functions: a nop, the site, and a return    executable
 *     data     .probes          semaphores                              private, writable
 *     shared   section headers                                          shared, writable
 *              .note.stapsdt    provider, name, arguments of each probe
 *
 * It needs no loader and no relocation: addresses are file offsets. The code has pages of its
 * own, because patching them makes private copies, which no longer show what changes in the
 * file. A note is written before the size of its section includes it, so a reader of the file
 * meanwhile sees all of it or nothing.
 *
 * Sources: System V ABI, "Object Files"; SystemTap, "User Space Probe Implementation" (the
 * note); DWARF 5, 6.4, and LSB 10.6 (.eh_frame).
 */
#include <assert.h>
#include <string.h>

#include "libprobe/runtime/events/image.h"

enum {
	NOTE_STAPSDT = 3,
	NOTE_TEXT_MAX = IMAGE_PROVIDER_MAX + IMAGE_NAME_MAX + 48,
	FUNCTION_BYTES = 16
};

/* clang-format off */
/* bcc must find the section of the semaphores before that of the notes. */
enum {
	NO_SECTION, TEXT, EH_FRAME, BASE, BUILD_ID, PROBES, NOTE, SYMTAB, STRTAB, SHSTRTAB, SECTIONS
};
static const char *const section_names[SECTIONS] = {
	"", ".text", ".eh_frame", ".stapsdt.base", ".note.gnu.build-id", ".probes",
	".note.stapsdt", ".symtab", ".strtab", ".shstrtab"
};

/* posix_trace_event() jumps to the site, so this is its frame in a call stack. */
static const char symbol_names[] = "\0posix_trace_event";
/* clang-format on */

struct eh_frame {
	uint32_t cie_length;
	uint8_t cie[24];
	uint32_t fde_length, fde_to_cie;
	int32_t start;
	uint32_t size;
	uint8_t no_augmentation, padding[3];
	uint32_t end;
};

struct build_id {
	Elf64_Nhdr header;
	char owner[4];
	uint8_t id[8];
};

struct note {
	Elf64_Nhdr header;
	char owner[8];
	uint64_t site, base, semaphore;
	char text[NOTE_TEXT_MAX]; /* provider, name, arguments, each with its NUL */
} __attribute__((packed, aligned(4)));

/* What is mapped for reading. */
struct head {
	Elf64_Ehdr elf;
	Elf64_Phdr segments[4];
	struct eh_frame eh_frame;
	uint8_t base, padding[7]; /* base: the contents of .stapsdt.base */
	struct build_id build_id;
	Elf64_Sym symbols[2];
	char symbol_names[24];
	char section_names[120];
};

/* What is shared. Notes follow each other, padded to 4 bytes. */
struct shared {
	Elf64_Shdr sections[SECTIONS];
	uint8_t notes[];
};
_Static_assert(sizeof(struct head) <= 4096, "the head fits into the smallest page");
_Static_assert(sizeof(symbol_names) <= sizeof(((struct head *)0)->symbol_names), "names");
_Static_assert(offsetof(struct note, site) == 20, "no hole in the note");
_Static_assert(sizeof(struct note) % 4 == 0, "notes are aligned");
_Static_assert(sizeof(struct eh_frame) == 4 + 24 + 20 + 4, "no holes in .eh_frame");

size_t image_site(const struct image_layout *layout, uint32_t index)
{
	return layout->code + (size_t)index * FUNCTION_BYTES;
}

size_t image_semaphore(const struct image_layout *layout, uint32_t index)
{
	return layout->data + index * sizeof(uint16_t);
}

void image_layout(
	const struct arch_event *machine, uint32_t capacity, struct image_layout *layout_ret)
{
	size_t page = machine->segment_bytes;

	assert(capacity && capacity <= IMAGE_EVENTS_MAX);
	*layout_ret = (struct image_layout){.capacity = capacity, .code = page};
	layout_ret->data = (image_site(layout_ret, capacity) + page - 1) & ~(page - 1);
	layout_ret->shared = (image_semaphore(layout_ret, capacity) + page - 1) & ~(page - 1);
	layout_ret->length = (layout_ret->shared + sizeof(struct shared) +
				     capacity * sizeof(struct note) + page - 1) &
			     ~(page - 1);
}

static void set_unwinding(
	struct head *head, const struct arch_event *machine, const struct image_layout *layout)
{
	struct eh_frame *eh = &head->eh_frame;

	eh->cie_length = sizeof(eh->cie);
	memcpy(eh->cie, machine->cie, sizeof(eh->cie));
	eh->fde_length = offsetof(struct eh_frame, end) - offsetof(struct eh_frame, fde_to_cie);
	eh->fde_to_cie = offsetof(struct eh_frame, fde_to_cie);
	eh->start = (int32_t)layout->code -
		    (int32_t)(offsetof(struct head, eh_frame) + offsetof(struct eh_frame, start));
	eh->size = layout->capacity * FUNCTION_BYTES;
}

static void set_build_id(struct build_id *note, uint64_t id)
{
	note->header = (Elf64_Nhdr){.n_namesz = sizeof(note->owner),
		.n_descsz = sizeof(note->id),
		.n_type = NT_GNU_BUILD_ID};
	memcpy(note->owner, ELF_NOTE_GNU, sizeof(note->owner));
	memcpy(note->id, &id, sizeof(id));
}

static void set_symbols(struct head *head, const struct image_layout *layout)
{
	memcpy(head->symbol_names, symbol_names, sizeof(symbol_names));
	head->symbols[1] = (Elf64_Sym){.st_name = 1,
		.st_info = ELF64_ST_INFO(STB_LOCAL, STT_FUNC),
		.st_shndx = TEXT,
		.st_value = layout->code,
		.st_size = layout->capacity * FUNCTION_BYTES};
}

static Elf64_Shdr section(uint32_t type, uint64_t flags, size_t offset, size_t size)
{
	return (Elf64_Shdr){.sh_type = type,
		.sh_flags = flags,
		.sh_addr = flags & SHF_ALLOC ? offset : 0,
		.sh_offset = offset,
		.sh_size = size,
		.sh_addralign = 1};
}

/* Returns their total length. */
static size_t set_section_names(struct head *head, Elf64_Shdr *sections)
{
	size_t at = 0;

	for (unsigned int i = 0; i < SECTIONS; i++) {
		size_t length = strlen(section_names[i]) + 1;

		assert(at + length <= sizeof(head->section_names));
		memcpy(head->section_names + at, section_names[i], length);
		sections[i].sh_name = (uint32_t)at;
		at += length;
	}
	return at;
}

static void set_sections(struct head *head, const struct image_layout *layout, Elf64_Shdr *sections)
{
	sections[TEXT] = section(SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, layout->code,
		(size_t)layout->capacity * FUNCTION_BYTES);
	sections[EH_FRAME] = section(
		SHT_PROGBITS, SHF_ALLOC, offsetof(struct head, eh_frame), sizeof(head->eh_frame));
	sections[BASE] = section(SHT_PROGBITS, SHF_ALLOC, offsetof(struct head, base), 1);
	sections[BUILD_ID] = section(
		SHT_NOTE, SHF_ALLOC, offsetof(struct head, build_id), sizeof(head->build_id));
	sections[NOTE] = section(SHT_NOTE, 0, layout->shared + offsetof(struct shared, notes), 0);
	sections[PROBES] = section(SHT_PROGBITS, SHF_ALLOC | SHF_WRITE, layout->data,
		layout->capacity * sizeof(uint16_t));
	sections[SYMTAB] =
		section(SHT_SYMTAB, 0, offsetof(struct head, symbols), sizeof(head->symbols));
	sections[STRTAB] =
		section(SHT_STRTAB, 0, offsetof(struct head, symbol_names), sizeof(symbol_names));
	sections[SHSTRTAB] = section(SHT_STRTAB, 0, offsetof(struct head, section_names), 0);
	memset(&sections[NO_SECTION], 0, sizeof(*sections));
	sections[SHSTRTAB].sh_size = set_section_names(head, sections);
	sections[TEXT].sh_addralign = FUNCTION_BYTES;
	sections[BUILD_ID].sh_addralign = 4;
	sections[NOTE].sh_addralign = 4;
	sections[SYMTAB].sh_link = STRTAB;
	sections[SYMTAB].sh_info = 2; /* local symbols */
	sections[SYMTAB].sh_entsize = sizeof(Elf64_Sym);
}

static Elf64_Phdr segment(
	uint32_t type, uint32_t flags, size_t offset, size_t size, uint64_t alignment)
{
	return (Elf64_Phdr){.p_type = type,
		.p_flags = flags,
		.p_offset = offset,
		.p_vaddr = offset,
		.p_paddr = offset,
		.p_filesz = size,
		.p_memsz = size,
		.p_align = alignment};
}

static void set_headers(
	struct head *head, const struct arch_event *machine, const struct image_layout *layout)
{
	uint64_t page = machine->segment_bytes;

	head->elf = (Elf64_Ehdr){
		.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB,
			EV_CURRENT},
		.e_type = ET_DYN,
		.e_machine = machine->elf_machine,
		.e_version = EV_CURRENT,
		.e_phoff = offsetof(struct head, segments),
		.e_shoff = layout->shared,
		.e_ehsize = sizeof(Elf64_Ehdr),
		.e_phentsize = sizeof(Elf64_Phdr),
		.e_phnum = 4,
		.e_shentsize = sizeof(Elf64_Shdr),
		.e_shnum = SECTIONS,
		.e_shstrndx = SHSTRTAB,
	};
	head->segments[0] = segment(PT_LOAD, PF_R, 0, sizeof(*head), page);
	head->segments[1] =
		segment(PT_LOAD, PF_R | PF_X, layout->code, layout->data - layout->code, page);
	head->segments[2] = segment(
		PT_LOAD, PF_R | PF_W, layout->data, layout->capacity * sizeof(uint16_t), page);
	head->segments[3] =
		segment(PT_NOTE, PF_R, offsetof(struct head, build_id), sizeof(head->build_id), 4);
}

void image_make(const struct arch_event *machine, const struct image_layout *layout, uint64_t id,
	uint8_t *file)
{
	struct shared *shared = (struct shared *)(file + layout->shared);
	struct head *head = (struct head *)file;

	assert(machine->code_length <= FUNCTION_BYTES);
	set_headers(head, machine, layout);
	set_unwinding(head, machine, layout);
	set_symbols(head, layout);
	set_build_id(&head->build_id, id);
	set_sections(head, layout, shared->sections);
	for (uint32_t i = 0; i < layout->capacity; i++)
		memcpy(file + image_site(layout, i), machine->code, machine->code_length);
}

void image_add(const struct arch_event *machine, const struct image_layout *layout, uint32_t index,
	const char *provider, const char *name, uint8_t *shared)
{
	struct shared *where = (struct shared *)shared;
	const char *strings[] = {provider, name, machine->args};
	uint64_t used = where->sections[NOTE].sh_size;
	struct note *note = (struct note *)(where->notes + used);
	size_t at = 0;

	assert(index < layout->capacity && used <= index * sizeof(*note));
	for (size_t i = 0; i < 3; i++) {
		size_t length = strlen(strings[i]) + 1;

		assert(at + length <= sizeof(note->text));
		memcpy(note->text + at, strings[i], length);
		at += length;
	}
	memcpy(note->owner, "stapsdt", 8);
	note->site = image_site(layout, index);
	note->base = offsetof(struct head, base);
	note->semaphore = image_semaphore(layout, index);
	at += offsetof(struct note, text) - offsetof(struct note, site);
	note->header = (Elf64_Nhdr){
		.n_namesz = sizeof(note->owner), .n_descsz = (uint32_t)at, .n_type = NOTE_STAPSDT};
	used += offsetof(struct note, site) + ((at + 3) & ~(size_t)3);
	/* Readers of the file see the size after the note. */
	__atomic_store_n(&where->sections[NOTE].sh_size, used, __ATOMIC_RELEASE);
}
