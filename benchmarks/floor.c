/* How little CPU can counting and bounding a log take? The same work as the package's, on decoded columns.

   Rows come in batches: units (whole numbers, or text) and keys (places among the entries of a dictionary). Keys are
   coded exactly by hash tables; rows are parted by their units, so that a part fits a cache; in a part, tables of units
   and of (unit, key) pairs remove duplicates and count the keys of each unit, and units above the bound keep the keys
   with the least hashes. A batch is added, and a part is bounded, by whichever thread is free. */

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PART_BITS 8
#define PARTS (1 << PART_BITS)

static uint64_t mixed(uint64_t x) {
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93u;
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93u;
    return x ^ x >> 32;
}

static uint64_t hash_text(const uint8_t *at, int64_t size) {
    uint64_t hash = (uint64_t)size * 0x9e3779b97f4a7c15u, word;
    for (; size >= 8; at += 8, size -= 8) {
        memcpy(&word, at, 8);
        hash = (hash ^ word) * 0xff51afd7ed558ccdu;
        hash ^= hash >> 29;
    }
    word = 0;
    memcpy(&word, at, (size_t)size);
    return mixed(hash ^ word);
}

static double cpu(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Texts that are kept: all bytes, and where each ends. */

typedef struct {
    uint8_t *bytes;
    uint64_t *ends;
    size_t n, room, size, space;
} texts;

static size_t larger(size_t wanted) { return wanted + wanted / 2 + 64; }

static void keep(texts *all, const uint8_t *at, size_t size) {
    if (all->n + 2 > all->room) all->ends = realloc(all->ends, (all->room = larger(all->n + 2)) * sizeof *all->ends);
    if (all->size + size > all->space) all->bytes = realloc(all->bytes, all->space = larger(all->size + size));
    memcpy(all->bytes + all->size, at, size);
    if (!all->n) all->ends[0] = 0;
    all->ends[++all->n] = all->size += size;
}

static int is(const texts *all, size_t place, const uint8_t *at, size_t size) {
    uint64_t begin = all->ends[place];
    return all->ends[place + 1] - begin == size && !memcmp(all->bytes + begin, at, size);
}

/* Exact codes of texts: a slot holds the high half of the hash and one more than the code, or 0 while it is free. */

typedef struct {
    uint64_t *slots, *hashes, mask;
    texts values;
} table;

static void grow(table *t) {
    uint64_t size = t->mask ? 2 * (t->mask + 1) : 1 << 8;
    free(t->slots);
    t->slots = calloc(size, sizeof *t->slots);
    t->hashes = realloc(t->hashes, size / 2 * sizeof *t->hashes);
    t->mask = size - 1;
    for (uint64_t code = 0; code < t->values.n; code++) {
        uint64_t slot = t->hashes[code] & t->mask;
        while (t->slots[slot]) slot = (slot + 1) & t->mask;
        t->slots[slot] = t->hashes[code] >> 32 << 32 | (code + 1);
    }
}

static uint32_t code_of(table *t, const uint8_t *at, size_t size, uint64_t hash) {
    if (2 * (t->values.n + 1) > t->mask) grow(t);
    for (uint64_t slot = hash & t->mask;; slot = (slot + 1) & t->mask) {
        uint64_t held = t->slots[slot];
        if (!held) {
            t->slots[slot] = hash >> 32 << 32 | (t->values.n + 1);
            t->hashes[t->values.n] = hash;
            keep(&t->values, at, size);
            return (uint32_t)t->values.n - 1;
        }
        uint32_t code = (uint32_t)held - 1;
        if (held >> 32 == hash >> 32 && is(&t->values, code, at, size)) return code;
    }
}

/* What one thread has seen of a part: rows by their units, or entries of dictionaries. */

typedef struct {
    uint64_t *hashes; /* of units or entries; mixed numbers of units that are no texts */
    uint32_t *numbers; /* of the entry, in the order of batches */
    size_t n, room;
    texts values;
} part_of;

typedef struct {
    part_of *rows, *entries; /* by thread and part */
    uint32_t *codes;         /* by entry: of its key, before the number of its part */
    uint32_t base[PARTS + 1], *own;
    int threads;
    int64_t most;
    atomic_uint n_entries, next;
} job;

job *floor_begin(int threads) {
    job *j = calloc(1, sizeof *j);
    j->rows = calloc((size_t)threads * PARTS, sizeof *j->rows);
    j->entries = calloc((size_t)threads * PARTS, sizeof *j->entries);
    j->threads = threads;
    return j;
}

static void add(part_of *parts, int thread, uint64_t hash, uint32_t number, const uint8_t *at, size_t size) {
    part_of *own = &parts[thread * PARTS + (int)(hash >> (64 - PART_BITS))];
    if (own->n == own->room) {
        own->room = larger(own->n);
        own->hashes = realloc(own->hashes, own->room * sizeof *own->hashes);
        own->numbers = realloc(own->numbers, own->room * sizeof *own->numbers);
    }
    own->hashes[own->n] = hash;
    own->numbers[own->n++] = number;
    if (at) keep(&own->values, at, size);
}

/* Add a batch. Gives CPU seconds. */
void floor_add(job *j, int thread, int64_t n, const int64_t *numbers, const uint8_t *name_bytes, const int64_t *name_ends,
               const int32_t *places, int64_t entries, const uint8_t *key_bytes, const int32_t *key_ends,
               double *seconds) {
    double began = cpu();
    uint32_t first = atomic_fetch_add(&j->n_entries, (uint32_t)entries);
    for (int64_t i = 0; i < entries; i++) {
        const uint8_t *at = key_bytes + key_ends[i];
        int64_t size = key_ends[i + 1] - key_ends[i];
        add(j->entries, thread, hash_text(at, size), first + (uint32_t)i, at, (size_t)size);
    }
    for (int64_t row = 0; row < n; row++) {
        const uint8_t *at = numbers ? NULL : name_bytes + name_ends[row];
        int64_t size = numbers ? 0 : name_ends[row + 1] - name_ends[row];
        uint64_t unit = numbers ? mixed((uint64_t)numbers[row]) : hash_text(at, size);
        add(j->rows, thread, unit, first + (uint32_t)places[row], at, (size_t)size);
    }
    seconds[0] = cpu() - began;
}

typedef struct {
    uint64_t order;
    uint32_t cell;
} ordered;

static int before(const void *a, const void *b) {
    uint64_t first = ((const ordered *)a)->order, second = ((const ordered *)b)->order;
    return first < second ? -1 : first > second;
}

typedef struct {
    job *j;
    int thread;
    int64_t pairs, above;
    double seconds;
} worker;

static void code(job *j, int part) {
    table t = {0};
    for (int thread = 0; thread < j->threads; thread++) {
        const part_of *own = &j->entries[thread * PARTS + part];
        for (size_t i = 0; i < own->n; i++) {
            uint64_t begin = own->values.ends[i];
            const uint8_t *at = own->values.bytes + begin;
            uint32_t found = code_of(&t, at, own->values.ends[i + 1] - begin, own->hashes[i]);
            j->codes[own->numbers[i]] = found << PART_BITS | (uint32_t)part;
        }
    }
    j->base[part + 1] = (uint32_t)t.values.n;
    free(t.slots), free(t.hashes), free(t.values.bytes), free(t.values.ends);
}

static void bound(worker *w, int part, uint32_t *counts) {
    job *j = w->j;
    size_t n = 0, size = 16, seen = 0;
    int text = 0;
    for (int t = 0; t < j->threads; t++) n += j->rows[t * PARTS + part].n, text |= !!j->rows[t * PARTS + part].values.n;
    if (!n) return;
    while (size < 2 * n) size *= 2;
    uint64_t mask = size - 1;
    uint64_t *slots = calloc(size, sizeof *slots), *pairs = calloc(size, sizeof *pairs);
    uint64_t *units = malloc(n * sizeof *units);
    uint32_t *sizes = calloc(n + 1, sizeof *sizes), n_units = 0;
    uint64_t *found = malloc(n * sizeof *found);
    const part_of **of = malloc(n * sizeof *of);
    size_t *place = malloc(n * sizeof *place);
    for (int t = 0; t < j->threads; t++) {
        const part_of *own = &j->rows[t * PARTS + part];
        for (size_t i = 0; i < own->n; i++) {
            uint64_t hash = own->hashes[i], slot = hash & mask, unit;
            for (;; slot = (slot + 1) & mask) {
                if (!slots[slot]) {
                    unit = n_units++;
                    slots[slot] = unit + 1;
                    units[unit] = hash, of[unit] = own, place[unit] = i;
                    break;
                }
                unit = slots[slot] - 1;
                if (units[unit] != hash) continue;
                const uint8_t *at = text ? own->values.bytes + own->values.ends[i] : NULL;
                if (!text || is(&of[unit]->values, place[unit], at, own->values.ends[i + 1] - own->values.ends[i])) break;
            }
            uint64_t pair = (unit + 1) << 32 | j->codes[own->numbers[i]];
            for (slot = mixed(pair) & mask; pairs[slot] && pairs[slot] != pair; slot = (slot + 1) & mask) {}
            if (!pairs[slot]) pairs[slot] = found[seen++] = pair, sizes[unit]++;
        }
    }
    /* Most units are below the bound. The others' pairs are gathered, unit by unit, and the last ones go. */
    size_t total = 0, *to = malloc((n_units + 1) * sizeof *to);
    for (uint32_t u = 0; u < n_units; u++) {
        to[u] = total;
        if (sizes[u] > j->most) total += sizes[u], w->above++;
    }
    ordered *all = malloc((total + 1) * sizeof *all);
    for (size_t i = 0; i < seen; i++) {
        uint32_t u = (uint32_t)(found[i] >> 32) - 1, cell = (uint32_t)found[i];
        cell = j->base[cell & (PARTS - 1)] + (cell >> PART_BITS);
        if (sizes[u] <= j->most) counts[cell]++;
        else all[to[u]++] = (ordered){mixed(units[u] ^ mixed(cell)), cell};
    }
    for (uint32_t u = 0; u < n_units; u++)
        if (sizes[u] > j->most) {
            ordered *own = all + to[u] - sizes[u];
            qsort(own, sizes[u], sizeof *own, before);
            for (int64_t i = 0; i < j->most; i++) counts[own[i].cell]++;
        }
    w->pairs += (int64_t)seen;
    free(slots), free(pairs), free(units), free(sizes), free(found), free(of), free(place), free(to), free(all);
}

static void *work(void *given) {
    worker *w = given;
    for (unsigned part; (part = atomic_fetch_add(&w->j->next, 1)) < PARTS;)
        if (w->j->own) bound(w, (int)part, w->j->own + (size_t)w->thread * w->j->base[PARTS]);
        else code(w->j, (int)part);
    w->seconds = cpu();
    return NULL;
}

static double run(job *j, int64_t *found) {
    pthread_t threads[64];
    worker workers[64];
    double seconds = 0;
    j->next = 0;
    for (int t = 0; t < j->threads; t++) {
        workers[t] = (worker){j, t, 0, 0, 0};
        pthread_create(&threads[t], NULL, work, &workers[t]);
    }
    for (int t = 0; t < j->threads; t++) {
        pthread_join(threads[t], NULL);
        seconds += workers[t].seconds, found[0] += workers[t].pairs, found[1] += workers[t].above;
    }
    return seconds;
}

/* Code keys, then bound and count. Gives CPU seconds of either; pairs, units above the bound, keys, sum of counts. */
void floor_end(job *j, int64_t most, double *seconds, int64_t *found) {
    j->most = most;
    j->codes = malloc(((size_t)j->n_entries + 1) * sizeof *j->codes);
    seconds[0] = run(j, found);
    for (int part = 0; part < PARTS; part++) j->base[part + 1] += j->base[part];
    j->own = calloc((size_t)j->threads * j->base[PARTS] + 1, sizeof *j->own);
    seconds[1] = run(j, found);
    double began = cpu();
    found[2] = j->base[PARTS];
    for (size_t i = 0; i < (size_t)j->threads * j->base[PARTS]; i++) found[3] += j->own[i];
    seconds[1] += cpu() - began;
}
