/* SPDX-License-Identifier: MIT */
/* How much memory a process keeps for the next buffer, instead of asking the kernel each time. */
#ifndef SYS_HEAP_H
#define SYS_HEAP_H

/* For a process whose buffers come and go with every turn of its loop. */
void heap_settle(void);

/* Gives back whole pages that nothing is in any more, wherever they are. It takes milliseconds. */
void heap_give_back(void);

#endif
