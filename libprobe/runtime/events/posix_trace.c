/* SPDX-License-Identifier: MIT */
/*
 * The user events of POSIX tracing, as probes. An event type is a probe in an ELF file in memory
 * that this process has mapped. Controllers find it in /proc/PID/maps, like any library, and read
 * it through /proc/PID/fd. The loader does not know it, so static programs have it, too.
 *
 * Controllers that wait for libraries are notified as by the loader: by a call of the empty
 * function that `struct r_debug` names, in which they hold the thread until the probes of all open
 * names are enabled. That takes as long for a hundred names as for one, and programs open many
 * before they use one, so names are announced at the first use.
 *
 * A file has room for many events, so descriptors and mappings do not limit them. After fork(2),
 * parent and child share the file: each begins a new one for its next name.
 *
 * One probe for all events, with the name as an argument, would need no file, but every event would
 * hit it, and tracers would compare strings.
 *
 * An event's identifier is its index in a table. An entry is filled in before the count includes
 * it, and never changes. Only posix_trace_eventid_open() takes a lock.
 */
#include <stdatomic.h>
#include <stddef.h>
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#define _SDT_HAS_SEMAPHORES 1
#include <sys/sdt.h>

#include "libprobe/runtime/events/image.h"
#include "probe/posix_trace.h"

/* A file of probes that this process makes at run time. {0} has no room. */
struct batch {
	struct image_layout layout;
	uint8_t *base, *shared; /* the private and the shared mapping, see image.h */
	uint32_t count;
};

struct batch_probe {
	const volatile uint16_t *semaphore; /* nonzero while the probe is traced */
	void (*site)(const void *data, size_t length);
};

/* A table of user events by number and by name. Events are never changed or removed. */

struct event {
	struct batch_probe probe;
	char *name;    /* owned */
	uint32_t next; /* number + 1 of the next event with the same hash, or 0 */
};

/* `first` has the first TABLE_FIRST events, chunk c the next TABLE_FIRST << c: no event moves. */
enum { TABLE_FIRST = 128, TABLE_FIRST_BITS = 7, TABLE_CHUNKS = 24 };

struct table {
	struct event first[TABLE_FIRST];
	_Atomic(struct event *) chunks[TABLE_CHUNKS];
	atomic_uint count; /* all events below this number are filled in */
	uint32_t *heads;   /* for each hash: number + 1 of the first event in the chain, or 0 */
	uint32_t head_count;
};

/* Returns the chunk of a number from TABLE_FIRST on. */
static unsigned int table_chunk(uint32_t number)
{
	return 31 - (unsigned int)__builtin_clz(number) - TABLE_FIRST_BITS;
}

/* Returns the event with a number below the count, which was loaded with memory_order_acquire. */
static struct event *table_at(struct table *table, uint32_t number)
{
	unsigned int chunk;

	if (__builtin_expect(number < TABLE_FIRST, 1))
		return &table->first[number];
	chunk = table_chunk(number);
	return &atomic_load_explicit(&table->chunks[chunk],
		memory_order_relaxed)[number - ((uint32_t)TABLE_FIRST << chunk)];
}

/* ==== Image =================================================================================== */

/*
 * Controllers find probes in the ELF files that a process has mapped. So probes whose names are
 * known only at run time need a file of their own. The file has room for a number of probes; a
 * probe gets its note when it is named:
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
 * The file needs no loader and no relocation: addresses are file offsets. The code has pages of its
 * own. When a page is patched, the process gets a private copy of it, which no longer shows changes
 * of the file. A note is written before the size of its section is increased to include it. So
 * another reader of the file sees either the whole note or nothing of it.
 *
 * Sources: System V ABI, "Object Files"; SystemTap, "User Space Probe Implementation" (the note);
 * DWARF 5, 6.4, and LSB 10.6 (.eh_frame).
 */

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

/* The name of the functions with the sites, which call stacks show for posix_trace_event(). */
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

/* The part that is mapped for reading. */
struct head {
	Elf64_Ehdr elf;
	Elf64_Phdr segments[4];
	struct eh_frame eh_frame;
	uint8_t base, padding[7]; /* `base` is the content of .stapsdt.base */
	struct build_id build_id;
	Elf64_Sym symbols[2];
	char symbol_names[24];
	char section_names[120];
};

/* The part that is mapped shared. Notes follow each other, padded to 4 bytes. */
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

/* Writes the sections' names. Returns their total length. */
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
	sections[SYMTAB].sh_info = 2; /* number of local symbols */
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
	/* After the note is written, for other readers. */
	__atomic_store_n(&where->sections[NOTE].sh_size, used, __ATOMIC_RELEASE);
}

/* ==== Batch =================================================================================== */

/* New in Linux 5.1: forbids write(2) and new writable mappings. */
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

/*
 * Creates a file in memory, never as descriptor 0 to 2; -1 and errno on an error. Allocates its
 * pages: otherwise, with vm.overcommit_memory=2, naming a probe could raise SIGBUS.
 */
static int make_file(const char *name, size_t length)
{
	int low = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING), fd, err;

	if (low < 0)
		return -1;
	fd = fcntl(low, F_DUPFD_CLOEXEC, 3);
	err = errno;
	close(low);
	errno = err;
	if (fd < 0 || fallocate(fd, 0, 0, (off_t)length) == 0)
		return fd;
	err = errno;
	close(fd);
	errno = err;
	return -1;
}

/* From now on, only the mapping that exists can write to the file. */
static int seal(int fd)
{
	const int size = F_SEAL_SHRINK | F_SEAL_GROW;

	if (fcntl(fd, F_ADD_SEALS, size | F_SEAL_FUTURE_WRITE) != 0 &&
		fcntl(fd, F_ADD_SEALS, size) != 0)
		return -1;
	return fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL);
}

/* Returns a number that is different for every file. */
static uint64_t make_id(const void *file)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return ((uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec) ^
	       (uint64_t)getpid() << 40 ^ (uintptr_t)file >> 12;
}

/* Maps code and data; NULL and errno on an error. */
static uint8_t *map_probes(int fd, const struct image_layout *layout)
{
	uint8_t *base = mmap(NULL, layout->shared, PROT_READ, MAP_PRIVATE, fd, 0);
	int err;

	if (base == MAP_FAILED)
		return NULL;
	if (mmap(base + layout->code, layout->data - layout->code, PROT_READ | PROT_EXEC,
		    MAP_PRIVATE | MAP_FIXED, fd, (off_t)layout->code) != MAP_FAILED &&
		mmap(base + layout->data, layout->shared - layout->data, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_FIXED, fd, (off_t)layout->data) != MAP_FAILED)
		return base;
	err = errno;
	munmap(base, layout->shared);
	errno = err;
	return NULL;
}

static int fill(const struct arch_event *machine, int fd, struct batch *batch)
{
	const struct image_layout *layout = &batch->layout;
	uint8_t *file = mmap(NULL, layout->length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	int err;

	if (file == MAP_FAILED)
		return errno;
	image_make(machine, layout, make_id(file), file);
	if (seal(fd) == 0) {
		batch->base = map_probes(fd, layout);
		if (batch->base && munmap(file, layout->shared) == 0) {
			batch->shared = file + layout->shared;
			return 0;
		}
	}
	err = errno;
	if (batch->base)
		munmap(batch->base, layout->shared);
	munmap(file, layout->length);
	return err;
}

/*
 * Creates a file for `capacity` probes. Its descriptor stays open, because controllers need it to
 * open the file. Returns 0, or an error of memfd_create(2), fcntl(2), fallocate(2) or mmap(2).
 */
static int batch_open(const struct arch_event *machine, uint32_t capacity, const char *provider,
	struct batch *ret)
{
	struct batch batch = {0};
	int fd, err;

	image_layout(machine, capacity, &batch.layout);
	fd = make_file(provider, batch.layout.length);
	if (fd < 0)
		return errno;
	err = fill(machine, fd, &batch);
	if (err)
		close(fd);
	else
		*ret = batch;
	return err;
}

/* Adds a probe to a file that has room. See image_add() for names' limits. */
static struct batch_probe batch_add(const struct arch_event *machine, struct batch *batch,
	const char *provider, const char *name)
{
	uintptr_t site = (uintptr_t)batch->base + image_site(&batch->layout, batch->count);
	struct batch_probe probe = {
		.semaphore = (const uint16_t *)(const void *)(batch->base +
							      image_semaphore(&batch->layout,
								      batch->count))};

	memcpy(&probe.site, &site, sizeof(site));
	image_add(machine, &batch->layout, batch->count, provider, name, batch->shared);
	batch->count++;
	return probe;
}

/* ==== Table =================================================================================== */

enum { HEADS_FIRST = 256 };

/* FNV-1a */
static uint32_t hash(const char *name)
{
	uint32_t hash = 2166136261u;

	for (; *name; name++)
		hash = (hash ^ (unsigned char)*name) * 16777619u;
	return hash ^ hash >> 16;
}

static void link_in(struct table *table, uint32_t number)
{
	struct event *event = table_at(table, number);
	uint32_t *head = &table->heads[hash(event->name) % table->head_count];

	event->next = *head;
	*head = number + 1;
}

/* Makes as many heads as events. Without memory, chains get longer. */
static void grow_heads(struct table *table, uint32_t count)
{
	uint32_t wanted = table->head_count ? 2 * table->head_count : HEADS_FIRST, *heads;

	if (count < table->head_count)
		return;
	heads = calloc(wanted, sizeof(*heads));
	if (!heads)
		return;
	free(table->heads);
	table->heads = heads;
	table->head_count = wanted;
	for (uint32_t i = 0; i < count; i++)
		link_in(table, i);
}

/* Returns a name's number, or UINT32_MAX. */
static uint32_t table_find(struct table *table, const char *name)
{
	uint32_t place = table->head_count ? table->heads[hash(name) % table->head_count] : 0;

	while (place) {
		const struct event *event = table_at(table, place - 1);

		if (strcmp(event->name, name) == 0)
			return place - 1;
		place = event->next;
	}
	return UINT32_MAX;
}

/* Allocates the chunk of event `number`, unless it exists. */
static int make_chunk(struct table *table, uint32_t number)
{
	struct event *events;
	unsigned int chunk;

	if (number < TABLE_FIRST)
		return 0;
	chunk = table_chunk(number);
	if (chunk >= TABLE_CHUNKS)
		return EOVERFLOW;
	if (atomic_load_explicit(&table->chunks[chunk], memory_order_relaxed))
		return 0;
	events = calloc((size_t)TABLE_FIRST << chunk, sizeof(*events));
	if (!events)
		return ENOMEM;
	atomic_store_explicit(&table->chunks[chunk], events, memory_order_relaxed);
	return 0;
}

/*
 * Prepares the next event, so that table_commit() cannot fail. Returns 0, ENOMEM, or EOVERFLOW if
 * all numbers are used.
 */
static int table_reserve(struct table *table, const char *name, struct event **ret)
{
	uint32_t count = atomic_load_explicit(&table->count, memory_order_relaxed);
	int err = make_chunk(table, count);

	if (err)
		return err;
	grow_heads(table, count);
	if (!table->head_count)
		return ENOMEM;
	*ret = table_at(table, count);
	/* An earlier call that failed has left it. */
	free((*ret)->name);
	(*ret)->name = strdup(name);
	return (*ret)->name ? 0 : ENOMEM;
}

/* Adds the prepared event, whose probe is filled in. Returns its number. */
static uint32_t table_commit(struct table *table)
{
	uint32_t number = atomic_load_explicit(&table->count, memory_order_relaxed);

	link_in(table, number);
	/* Publishes the chunk and the event. Pairs with the load in posix_trace_event(). */
	atomic_store_explicit(&table->count, number + 1, memory_order_release);
	return number;
}

/* ==== Posix trace ============================================================================= */

_Static_assert(TRACE_EVENT_NAME_MAX <= IMAGE_NAME_MAX, "names fit into a note");

static const char provider[] = "posix_trace", unnamed[] = "posix_trace_unnamed_userevent";

enum { FIRST_EVENT = 64 }; /* lower identifiers are the standard's own events */

/* NULL on an instruction set without such probes. */
static const struct arch_event *const machine = ARCH_EVENT;

static struct table table;
static struct batch batch; /* the newest file, the only one that may have room */
static pid_t batch_owner;
static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;
/* Waiting controllers have seen all events below this number. */
static atomic_uint announced;

__extension__ unsigned short posix_trace_posix_trace_unnamed_userevent_semaphore
	__attribute__((section(".probes"), visibility("hidden")));

/* Missing in static programs and with other C libraries. */
#pragma weak _r_debug

/* ---- Making a probe ----------------------------------------------------------------- */

/* Returns the next file's capacity: at least 64, more if there are many events. */
static uint32_t capacity_for(uint32_t count)
{
	uint32_t capacity = 64;

	while (capacity < count && capacity < IMAGE_EVENTS_MAX)
		capacity *= 2;
	return capacity;
}

static int make_probe(const char *name, struct batch_probe *ret)
{
	int err;

	if (!machine)
		return ENOTSUP;
	/* Compare process ids, too: a child of clone(2) has not marked the file as full. */
	if (batch.count == batch.layout.capacity || batch_owner != getpid()) {
		err = batch_open(
			machine, capacity_for(atomic_load(&table.count)), provider, &batch);
		if (err)
			return err;
		batch_owner = getpid();
	}
	*ret = batch_add(machine, &batch, provider, name);
	return 0;
}

/*
 * Calls the loader's function for debuggers, in which a controller that follows libraries holds the
 * thread until it has found the probes. It does not hold the loader's own calls; ARCH_GATE_CALLER
 * marks this one, whatever other threads do, and whatever a signal handler that runs this has
 * interrupted.
 */
static void call_controllers(void)
{
	void (*tell)(uint64_t caller);

	if (!&_r_debug || !_r_debug.r_brk)
		return;
	memcpy(&tell, &_r_debug.r_brk, sizeof(tell));
	tell(ARCH_GATE_CALLER);
}

/* Without a lock: a name may first be used in a signal handler. */
static void announce(void)
{
	uint32_t count = atomic_load_explicit(&table.count, memory_order_acquire);
	uint32_t before = atomic_load_explicit(&announced, memory_order_relaxed);

	if (before >= count)
		return;
	call_controllers();
	/* Pairs with the load in posix_trace_event(). */
	while (before < count && !atomic_compare_exchange_weak_explicit(&announced, &before, count,
					 memory_order_release, memory_order_relaxed))
		;
}

/*
 * Takes the lock, so that it is free in the child, and announces open names, so that the child
 * inherits enabled probes.
 */
static void before_fork(void)
{
	pthread_mutex_lock(&opening);
	announce();
}

/* Parent and child share the file: both count it as full. */
static void after_fork(void)
{
	batch.count = batch.layout.capacity;
	pthread_mutex_unlock(&opening);
}

__attribute__((constructor)) static void watch_forks(void)
{
	pthread_atfork(before_fork, after_fork, after_fork);
}

/* ---- The interface ------------------------------------------------------------------ */

static int find_or_make(const char *name, trace_event_id_t *ret)
{
	uint32_t number = table_find(&table, name);
	struct event *event;
	int err;

	if (number == UINT32_MAX) {
		err = table_reserve(&table, name, &event);
		if (!err)
			err = make_probe(name, &event->probe);
		if (err == ENOTSUP)
			return err;
		/* At a limit, events still count, without a name. */
		if (err) {
			*ret = POSIX_TRACE_UNNAMED_USEREVENT;
			return 0;
		}
		number = table_commit(&table);
	}
	*ret = FIRST_EVENT + number;
	return 0;
}

int posix_trace_eventid_open(const char *restrict event_name, trace_event_id_t *restrict event_id)
{
	size_t length = strnlen(event_name, TRACE_EVENT_NAME_MAX + 1);
	int err, saved = errno;

	if (length > TRACE_EVENT_NAME_MAX)
		return ENAMETOOLONG;
	if (length == 0)
		return EINVAL;
	if (strcmp(event_name, unnamed) == 0) {
		*event_id = POSIX_TRACE_UNNAMED_USEREVENT;
		return 0;
	}
	pthread_mutex_lock(&opening);
	err = find_or_make(event_name, event_id);
	pthread_mutex_unlock(&opening);
	errno = saved;
	return err;
}

static void pass(uint32_t number, const void *data, size_t length)
{
	const struct batch_probe *probe = &table_at(&table, number)->probe;

	if (__builtin_expect(*probe->semaphore != 0, 0))
		probe->site(data, length);
}

void posix_trace_event(trace_event_id_t event_id, const void *restrict data_ptr, size_t data_len)
{
	uint32_t number = event_id - FIRST_EVENT;

	/* These loads pair with the stores in announce() and table_commit(). */
	if (__builtin_expect(number < atomic_load_explicit(&announced, memory_order_acquire), 1)) {
		pass(number, data_ptr, data_len);
	} else if (number < atomic_load_explicit(&table.count, memory_order_acquire)) {
		announce();
		pass(number, data_ptr, data_len);
	} else if (event_id == POSIX_TRACE_UNNAMED_USEREVENT &&
		   __builtin_expect(posix_trace_posix_trace_unnamed_userevent_semaphore, 0)) {
		STAP_PROBE2(posix_trace, posix_trace_unnamed_userevent, data_ptr, data_len);
	}
}

const char *event_name(trace_event_id_t event_id)
{
	uint32_t number = event_id - FIRST_EVENT;

	/* Pairs with the store in table_commit(). */
	return number < atomic_load_explicit(&table.count, memory_order_acquire)
		       ? table_at(&table, number)->name
		       : NULL;
}
