// SPDX-License-Identifier: Apache-2.0
/* The portable parser. It is the oracle of the vector variants, and takes over wherever the text is not a run of short
 * plain numbers: they hand it single cells, or everything up to the end of a block.
 *
 * A cell is decided here only where the float64 nearest to its text, cast to float32, is certain; csv_kernel.py says
 * when that is. The rest goes to the caller's backlog.
 */
#define Py_LIMITED_API 0x030B0000
#include "_csv_native.h"

#include <float.h>
#include <math.h>
#include <string.h>

#if FLT_EVAL_METHOD != 0
#error "needs float64 arithmetic that is rounded after each operation"
#endif

#define EXACT 22  // the largest power of ten that float64 holds exactly

double csv_powers[2 * REACH + 1];

static inline int is_blank(uint8_t c) { return c == ' ' || c == '\t'; }

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define WORDS 1
#else
#define WORDS 0  // no eight bytes at a time
#endif

#define EACH(byte) ((byte) * 0x0101010101010101u)

static const uint32_t tens[9] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000};

/* Eight bytes of 0 to 9, the lowest the first digit, as a number. */
static inline uint64_t join(uint64_t v)
{
    v = v * 10 + (v >> 8);
    const uint64_t first = (v & 0x000000FF000000FFu) * 0x000F424000000064u;
    const uint64_t second = (v >> 16 & 0x000000FF000000FFu) * 0x0000271000000001u;
    return (first + second) >> 32;
}

/* The number in the digits that the next eight bytes begin with, and how many they are; none is no error. */
static inline int eight_digits(const uint8_t *at, uint64_t *number)
{
    uint64_t v;
    memcpy(&v, at, 8);
    v ^= EACH(0x30u);
    // A byte over 9 shows in its upper half; a carry out of it disturbs only bytes behind it.
    const uint64_t other = (v | (v + EACH(0x06u))) & EACH(0xF0u);
    const int count = other ? __builtin_ctzll(other) >> 3 : 8;
    *number = join(count < 8 ? v << (8 * (7 - count)) << 8 : v);
    return count;
}

/* A plain number of at most 7 bytes, without a branch on its text: the bytes it takes, or -1 for any other cell.
 * It is put at the upper end of a word with its separator last; _csv_avx512.c tells why that is exact. */
static inline int short_cell(const uint8_t *at, float *value)
{
    uint64_t v;
    memcpy(&v, at, 8);
    const uint64_t comma = v ^ EACH((uint64_t)','), newline = v ^ EACH((uint64_t)'\n');
    const uint64_t ends = (((comma - EACH(1u)) & ~comma) | ((newline - EACH(1u)) & ~newline)) & EACH(0x80u);
    if (!ends)
        return -1;
    const int size = __builtin_ctzll(ends) >> 3, gap = 8 * (7 - size);
    const uint64_t negative = (v & 0xFF) == '-', last = 0xFFull << 56;
    v = (v << gap) ^ EACH(0x30u);
    const uint64_t inside = ~0ull << gap << 8 * (negative && size > 0);
    const uint64_t other = (((v + EACH(0x76u)) | v) & EACH(0x80u) & inside) | 1ull << 63;
    const uint64_t lowest = other & -other, below = (lowest >> 7) - 1;
    const int place = __builtin_ctzll(lowest) >> 3;
    const uint64_t rest = other ^ lowest;
    const int point = rest != 0;
    if ((rest & ~last) || (point && (v >> 8 * place & 0xFF) != ('.' ^ '0')) || size <= (int)negative + point)
        return -1;
    const uint64_t digits = v & inside & ~last & ~(0xFFull << 8 * place);
    const double number = (double)(int64_t)join((digits & ~below) | (digits & below) << 8) / tens[7 - place];
    *value = (float)(negative ? -number : number);
    return size;
}

/* Parse the cell at `*at`; 1 when its value is certain. `*at` is moved to the comma, newline or end after the cell. */
static int parse_cell(const uint8_t *data, Py_ssize_t *at, Py_ssize_t stop, float *value)
{
    Py_ssize_t i = *at;
    while (i < stop && is_blank(data[i]))
        i++;
    int negative = 0;
    if (i < stop && (data[i] == '-' || data[i] == '+'))
        negative = data[i++] == '-';
    uint64_t mantissa = 0;
    int digits = 0;  // any seen
    int cut = 0;     // digits were dropped that were not zero
    Py_ssize_t power = 0;
    for (int fraction = 0; fraction < 2; fraction++) {
        if (fraction) {
            if (i >= stop || data[i] != '.')
                break;
            i++;
        }
        for (int count = 8; WORDS && count == 8 && mantissa < 100000000000u && stop - i >= 8;) {
            uint64_t v = 0;
            count = eight_digits(data + i, &v);
            digits |= count;
            mantissa = mantissa * tens[count] + v;
            power -= fraction ? count : 0;
            i += count;
        }
        for (; i < stop; i++) {
            unsigned digit = (unsigned)data[i] - '0';
            if (digit > 9)
                break;
            digits = 1;
            if (mantissa < 1000000000000000000u) {  // 19 digits are kept
                mantissa = mantissa * 10 + digit;
                power -= fraction;
            } else {
                power += !fraction;
                cut |= digit != 0;
            }
        }
    }
    int plain = digits;
    if (plain && i < stop && (data[i] == 'e' || data[i] == 'E')) {
        i++;
        int down = 0;
        if (i < stop && (data[i] == '-' || data[i] == '+'))
            down = data[i++] == '-';
        int exponent = 0;
        plain = 0;
        for (; i < stop; i++) {
            unsigned digit = (unsigned)data[i] - '0';
            if (digit > 9)
                break;
            plain = 1;
            exponent = exponent * 10 + (int)digit;
            if (exponent > 100000)
                exponent = 100000;
        }
        power += down ? -exponent : exponent;
    }
    while (i < stop && is_blank(data[i]))
        i++;
    if (i < stop && data[i] == '\r' && (i + 1 == stop || data[i + 1] == '\n'))
        i++;
    int settled = 0;
    if (plain && (i >= stop || data[i] == ',' || data[i] == '\n')) {
        double v = 0.0;
        if (mantissa == 0)
            settled = 1;
        else if (!cut && mantissa < (1ull << 53) && power >= -EXACT && power <= EXACT) {
            v = power < 0 ? (double)mantissa / csv_powers[REACH - power] : (double)mantissa * csv_powers[REACH + power];
            settled = 1;
        } else if (power >= -REACH && power <= REACH) {
            // Off by less than 2**-50 of itself: where both ends round to one float32, so does the value between.
            v = (double)mantissa * csv_powers[REACH + power];
            settled = (float)(v * (1.0 - 0x1p-50)) == (float)(v * (1.0 + 0x1p-50));
        }
        *value = (float)(negative ? -v : v);
    }
    if (!settled)
        while (i < stop && data[i] != ',' && data[i] != '\n')
            i++;
    *at = i;
    return settled;
}

static inline void leave(Reader *r, Py_ssize_t first, Py_ssize_t after, Py_ssize_t row, Py_ssize_t column,
                         Py_ssize_t line)
{
    int64_t *entry = r->backlog + 5 * r->used++;
    entry[0] = first;
    entry[1] = after;
    entry[2] = row;
    entry[3] = column;
    entry[4] = line;
}

void csv_one_cell(Reader *r, Py_ssize_t first, Py_ssize_t flat, Py_ssize_t lines_before)
{
    Py_ssize_t at = first;
    if (!parse_cell(r->data, &at, r->stop, r->out + flat)) {
        Py_ssize_t row = flat / r->columns;
        leave(r, first, at, row, flat - row * r->columns, row + lines_before);
    }
}

/* Parse until `pause` is passed (RUNNING), until the end, or until there is something to tell. */
int csv_parse(Reader *r, Py_ssize_t pause)
{
    const uint8_t *data = r->data;
    const Py_ssize_t stop = r->stop, columns = r->columns;
    while (r->at < stop) {
        if (r->used == r->room)
            return BACKLOG_FULL;
        if (r->at >= pause)
            return RUNNING;
        Py_ssize_t i = r->at;
        if (r->column == 0) {
            while (i < stop && (is_blank(data[i]) || data[i] == '\r'))
                i++;
            if (i >= stop) {
                r->at = stop;
                break;
            }
            if (data[i] == '\n') {  // a line of nothing but blanks is no row
                r->line++;
                r->at = i + 1;
                continue;
            }
            if (r->row >= r->rows)
                return MORE_ROWS;
            i = r->at;
        }
        if (r->column == columns)
            return TOO_MANY;
        float *cell = r->out + r->row * columns + r->column;
        const int size = WORDS && stop - i >= 8 ? short_cell(data + i, cell) : -1;
        if (size >= 0)
            i += size;
        else if (!parse_cell(data, &i, stop, cell))
            leave(r, r->at, i, r->row, r->column, r->line);
        r->at = i;
        r->column++;
        if (i < stop && data[i] == ',') {
            r->at = i + 1;
        } else if (i < stop) {
            if (r->column < columns)
                return TOO_FEW;
            r->at = i + 1;
            r->row++;
            r->line++;
            r->column = 0;
        }
    }
    if (r->column > 0 && data[stop - 1] == ',') {  // the last line has no newline: one more, blank cell
        if (r->column == columns)
            return TOO_MANY;
        r->out[r->row * columns + r->column++] = NAN;
    }
    if (r->column > 0 && r->column < columns)
        return TOO_FEW;
    r->row += r->column > 0;
    r->column = 0;
    return FINISHED;
}

Py_ssize_t csv_newlines_portable(const uint8_t *data, Py_ssize_t start, Py_ssize_t stop)
{
    Py_ssize_t count = 0;
    for (Py_ssize_t i = start; i < stop; i++)
        count += data[i] == '\n';
    return count;
}
