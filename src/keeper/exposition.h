/* SPDX-License-Identifier: MIT */
/* Writes metrics as text for Prometheus: the exposition format, version 0.0.4. */
#ifndef KEEPER_EXPOSITION_H
#define KEEPER_EXPOSITION_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

#define EXPOSITION_TYPE "text/plain; version=0.0.4; charset=utf-8"

struct exposition_label {
	const char *name;
	const char *value; /* any UTF-8; it is escaped */
};

/* What stands before the samples of a metric. `type` is counter, gauge or histogram. */
void exposition_begin(struct buf *out, const char *name, const char *type, const char *help);

/*
 * One sample of the metric, whose name may be followed by `suffix`. The value is `value` / `unit`
 * in decimal, exactly; the unit is a power of ten, at most MONEY_UNIT.
 */
void exposition_add(struct buf *out, const char *name, const char *suffix,
		    const struct exposition_label *labels, size_t label_count, uint64_t value,
		    uint64_t unit);

/* `value` / `unit` in decimal, without zeros at its end. */
void exposition_add_decimal(struct buf *out, uint64_t value, uint64_t unit);

#endif
