/* SPDX-License-Identifier: MIT */
/* Reservations that outlive the question, to be asked for once more; see store/lent.h. */
#ifndef STORE_ANEW_H
#define STORE_ANEW_H

#include "store/store.h"

/* With its texts. The answer is not copied. */
struct store_reservation *reservation_copy(const struct store_reservation *reservation);
void reservation_free(struct store_reservation *reservation);

#endif
