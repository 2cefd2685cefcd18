/* SPDX-License-Identifier: MIT */
/*
 * Controllers find probes in the ELF files that a process has mapped. So a probe whose name is
 * known only at run time needs a file of its own:
 *
 *     0               ELF header, program headers
 *                     .text            the function: a nop, the site, and a return
 *                     .eh_frame        how to unwind from there
 *                     .stapsdt.base    a byte, without which many readers see no probes
 *                     .note.gnu.build-id
 *                     .note.stapsdt    provider, name, arguments
 *                     .symtab, .strtab, .shstrtab, section headers
 *     segment_bytes   .probes          the semaphore
 *
 * The first part is mapped executable, the second one writable, both privately. It needs no
 * loader and no relocation: addresses are file offsets.
 *
 * Sources: System V ABI, "Object Files"; SystemTap, "User Space Probe Implementation" (the
 * note); DWARF 5, 6.4, and LSB 10.6 (.eh_frame).
 */
#include <assert.h>
#include <string.h>

#include "libprobe/runtime/events/image.h"

enum { NOTE_STAPSDT = 3, NOTE_TEXT_MAX = IMAGE_PROVIDER_MAX + IMAGE_NAME_MAX + 48 };

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

/* The first segment as it is in the file. */
struct head {
	Elf64_Ehdr elf;
	Elf64_Phdr segments[3];
	uint8_t code[15], base; /* base: the contents of .stapsdt.base */
	struct eh_frame eh_frame;
	struct build_id build_id;
	struct note note;
	Elf64_Sym symbols[2];
	char symbol_names[24];
	char section_names[120];
	Elf64_Shdr sections[SECTIONS];
};
_Static_assert(sizeof(struct head) <= IMAGE_HEAD_BYTES, "the first segment");
_Static_assert(sizeof(symbol_names) <= sizeof(((struct head *)0)->symbol_names), "names");
_Static_assert(offsetof(struct note, site) == 20, "no hole in the note");
_Static_assert(sizeof(struct eh_frame) == 4 + 24 + 20 + 4, "no holes in .eh_frame");

static void set_code(struct head *head, const struct arch_event *machine)
{
	struct eh_frame *eh = &head->eh_frame;

	memcpy(head->code, machine->code, machine->code_length);
	eh->cie_length = sizeof(eh->cie);
	memcpy(eh->cie, machine->cie, sizeof(eh->cie));
	eh->fde_length = offsetof(struct eh_frame, end) - offsetof(struct eh_frame, fde_to_cie);
	eh->fde_to_cie = offsetof(struct eh_frame, fde_to_cie);
	eh->start = (int32_t)offsetof(struct head, code) -
		    (int32_t)(offsetof(struct head, eh_frame) + offsetof(struct eh_frame, start));
	eh->size = machine->code_length;
}

/* The names determine the contents, so they determine the build id. FNV-1a. */
static void set_build_id(struct build_id *note, const char *provider, const char *name)
{
	const char *strings[] = {provider, name};
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	for (size_t i = 0; i < 2; i++) {
		const char *c = strings[i];

		do {
			hash = (hash ^ (uint8_t)*c) * UINT64_C(0x100000001b3);
		} while (*c++);
	}
	note->header = (Elf64_Nhdr){.n_namesz = sizeof(note->owner),
		.n_descsz = sizeof(note->id),
		.n_type = NT_GNU_BUILD_ID};
	memcpy(note->owner, ELF_NOTE_GNU, sizeof(note->owner));
	memcpy(note->id, &hash, sizeof(hash));
}

/* Returns the note's length. */
static size_t set_note(
	struct note *note, const struct arch_event *machine, const char *provider, const char *name)
{
	const char *strings[] = {provider, name, machine->args};
	size_t at = 0;

	for (size_t i = 0; i < 3; i++) {
		size_t length = strlen(strings[i]) + 1;

		assert(at + length <= sizeof(note->text));
		memcpy(note->text + at, strings[i], length);
		at += length;
	}
	memcpy(note->owner, "stapsdt", 8);
	note->site = offsetof(struct head, code);
	note->base = offsetof(struct head, base);
	note->semaphore = machine->segment_bytes;
	at += offsetof(struct note, text) - offsetof(struct note, site);
	note->header = (Elf64_Nhdr){
		.n_namesz = sizeof(note->owner), .n_descsz = (uint32_t)at, .n_type = NOTE_STAPSDT};
	return offsetof(struct note, site) + ((at + 3) & ~(size_t)3);
}

static void set_symbols(struct head *head, const struct arch_event *machine)
{
	memcpy(head->symbol_names, symbol_names, sizeof(symbol_names));
	head->symbols[1] = (Elf64_Sym){.st_name = 1,
		.st_info = ELF64_ST_INFO(STB_LOCAL, STT_FUNC),
		.st_shndx = TEXT,
		.st_value = offsetof(struct head, code),
		.st_size = machine->code_length};
}

/* A section at its offset in the first segment. */
static void set_section(struct head *head, unsigned int which, uint32_t type, uint64_t flags,
	size_t offset, size_t size)
{
	head->sections[which] = (Elf64_Shdr){.sh_type = type,
		.sh_flags = flags,
		.sh_addr = flags & SHF_ALLOC ? offset : 0,
		.sh_offset = offset,
		.sh_size = size,
		.sh_addralign = 1};
}

/* Returns their total length. */
static size_t set_section_names(struct head *head)
{
	size_t at = 0;

	for (unsigned int i = 0; i < SECTIONS; i++) {
		size_t length = strlen(section_names[i]) + 1;

		assert(at + length <= sizeof(head->section_names));
		memcpy(head->section_names + at, section_names[i], length);
		head->sections[i].sh_name = (uint32_t)at;
		at += length;
	}
	return at;
}

static void set_sections(struct head *head, const struct arch_event *machine, size_t note_length)
{
	set_section(head, TEXT, SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR,
		offsetof(struct head, code), machine->code_length);
	set_section(head, EH_FRAME, SHT_PROGBITS, SHF_ALLOC, offsetof(struct head, eh_frame),
		sizeof(head->eh_frame));
	set_section(head, BASE, SHT_PROGBITS, SHF_ALLOC, offsetof(struct head, base), 1);
	set_section(head, BUILD_ID, SHT_NOTE, SHF_ALLOC, offsetof(struct head, build_id),
		sizeof(head->build_id));
	set_section(head, NOTE, SHT_NOTE, 0, offsetof(struct head, note), note_length);
	set_section(head, PROBES, SHT_PROGBITS, SHF_ALLOC | SHF_WRITE, machine->segment_bytes,
		sizeof(uint16_t));
	set_section(
		head, SYMTAB, SHT_SYMTAB, 0, offsetof(struct head, symbols), sizeof(head->symbols));
	set_section(head, STRTAB, SHT_STRTAB, 0, offsetof(struct head, symbol_names),
		sizeof(symbol_names));
	set_section(head, SHSTRTAB, SHT_STRTAB, 0, offsetof(struct head, section_names), 0);
	head->sections[SHSTRTAB].sh_size = set_section_names(head);
	head->sections[BUILD_ID].sh_addralign = 4;
	head->sections[NOTE].sh_addralign = 4;
	head->sections[SYMTAB].sh_link = STRTAB;
	head->sections[SYMTAB].sh_info = 2; /* local symbols */
	head->sections[SYMTAB].sh_entsize = sizeof(Elf64_Sym);
}

static void set_headers(struct head *head, const struct arch_event *machine)
{
	head->elf = (Elf64_Ehdr){
		.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB,
			EV_CURRENT},
		.e_type = ET_DYN,
		.e_machine = machine->elf_machine,
		.e_version = EV_CURRENT,
		.e_phoff = offsetof(struct head, segments),
		.e_shoff = offsetof(struct head, sections),
		.e_ehsize = sizeof(Elf64_Ehdr),
		.e_phentsize = sizeof(Elf64_Phdr),
		.e_phnum = 3,
		.e_shentsize = sizeof(Elf64_Shdr),
		.e_shnum = SECTIONS,
		.e_shstrndx = SHSTRTAB,
	};
	head->segments[0] = (Elf64_Phdr){.p_type = PT_LOAD,
		.p_flags = PF_R | PF_X,
		.p_filesz = IMAGE_HEAD_BYTES,
		.p_memsz = IMAGE_HEAD_BYTES,
		.p_align = machine->segment_bytes};
	head->segments[1] = (Elf64_Phdr){.p_type = PT_LOAD,
		.p_flags = PF_R | PF_W,
		.p_offset = machine->segment_bytes,
		.p_vaddr = machine->segment_bytes,
		.p_paddr = machine->segment_bytes,
		.p_filesz = sizeof(uint16_t),
		.p_memsz = sizeof(uint16_t),
		.p_align = machine->segment_bytes};
	head->segments[2] = (Elf64_Phdr){.p_type = PT_NOTE,
		.p_flags = PF_R,
		.p_offset = offsetof(struct head, build_id),
		.p_vaddr = offsetof(struct head, build_id),
		.p_paddr = offsetof(struct head, build_id),
		.p_filesz = sizeof(head->build_id),
		.p_memsz = sizeof(head->build_id),
		.p_align = 4};
}

void image_make(const struct arch_event *machine, const char *provider, const char *name,
	uint8_t ret[IMAGE_HEAD_BYTES], struct image_layout *layout_ret)
{
	struct head head;

	memset(&head, 0, sizeof(head));
	set_headers(&head, machine);
	set_code(&head, machine);
	set_symbols(&head, machine);
	set_build_id(&head.build_id, provider, name);
	set_sections(&head, machine, set_note(&head.note, machine, provider, name));
	memset(ret, 0, IMAGE_HEAD_BYTES);
	memcpy(ret, &head, sizeof(head));
	*layout_ret = (struct image_layout){.site = offsetof(struct head, code),
		.semaphore = machine->segment_bytes,
		.length = machine->segment_bytes + sizeof(uint16_t)};
}
