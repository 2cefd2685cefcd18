/* SPDX-License-Identifier: MIT */
/*
 * The body of mix_probed() and mix_plain(): everything that a probe must preserve is alive at
 * one. PROBE(name, a, b) is a probe or nothing.
 *
 * Registers: seven words and four doubles are used before and after. Flags: a carry lives
 * across a probe (the compiler itself never does that).
 */
struct mixed MIX(uint64_t seed, int rounds) {
	uint64_t a = seed, b = seed * 3 + 1, c = ~seed, d = seed << 7, e = 5, f = 11, carries = 0;
	double w = (double)(seed % 1000) + 0.5, x = 1.25, y = -3.0, z = 0.125;

	for (int i = 0; i < rounds; i++) {
		a ^= a << 13;
		a ^= a >> 7;
		a ^= a << 17;
		b += a;
		PROBE(hit, a, i);
		c = (c << 5 | c >> 59) ^ b;
		d += c * 0x9e3779b97f4a7c15ULL;
		w = w * 0.5 + x;
		x = x * 0.25 - y * z;
		CARRY(carries, a, b);
		e ^= d + f;
		f = f * 6364136223846793005ULL + e;
		y = y * 0.5 + (double)(int)(a & 0xff);
		if (i % 3 == 0)
			PROBE(third, c, d);
		z = z * 0.75 + w * 0.001;
		PROBE(hit, f, i);
	}
	return (struct mixed){a ^ b ^ c ^ d ^ e ^ f ^ carries, w + x + y + z};
}
