/* SPDX-License-Identifier: MIT */
/* The states of a passage, and what its stops mean. For passage.c. */
#ifndef LIBPROBE_FOLLOW_STAGES_H
#define LIBPROBE_FOLLOW_STAGES_H

#include "libprobe/follow/passage.h"

/* Begins to trace it, in PASSAGE_THROUGH; false: it must not be traced, or is gone. */
bool stage_begin(struct passage *passage);

/* Asks the thread to stop. */
void stage_interrupt(struct passage *passage);

/* Enters a state, whose time begins; and asks the thread to stop. */
void stage_enter(struct passage *passage, enum passage_state state);
void stage_ask_to_stop(struct passage *passage, enum passage_state state);

/* A thread has stopped, with this status (waitpid(2)): handles that, and mostly lets it run on. */
void stage_stop(struct passage *passage, int status);

/* Releases a thread that has stopped. */
void stage_let_go(struct passage *passage);

#endif
