/* SPDX-License-Identifier: MIT */
/* Lines that draw.c and chart.c share. */
#ifndef CLI_TOP_DRAW_H
#define CLI_TOP_DRAW_H

#include "cli/top/top.h"

/* A line of its own; text that is wider than the screen loses its middle. */
void draw_line(
	struct top_frame *frame, const struct top_view *view, enum top_look look, const char *text);

/* The first line, and the last one. */
void draw_head(struct top_frame *frame, const struct top_model *model, const struct top_view *view);
void draw_last(struct top_frame *frame, const struct top_model *model, const struct top_view *view);

/* The whole screen, if view->chart is set. */
void draw_chart(
	struct top_frame *frame, const struct top_model *model, const struct top_view *view);

#endif
