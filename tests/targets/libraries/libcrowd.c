/* SPDX-License-Identifier: MIT */
/* Like liblate, with 512 probes of one site each, crowd:p000 to crowd:p777 in octal digits. */
#include <sys/sdt.h>

/* What follows each site, with room for a jump where the site's nop has none. */
#ifdef __x86_64__
#define BEHIND ".byte 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0"
#else
#define BEHIND "nop"
#endif
#define SITE(name)                                                                                 \
	DTRACE_PROBE(crowd, name);                                                                 \
	__asm__ volatile(BEHIND)
#define SITES_8(name)                                                                              \
	SITE(name##0);                                                                             \
	SITE(name##1);                                                                             \
	SITE(name##2);                                                                             \
	SITE(name##3);                                                                             \
	SITE(name##4);                                                                             \
	SITE(name##5);                                                                             \
	SITE(name##6);                                                                             \
	SITE(name##7)
#define SITES_64(name)                                                                             \
	SITES_8(name##0);                                                                          \
	SITES_8(name##1);                                                                          \
	SITES_8(name##2);                                                                          \
	SITES_8(name##3);                                                                          \
	SITES_8(name##4);                                                                          \
	SITES_8(name##5);                                                                          \
	SITES_8(name##6);                                                                          \
	SITES_8(name##7)

void late_pass(void);

void late_pass(void)
{
	SITES_64(p0);
	SITES_64(p1);
	SITES_64(p2);
	SITES_64(p3);
	SITES_64(p4);
	SITES_64(p5);
	SITES_64(p6);
	SITES_64(p7);
}
