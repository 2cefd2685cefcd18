/* SPDX-License-Identifier: MIT */
/*
 * Tracepoints: declared with types in orders.h, defined here, passed, and connected to functions.
 * The functions that connect are made of probe_self_register_typed() and
 * probe_self_unregister_typed().
 *
 *	cc -O2 -o orders orders.c -lprobe
 *	./orders
 *	probectl trace 'orders:*' -- ./orders quiet
 */
#include <stdio.h>
#include <stdlib.h>

#include "orders.h"

PROBE_DEFINE_TRACE(orders, taken);
PROBE_DEFINE_TRACE(orders, done);
PROBE_DEFINE_TRACE(orders, closing);

struct totals {
	int orders;
	double prices;
};

/* A text that only somebody who listens needs. */
static const char *describe(int id)
{
	static char text[32];

	snprintf(text, sizeof(text), "customer %d", id % 2);
	return text;
}

static __attribute__((noinline)) double serve(int id)
{
	double price = 1.5 * id;

	if (trace_orders_taken_enabled())
		trace_orders_taken(id, describe(id));
	price += 0.25;
	trace_orders_done(id, price);
	return price;
}

static void on_taken(void *data, int id, const char *customer)
{
	(void)data;
	printf("order %d of %s\n", id, customer);
}

static void on_done(void *data, int id, double price)
{
	struct totals *totals = data;

	(void)id;
	totals->orders++;
	totals->prices += price;
}

static void check(struct probe_error *error)
{
	if (!error)
		return;
	fprintf(stderr, "orders: %s\n", error->message);
	exit(1);
}

int main(int argc, char **argv)
{
	struct totals totals = {0, 0};
	double sum = 0;
	int quiet = argc > 1;

	(void)argv;
	if (!quiet) {
		check(register_trace_orders_taken(on_taken, NULL));
		check(register_trace_orders_done(on_done, &totals));
	}
	for (int id = 1; id <= 3; id++)
		sum += serve(id);
	if (!quiet) {
		check(unregister_trace_orders_taken(on_taken, NULL));
		check(unregister_trace_orders_done(on_done, &totals));
	}
	sum += serve(4);
	trace_orders_closing();
	printf("%d orders of %.2f; all: %.2f\n", totals.orders, totals.prices, sum);
	return 0;
}
