// SPDX-License-Identifier: Apache-2.0
/* What the portable reader and its vector variants share. */
#ifndef JOULELAB_CSV_NATIVE_H
#define JOULELAB_CSV_NATIVE_H

#include <Python.h>
#include <stdint.h>

enum { FINISHED, BACKLOG_FULL, TOO_FEW, TOO_MANY, MORE_ROWS, RUNNING };

typedef struct {
    const uint8_t *data;
    Py_ssize_t at, stop;  // bytes; `at` is the first byte of a cell
    float *out;
    Py_ssize_t rows, columns;
    Py_ssize_t row, column, line;
    int64_t *backlog;  // five numbers an entry
    Py_ssize_t room, used;
} Reader;

typedef struct {
    const char *name;
    int (*has)(void);
    /* Parse what is regular from `at`; the position up to which the portable parser is to go on, which is past `at`. */
    Py_ssize_t (*run)(Reader *);
    Py_ssize_t (*newlines)(const uint8_t *, Py_ssize_t, Py_ssize_t);
} Variant;

#define REACH 60  // m < 2**64 times 10**60 stays far inside the normal range of float64, and so does the quotient
extern double csv_powers[2 * REACH + 1];  // 10**(k - REACH), each the nearest; filled when the module loads

/* Parse until `pause` is passed (RUNNING), until the end, or until there is something to tell. */
int csv_parse(Reader *, Py_ssize_t pause);
Py_ssize_t csv_newlines_portable(const uint8_t *, Py_ssize_t, Py_ssize_t);

/* Parse the cell at byte `first` into out[flat], or leave it to the backlog. */
void csv_one_cell(Reader *, Py_ssize_t first, Py_ssize_t flat, Py_ssize_t lines_before);

/* Cells to the end of the row after a block, where there were `left` before; 0 where a row has another length. */
static inline Py_ssize_t csv_left_after(uint64_t separators, uint64_t newlines, Py_ssize_t left, Py_ssize_t columns)
{
    for (; newlines; newlines &= newlines - 1) {
        const uint64_t up_to = newlines ^ (newlines - 1);
        if (__builtin_popcountll(separators & up_to) != left)
            return 0;
        left += columns;
    }
    left -= __builtin_popcountll(separators);
    return left > 0 ? left : 0;
}

#if defined(__x86_64__) && defined(__GNUC__)
#define CSV_X86
int csv_has_avx512(void), csv_has_avx2(void);
Py_ssize_t csv_run_avx512(Reader *), csv_run_avx2(Reader *);
Py_ssize_t csv_newlines_avx512(const uint8_t *, Py_ssize_t, Py_ssize_t);
Py_ssize_t csv_newlines_avx2(const uint8_t *, Py_ssize_t, Py_ssize_t);
#endif

#endif
