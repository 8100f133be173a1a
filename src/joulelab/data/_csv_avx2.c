// SPDX-License-Identifier: Apache-2.0
/* The same as _csv_avx512.c with AVX2: the ends of a few blocks' cells first, then four cells of at most 15 bytes at
 * once, each in 16 bytes that end with its separator. Tables indexed by length and by place of the point do here what
 * masks do there. */
#define Py_LIMITED_API 0x030B0000
#include "_csv_native.h"

#ifdef CSV_X86
#include <immintrin.h>

#define NEEDS __attribute__((target("avx2,bmi,bmi2,popcnt,lzcnt")))
#define INLINE static inline __attribute__((always_inline))
#define BLOCKS 16

int csv_has_avx2(void)
{
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
           __builtin_cpu_supports("popcnt") && __builtin_cpu_supports("lzcnt");
}

/* 16 bytes from `15 - n`: the last n + 1 are set. */
static const uint8_t window[31] = {
    [15] = 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255};
/* For the point at p: byte j comes from j - 1 up to j = p, where the point was, and from j after it, but the last
 * from nowhere, unless it is the point itself. */
#define Z 128
static const uint8_t moves[16][16] = {
    {Z, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, Z}, {Z, 0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, Z},
    {Z, 0, 1, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, Z}, {Z, 0, 1, 2, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, Z},
    {Z, 0, 1, 2, 3, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, Z}, {Z, 0, 1, 2, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, Z},
    {Z, 0, 1, 2, 3, 4, 5, 7, 8, 9, 10, 11, 12, 13, 14, Z}, {Z, 0, 1, 2, 3, 4, 5, 6, 8, 9, 10, 11, 12, 13, 14, Z},
    {Z, 0, 1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13, 14, Z}, {Z, 0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 14, Z},
    {Z, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 14, Z},  {Z, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 13, 14, Z},
    {Z, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 14, Z},  {Z, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 14, Z},
    {Z, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, Z},  {Z, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14},
};
static const double powers[16] = {1e15, 1e14, 1e13, 1e12, 1e11, 1e10, 1e9, 1e8,
                                  1e7,  1e6,  1e5,  1e4,  1e3,  1e2,  1e1, 1e0};

NEEDS INLINE __m256i two(const void *low, const void *high)
{
    return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128(low)), _mm_loadu_si128(high), 1);
}

/* Two cells: four numbers of four digits each, the place of the point, not zero where a cell is no plain number. */
NEEDS INLINE __m256i take(const uint8_t *end0, const uint8_t *end1, unsigned size0, unsigned size1, unsigned places[2],
                          unsigned odd[2])
{
    __m256i text = _mm256_xor_si256(two(end0 - 15, end1 - 15), _mm256_set1_epi8('0'));
    text = _mm256_and_si256(text, two(window + size0, window + size1));
    const __m256i small = _mm256_min_epu8(text, _mm256_set1_epi8(9)), dot = _mm256_set1_epi8('.' ^ '0');
    const uint32_t digit = (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(small, text));
    const uint32_t point = (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(text, dot));
    const uint32_t other = ~digit;  // both separators are in it
    const uint32_t strange = ((other & (other - 0x00010001u)) | (other & ~point)) & 0x7FFF7FFFu;
    places[0] = _tzcnt_u32(other);
    places[1] = _tzcnt_u32(other >> 16);
    odd[0] = (strange & 0xFFFF) | (size0 == (places[0] < 15));
    odd[1] = (strange >> 16) | (size1 == (places[1] < 15));
    const __m256i digits = _mm256_shuffle_epi8(text, two(moves[places[0]], moves[places[1]]));
    const __m256i pairs = _mm256_maddubs_epi16(digits, _mm256_set1_epi16(1 << 8 | 10));
    return _mm256_madd_epi16(pairs, _mm256_set1_epi32(1 << 16 | 100));
}

/* Four cells of at most 15 bytes; `ends` has the separator before the first of them, too. */
NEEDS INLINE unsigned cells(const uint8_t *data, const Py_ssize_t *ends, float *out, Py_ssize_t room)
{
    unsigned size[4], minus[4], place[4], odd[4], strange = 0;
    for (int k = 0; k < 4; k++) {
        const Py_ssize_t length = ends[k + 1] - ends[k] - 1;  // -1 where there is no cell
        minus[k] = data[ends[k] + (length > 0)] == '-';
        const int fits = (size_t)length <= 15;
        strange |= (unsigned)!fits << k;
        size[k] = fits ? (unsigned)length - minus[k] : 15;
    }
    // Even and odd cells apart: packing brings them into order.
    const __m256i a = take(data + ends[1], data + ends[3], size[0], size[2], place, odd);
    const __m256i b = take(data + ends[2], data + ends[4], size[1], size[3], place + 2, odd + 2);
    const __m256i eights = _mm256_madd_epi16(_mm256_packus_epi32(a, b), _mm256_set1_epi32(1 << 16 | 10000));
    const __m256i upper = _mm256_mul_epu32(eights, _mm256_set1_epi64x(100000000));
    const __m256i number = _mm256_add_epi64(upper, _mm256_srli_epi64(eights, 32));
    // Under 2**52: as the low bits of the float64 2**52 they make it that much larger.
    const __m256d two_52 = _mm256_set1_pd(0x1p52);
    const __m256d larger = _mm256_castsi256_pd(_mm256_or_si256(number, _mm256_castpd_si256(two_52)));
    const __m256d exact = _mm256_sub_pd(larger, two_52);
    const __m256d divisor = _mm256_set_pd(powers[place[3]], powers[place[1]], powers[place[2]], powers[place[0]]);
    const __m128i sign = _mm_slli_epi32(_mm_set_epi32((int)minus[3], (int)minus[2], (int)minus[1], (int)minus[0]), 31);
    const __m128 value = _mm_xor_ps(_mm256_cvtpd_ps(_mm256_div_pd(exact, divisor)), _mm_castsi128_ps(sign));
    if (room >= 4)
        _mm_storeu_ps(out, value);
    else {
        float four[4];
        _mm_storeu_ps(four, value);
        for (Py_ssize_t k = 0; k < room; k++)
            out[k] = four[k];
    }
    return strange | (odd[0] != 0) | (odd[2] ? 2 : 0) | (odd[1] ? 4 : 0) | (odd[3] ? 8 : 0);
}

NEEDS INLINE uint64_t equal(const uint8_t *at, char byte)
{
    const __m256i low = _mm256_loadu_si256((const __m256i *)at), high = _mm256_loadu_si256((const __m256i *)(at + 32));
    const __m256i wanted = _mm256_set1_epi8(byte);
    return (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(low, wanted)) |
           (uint64_t)(uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(high, wanted)) << 32;
}

NEEDS Py_ssize_t csv_run_avx2(Reader *r)
{
    const uint8_t *data = r->data;
    const Py_ssize_t columns = r->columns, all = r->rows * columns, stop = r->stop, lines_before = r->line - r->row;
    Py_ssize_t base = r->at, flat = r->row * columns + r->column, left = columns - r->column;
    Py_ssize_t ends[1 + BLOCKS * 64 + 4];  // the separator before the first cell, then those after the cells
    ends[0] = r->at - 1;
    for (int regular = 1; regular && stop - base >= 64;) {
        Py_ssize_t n = 0;
        for (int block = 0; block < BLOCKS && stop - base >= 64; block++, base += 64) {
            const uint64_t newlines = equal(data + base, '\n');
            const uint64_t separators = equal(data + base, ',') | newlines;
            const Py_ssize_t after = n + __builtin_popcountll(separators);
            const Py_ssize_t next = csv_left_after(separators, newlines, left, columns);
            if (next == 0 || r->used + after > r->room || flat + after > all) {
                regular = 0;
                break;
            }
            for (uint64_t rest = separators; rest; rest &= rest - 1)
                ends[++n] = base + __builtin_ctzll(rest);
            left = next;
        }
        // Up to the end of the last row that is begun here every cell is ours, and is yet to be written.
        const Py_ssize_t ours = left == columns ? n : n + left;
        for (Py_ssize_t k = 0; k < n; k += 4) {
            for (Py_ssize_t fill = n; fill < k + 4; fill++)
                ends[fill + 1] = ends[n];  // no cells; what they give is not used
            unsigned odd = 15;
            if (ends[k + 1] >= 15)  // else the 16 bytes would begin before the data
                odd = cells(data, ends + k, r->out + flat + k, ours - k);
            for (odd = n - k < 4 ? odd & ((1u << (n - k)) - 1) : odd; odd; odd &= odd - 1) {
                const Py_ssize_t c = k + __builtin_ctz(odd);
                csv_one_cell(r, ends[c] + 1, flat + c, lines_before);
            }
        }
        flat += n;
        ends[0] = ends[n];
    }
    r->at = ends[0] + 1;
    r->row = flat / columns;
    r->column = flat - r->row * columns;
    r->line = r->row + lines_before;
    return stop - base >= 64 ? base + 64 : stop;
}

NEEDS Py_ssize_t csv_newlines_avx2(const uint8_t *data, Py_ssize_t start, Py_ssize_t stop)
{
    Py_ssize_t count = 0;
    for (; stop - start >= 64; start += 64)
        count += __builtin_popcountll(equal(data + start, '\n'));
    for (; start < stop; start++)
        count += data[start] == '\n';
    return count;
}
#endif
