/* SPDX-License-Identifier: MIT */
/*
 * A trie with the links of Aho and Corasick, and a filter in front of it.
 *
 * The trie. Its nodes are numbered in the order of a walk that goes down first: a node's first
 * child has the next number, the others are found by `sibling`. A node stands for the bytes from
 * the root to it, which are the beginning of the pattern that it names.
 *
 * A scan is at a node: the bytes that it stands for have come last, and the match that would
 * begin the earliest begins with them. When the next byte leads nowhere, these bytes are dropped:
 * if a pattern has ended among them that begins where they do, that is the match, and the scan
 * goes on after it; else it goes on with the longest end of them that is itself in the trie
 * (`fail`). Only when a pattern lies wholly within them, before that end, is the next byte tried
 * as a beginning (NODE_HIDES): patterns that hide others are rare.
 *
 * The filter. Most text has nothing to do with any pattern. Of every pattern each group of
 * `gram` bytes that begins among its first `stride` bytes is marked in a table, by a hash. It is
 * then enough to look at one group in every `stride` bytes: where a whole match is, one of its
 * groups is looked at, and is marked. Only around marked groups, and at the end of what has
 * come, is the trie walked.
 */
#include "keeper/automaton.h"

#include <errno.h>
#include <stdlib.h>

#include "base/die.h"

#define ROOT            0
#define NO_PATTERN      UINT16_MAX
#define STRIDE_MAX      16
#define GRAM_MAX        4
#define FILTER_BITS_MIN 15 /* 4 KiB */
#define FILTER_BITS_MAX 18 /* 32 KiB: no more than what is near */
#define FILTER_SPARSE   64 /* bits for each mark */

enum {
	NODE_HAS_CHILD = 1,
	NODE_HIDES = 2, /* a pattern lies within it that the link behind it does not reach */
};

struct node {
	uint32_t sibling; /* or 0 */
	uint32_t fail;
	uint32_t depth;
	uint16_t pattern; /* one that goes through it */
	uint16_t ended;   /* the longest pattern on the way to it, itself included */
	uint8_t label;
	uint8_t flags;
};

struct automaton {
	struct node *nodes;
	uint32_t node_count;
	size_t pattern_count;
	struct pattern *patterns; /* sorted; each once */
	char *texts;              /* of patterns and replacements */
	size_t texts_len;
	bool keeps_length;
	uint32_t gram_mask;
	unsigned int filter_shift;
	size_t stride;
	uint8_t *filter;
	uint32_t first[256]; /* the root's children */
};

/* ---- making ---- */

static void *allocate(size_t count, size_t size)
{
	void *p = calloc(count ? count : 1, size);

	if (!p)
		die_no_memory();
	return p;
}

static int compare_bytes(struct bytes a, struct bytes b)
{
	size_t len = a.len < b.len ? a.len : b.len;
	int r = memcmp(a.data, b.data, len);

	return r ? r : (a.len > b.len) - (a.len < b.len);
}

static int compare_patterns(const void *a, const void *b)
{
	const struct pattern *const *x = a, *const *y = b;
	int r = compare_bytes((*x)->text, (*y)->text);

	/* They are in one array: of equal ones the first stays the first. */
	return r ? r : (*x > *y) - (*x < *y);
}

static struct bytes copy_text(struct automaton *automaton, struct bytes text)
{
	char *copy = automaton->texts + automaton->texts_len;

	if (text.len > 0)
		memcpy(copy, text.data, text.len);
	automaton->texts_len += text.len;
	return (struct bytes){ copy, text.len };
}

/* Copies them in order, each once. */
static void copy_patterns(struct automaton *automaton, const struct pattern *patterns, size_t count)
{
	_cleanup_free_ const struct pattern **order = allocate(count, sizeof(const void *));
	size_t size = 0;

	for (size_t i = 0; i < count; i++) {
		order[i] = &patterns[i];
		size += patterns[i].text.len + patterns[i].replacement.len;
	}
	qsort(order, count, sizeof(const void *), compare_patterns);
	automaton->texts = allocate(size, 1);
	automaton->patterns = allocate(count, sizeof(*automaton->patterns));
	automaton->keeps_length = true;
	for (size_t i = 0; i < count; i++) {
		struct pattern *pattern = &automaton->patterns[automaton->pattern_count];

		if (i > 0 && bytes_equal(order[i]->text, order[i - 1]->text))
			continue;
		pattern->text = copy_text(automaton, order[i]->text);
		pattern->replacement = copy_text(automaton, order[i]->replacement);
		pattern->tag = order[i]->tag;
		if (pattern->replacement.len != pattern->text.len)
			automaton->keeps_length = false;
		automaton->pattern_count++;
	}
}

static size_t common_len(struct bytes a, struct bytes b)
{
	size_t len = a.len < b.len ? a.len : b.len, i = 0;

	while (i < len && a.data[i] == b.data[i])
		i++;
	return i;
}

/* A new node below `parent`; `elder` is the child that came before it, or 0. */
static uint32_t add_node(struct automaton *automaton, uint32_t parent, uint32_t elder,
			 uint16_t pattern, uint8_t label)
{
	uint32_t id = automaton->node_count++;
	struct node *node = &automaton->nodes[id];

	node->pattern = pattern;
	node->label = label;
	node->depth = automaton->nodes[parent].depth + 1;
	node->ended = automaton->nodes[parent].ended;
	automaton->nodes[parent].flags |= NODE_HAS_CHILD;
	if (parent == ROOT)
		automaton->first[label] = id;
	else if (elder)
		automaton->nodes[elder].sibling = id;
	return id;
}

static size_t count_nodes(const struct automaton *automaton)
{
	struct bytes last = { NULL, 0 };
	size_t count = 1;

	for (size_t i = 0; i < automaton->pattern_count; i++) {
		struct bytes text = automaton->patterns[i].text;

		count += text.len - common_len(text, last);
		last = text;
	}
	return count;
}

/*
 * In their order each pattern leaves the one before it at one node, and is new below it.
 * `path` has room for the nodes of the longest pattern.
 */
static void build_trie(struct automaton *automaton, uint32_t *path)
{
	struct bytes last = { NULL, 0 };

	automaton->nodes[ROOT].ended = NO_PATTERN;
	automaton->node_count = 1;
	path[0] = ROOT;
	for (size_t i = 0; i < automaton->pattern_count; i++) {
		struct bytes text = automaton->patterns[i].text;
		size_t common = common_len(text, last);

		for (size_t depth = common; depth < text.len; depth++) {
			uint32_t elder = depth == common && depth < last.len ? path[depth + 1] : 0;

			path[depth + 1] = add_node(automaton, path[depth], elder, (uint16_t)i,
						   (uint8_t)text.data[depth]);
		}
		automaton->nodes[path[text.len]].ended = (uint16_t)i;
		last = text;
	}
}

static uint32_t find_child(const struct automaton *automaton, uint32_t id, uint8_t c)
{
	uint32_t child;

	if (id == ROOT)
		return automaton->first[c];
	if (!(automaton->nodes[id].flags & NODE_HAS_CHILD))
		return 0;
	for (child = id + 1; child && automaton->nodes[child].label != c;)
		child = automaton->nodes[child].sibling;
	return child;
}

static bool is_end(const struct automaton *automaton, const struct node *node)
{
	return node->ended != NO_PATTERN &&
	       automaton->patterns[node->ended].text.len == node->depth;
}

/* What a node's link is made from; only while links are made. */
struct linking {
	uint32_t *queue;  /* nodes, the nearest to the root first */
	uint32_t *output; /* the longest pattern that a node ends with, shorter than itself: its
			     node */
	uint32_t *hidden; /* where the first pattern begins that lies within a node */
	uint32_t count;
};

static void link_child(struct automaton *automaton, struct linking *linking, uint32_t parent,
		       uint32_t id)
{
	struct node *nodes = automaton->nodes, *node = &nodes[id];
	uint32_t fail = parent, output;

	while (fail != ROOT && node->fail == ROOT) {
		fail = nodes[fail].fail;
		node->fail = find_child(automaton, fail, node->label);
	}
	output = is_end(automaton, &nodes[node->fail]) ? node->fail : linking->output[node->fail];
	linking->output[id] = output;
	linking->hidden[id] = parent == ROOT ? UINT32_MAX : linking->hidden[parent];
	if (output && node->depth - nodes[output].depth < linking->hidden[id])
		linking->hidden[id] = node->depth - nodes[output].depth;
	if (linking->hidden[id] < node->depth - nodes[node->fail].depth)
		node->flags |= NODE_HIDES;
	linking->queue[linking->count++] = id;
}

static void link_nodes(struct automaton *automaton)
{
	size_t size = automaton->node_count;
	_cleanup_free_ uint32_t *queue = allocate(size, sizeof(uint32_t));
	_cleanup_free_ uint32_t *output = allocate(size, sizeof(uint32_t));
	_cleanup_free_ uint32_t *hidden = allocate(size, sizeof(uint32_t));
	struct linking linking = { queue, output, hidden, 0 };

	for (size_t c = 0; c < 256; c++)
		if (automaton->first[c])
			link_child(automaton, &linking, ROOT, automaton->first[c]);
	for (uint32_t i = 0; i < linking.count; i++) {
		uint32_t parent = queue[i];

		if (!(automaton->nodes[parent].flags & NODE_HAS_CHILD))
			continue;
		for (uint32_t id = parent + 1; id; id = automaton->nodes[id].sibling)
			link_child(automaton, &linking, parent, id);
	}
}

/* ---- the filter ---- */

static inline uint32_t filter_hash(const struct automaton *automaton, const char *at)
{
	const unsigned char *p = (const unsigned char *)at;
	uint32_t gram = (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
			(uint32_t)p[3] << 24;

	return (gram & automaton->gram_mask) * UINT32_C(0x9E3779B1) >> automaton->filter_shift;
}

static void mark_pattern(struct automaton *automaton, struct bytes text)
{
	for (size_t i = 0; i < automaton->stride; i++) {
		char gram[GRAM_MAX] = "";
		size_t len = text.len - i < GRAM_MAX ? text.len - i : GRAM_MAX;
		uint32_t hash;

		memcpy(gram, text.data + i, len);
		hash = filter_hash(automaton, gram);
		automaton->filter[hash / 8] |= (uint8_t)(1 << hash % 8);
		explicit_bzero(gram, sizeof(gram));
	}
}

/* The shortest pattern says how long a group can be, and how far apart they may stand. */
static void build_filter(struct automaton *automaton)
{
	static const uint32_t masks[GRAM_MAX + 1] = { 0, 0xff, 0xffff, 0xffffff, 0xffffffff };
	size_t shortest = SIZE_MAX, gram;
	unsigned int bits = FILTER_BITS_MIN;

	for (size_t i = 0; i < automaton->pattern_count; i++)
		if (automaton->patterns[i].text.len < shortest)
			shortest = automaton->patterns[i].text.len;
	gram = (shortest + 1) / 2 < GRAM_MAX ? (shortest + 1) / 2 : GRAM_MAX;
	automaton->stride = shortest - gram + 1 < STRIDE_MAX ? shortest - gram + 1 : STRIDE_MAX;
	automaton->gram_mask = masks[gram];
	while (bits < FILTER_BITS_MAX &&
	       (size_t)1 << bits < automaton->pattern_count * automaton->stride * FILTER_SPARSE)
		bits++;
	automaton->filter_shift = 32 - bits;
	automaton->filter = allocate(((size_t)1 << bits) / 8, 1);
	for (size_t i = 0; i < automaton->pattern_count; i++)
		mark_pattern(automaton, automaton->patterns[i].text);
}

static inline bool is_marked(const struct automaton *automaton, const char *at)
{
	uint32_t hash = filter_hash(automaton, at);

	return automaton->filter[hash / 8] >> hash % 8 & 1;
}

/*
 * No match begins from `at` on before the place returned; there and up to *ret_until one may.
 * At the end a match may begin whose groups have not come yet.
 */
static size_t skip(const struct automaton *automaton, struct bytes data, size_t at,
		   size_t *ret_until)
{
	size_t stride = automaton->stride, group = at + stride - 1;

	while (group + GRAM_MAX <= data.len) {
		if (is_marked(automaton, data.data + group)) {
			*ret_until = group + 1;
			return group + 1 - stride;
		}
		group += stride;
	}
	*ret_until = data.len;
	return group + 1 - stride;
}

/* ---- a whole automaton ---- */

static int check_patterns(const struct pattern *patterns, size_t count, size_t *ret_longest)
{
	size_t total = 0;

	*ret_longest = 0;
	if (count > AUTOMATON_PATTERNS_MAX)
		return -E2BIG;
	for (size_t i = 0; i < count; i++) {
		size_t len = patterns[i].text.len;

		if (len == 0)
			return -EINVAL;
		if (len > AUTOMATON_BYTES_MAX - total)
			return -E2BIG;
		total += len;
		if (len > *ret_longest)
			*ret_longest = len;
	}
	return count == 0 ? -EINVAL : 0;
}

int automaton_new(const struct pattern *patterns, size_t count, struct automaton **ret_automaton)
{
	_cleanup_free_ uint32_t *path = NULL;
	struct automaton *automaton;
	size_t longest;
	int r = check_patterns(patterns, count, &longest);

	if (r < 0)
		return r;
	automaton = allocate(1, sizeof(*automaton));
	path = allocate(longest + 1, sizeof(*path));
	copy_patterns(automaton, patterns, count);
	automaton->nodes = allocate(count_nodes(automaton), sizeof(*automaton->nodes));
	build_trie(automaton, path);
	link_nodes(automaton);
	build_filter(automaton);
	*ret_automaton = automaton;
	return 0;
}

void automaton_free(struct automaton *automaton)
{
	if (!automaton)
		return;
	explicit_bzero(automaton->nodes, automaton->node_count * sizeof(*automaton->nodes));
	explicit_bzero(automaton->texts, automaton->texts_len);
	free(automaton->nodes);
	free(automaton->texts);
	free(automaton->patterns);
	free(automaton->filter);
	free(automaton);
}

bool automaton_keeps_length(const struct automaton *automaton)
{
	return automaton->keeps_length;
}

/* ---- searching ---- */

/*
 * The text of a scan is what was held back, and then what has come; places count from its
 * beginning. What is held back can be scanned again, from the pattern that it is the beginning of.
 */
struct scan {
	const struct automaton *automaton;
	struct bytes held, data;
	size_t sent;  /* what is before it has gone on */
	size_t start; /* where the bytes of `node` begin */
	size_t at;    /* where they end: the next byte */
	size_t until; /* the filter is not asked before it; never within what was held back */
	uint32_t node;
	automaton_emit *emit;
	void *owner;
};

static size_t scan_len(const struct scan *scan)
{
	return scan->held.len + scan->data.len;
}

static inline uint8_t byte_at(const struct scan *scan, size_t at)
{
	return (uint8_t)(at < scan->held.len ? scan->held.data[at]
					     : scan->data.data[at - scan->held.len]);
}

/* What is before `end` is no match. */
static void send_until(struct scan *scan, size_t end)
{
	struct bytes held = scan->held, data = scan->data;

	if (scan->sent < held.len && scan->sent < end) {
		size_t stop = end < held.len ? end : held.len;

		scan->emit(scan->owner, (struct bytes){ held.data + scan->sent, stop - scan->sent },
			   NULL);
		scan->sent = stop;
	}
	if (scan->sent < end)
		scan->emit(scan->owner,
			   (struct bytes){ data.data + (scan->sent - held.len), end - scan->sent },
			   NULL);
	scan->sent = end;
}

/* Goes on at the root. */
static void restart(struct scan *scan, size_t at)
{
	scan->node = ROOT;
	scan->start = scan->at = at;
}

static void accept(struct scan *scan, const struct pattern *pattern)
{
	send_until(scan, scan->start);
	scan->sent += pattern->text.len;
	restart(scan, scan->sent);
	scan->emit(scan->owner, pattern->replacement, pattern);
}

/* The bytes of the node lead no further. */
static void drop(struct scan *scan)
{
	const struct node *node = &scan->automaton->nodes[scan->node];

	if (node->ended != NO_PATTERN) {
		accept(scan, &scan->automaton->patterns[node->ended]);
	} else if (node->flags & NODE_HIDES) {
		restart(scan, scan->start + 1);
	} else {
		scan->start += node->depth - scan->automaton->nodes[node->fail].depth;
		scan->node = node->fail;
	}
}

/* At the root: to where a match may begin. False at the end. */
static bool find_start(struct scan *scan)
{
	size_t held_len = scan->held.len, until;

	if (scan->at >= scan->until && scan->at >= held_len) {
		scan->at = held_len +
			   skip(scan->automaton, scan->data, scan->at - held_len, &until);
		scan->until = held_len + until;
	}
	while (scan->at < scan->until && !scan->automaton->first[byte_at(scan, scan->at)])
		scan->at++;
	scan->start = scan->at;
	return scan->at < scan->until;
}

/* Goes down as far as the text leads; then it is a match, or dropped, or the text has ended. */
static void walk(struct scan *scan)
{
	const struct automaton *automaton = scan->automaton;
	size_t at = scan->at, len = scan_len(scan);
	uint32_t node = scan->node, child = 0;

	while (at < len && (child = find_child(automaton, node, byte_at(scan, at)))) {
		node = child;
		at++;
	}
	scan->node = node;
	scan->at = at;
	if (!(automaton->nodes[node].flags & NODE_HAS_CHILD))
		accept(scan, &automaton->patterns[automaton->nodes[node].ended]);
	else if (at < len)
		drop(scan);
}

static void scan_text(struct scan *scan)
{
	size_t len = scan_len(scan);

	while (scan->at < len)
		if (scan->node != ROOT || find_start(scan))
			walk(scan);
}

static struct bytes held_bytes(const struct automaton *automaton, const struct matcher *matcher)
{
	const struct node *node = &automaton->nodes[matcher->node];

	return (struct bytes){ automaton->patterns[node->pattern].text.data, node->depth };
}

static struct scan scan_of(const struct automaton *automaton, const struct matcher *matcher,
			   struct bytes data, automaton_emit *emit, void *owner)
{
	struct scan scan = {
		.automaton = automaton,
		.held = held_bytes(automaton, matcher),
		.data = data,
		.node = matcher->node,
		.emit = emit,
		.owner = owner,
	};

	scan.at = scan.until = scan.held.len;
	return scan;
}

void automaton_push(const struct automaton *automaton, struct matcher *matcher, struct bytes data,
		    automaton_emit *emit, void *owner)
{
	struct scan scan = scan_of(automaton, matcher, data, emit, owner);

	scan_text(&scan);
	if (scan.node == ROOT)
		scan.start = scan_len(&scan);
	send_until(&scan, scan.start);
	matcher->node = scan.node;
}

void automaton_finish(const struct automaton *automaton, struct matcher *matcher,
		      automaton_emit *emit, void *owner)
{
	struct scan scan = scan_of(automaton, matcher, (struct bytes){ "", 0 }, emit, owner);

	while (scan.node != ROOT) {
		drop(&scan);
		scan_text(&scan);
	}
	send_until(&scan, scan_len(&scan));
	matcher->node = ROOT;
}

size_t automaton_held(const struct automaton *automaton, const struct matcher *matcher)
{
	return automaton->nodes[matcher->node].depth;
}

static void note_match(void *owner, struct bytes data, const struct pattern *match)
{
	const struct pattern **found = owner;

	(void)data;
	if (match && !*found)
		*found = match;
}

const struct pattern *automaton_find(const struct automaton *automaton, struct bytes text)
{
	const struct pattern *found = NULL;
	struct matcher matcher = { 0 };

	automaton_push(automaton, &matcher, text, note_match, &found);
	automaton_finish(automaton, &matcher, note_match, &found);
	return found;
}
