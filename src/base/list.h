/* SPDX-License-Identifier: MIT */
/*
 * Lists whose members know where they stand, so that one leaves without being searched for: a
 * member has `next`, and `at`, which points to the pointer that points to it.
 */
#ifndef BASE_LIST_H
#define BASE_LIST_H

/* Puts a member in front. */
#define LIST_ADD(first, member)                                                                    \
	do {                                                                                       \
		(member)->next = *(first);                                                         \
		(member)->at = (first);                                                            \
		if ((member)->next)                                                                \
			(member)->next->at = &(member)->next;                                      \
		*(first) = (member);                                                               \
	} while (0)

#define LIST_REMOVE(member)                                                                        \
	do {                                                                                       \
		*(member)->at = (member)->next;                                                    \
		if ((member)->next)                                                                \
			(member)->next->at = (member)->at;                                         \
	} while (0)

#endif
