/* SPDX-License-Identifier: MIT */
/* The tracepoints of orders.c, for all of its source files. */
#ifndef ORDERS_H
#define ORDERS_H

#include <probe/tracepoint.h>

PROBE_DECLARE_TRACE(orders, taken, int, id, const char *, customer);
PROBE_DECLARE_TRACE(orders, done, int, id, double, price);
PROBE_DECLARE_TRACE(orders, closing);

#endif
