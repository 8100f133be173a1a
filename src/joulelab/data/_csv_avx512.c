// SPDX-License-Identifier: Apache-2.0
/* 64 bytes at a time with AVX-512 as Ice Lake and Zen 4 have it (VBMI, VBMI2, BITALG, VPOPCNTDQ).
 *
 * The separators of a block give the ends of its cells. Then 16, 8 or 8 cells at once, by the longest of them (3, 7 or
 * 15 bytes), are put into lanes of 4, 8 or 16 bytes, right-aligned with their separator as the last byte. The point is
 * the lowest byte of a lane that is neither digit nor leading minus; where there is none, that is the separator. What
 * stands before the point moves one byte up, over it, and the lane reads as
 *     digits * 10 / 10**(bytes from the point to the separator)      or, without a point,      digits / 1
 * with numerator and divisor exact (under 10**15 in float64, under 10**7 in float32), so the quotient is rounded once.
 * In float32 this is the float64 quotient rounded again, since 53 >= 2 * 24 + 2 (Figueroa 1995).
 */
#define Py_LIMITED_API 0x030B0000
#include "_csv_native.h"

#ifdef CSV_X86
#include <immintrin.h>

#define NEEDS                                                                                                   \
    __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vbmi,avx512vbmi2,avx512bitalg,"             \
                          "avx512vpopcntdq,avx2,bmi,bmi2,popcnt,lzcnt")))
#define INLINE static inline __attribute__((always_inline))

int csv_has_avx512(void)
{
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vbmi2") &&
           __builtin_cpu_supports("avx512bitalg") && __builtin_cpu_supports("avx512vpopcntdq") &&
           __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
           __builtin_cpu_supports("popcnt") && __builtin_cpu_supports("lzcnt");
}

/* Where a cell's end and length (one byte each, a block's in a row) go in a zmm of lanes of 4, 8, 16 bytes, and the
 * distance of each byte of a lane from its last. For 16 bytes even and odd cells apart, so that packing sorts them. */
#define FOUR(k) k, k, k, k
#define EIGHT(k) FOUR(k), FOUR(k)
#define SIXTEEN(k) EIGHT(k), EIGHT(k)
static const uint8_t spread4[64] = {FOUR(0), FOUR(1), FOUR(2),  FOUR(3),  FOUR(4),  FOUR(5),  FOUR(6),  FOUR(7),
                                    FOUR(8), FOUR(9), FOUR(10), FOUR(11), FOUR(12), FOUR(13), FOUR(14), FOUR(15)};
static const uint8_t spread8[64] = {EIGHT(0), EIGHT(1), EIGHT(2), EIGHT(3), EIGHT(4), EIGHT(5), EIGHT(6), EIGHT(7)};
static const uint8_t spread_even[64] = {SIXTEEN(0), SIXTEEN(2), SIXTEEN(4), SIXTEEN(6)};
static const uint8_t spread_odd[64] = {SIXTEEN(1), SIXTEEN(3), SIXTEEN(5), SIXTEEN(7)};
static const uint8_t back[16] = {15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0};
static const float powers4[16] = {1e3f, 1e2f, 1e1f, 1e0f};
static const float powers8[8] = {1e7f, 1e6f, 1e5f, 1e4f, 1e3f, 1e2f, 1e1f, 1e0f};
static const double powers16[16] = {1e15, 1e14, 1e13, 1e12, 1e11, 1e10, 1e9, 1e8,
                                    1e7,  1e6,  1e5,  1e4,  1e3,  1e2,  1e1, 1e0};

typedef struct {
    __m512i digits;      // the numerator, a digit a byte
    __mmask64 before;    // bytes of the lane before the point
    __mmask64 negative;  // the minus
    __mmask64 odd;       // not zero in a lane that is not a plain number
} Lanes;

/* `ends` and `lengths` are spread over the lanes' bytes; `low`, `high`: the first and the last byte of every lane. */
NEEDS INLINE Lanes take(__m512i last, __m512i block, __m512i ends, __m512i lengths, __m512i distance, uint64_t low,
                        uint64_t high, int width)
{
    const __m512i text = _mm512_permutex2var_epi8(last, _mm512_sub_epi8(ends, distance), block);
    const __m512i digits = _mm512_sub_epi8(text, _mm512_set1_epi8('0'));
    const __mmask64 inside = _mm512_cmple_epu8_mask(distance, lengths);
    const __mmask64 first = _mm512_cmpeq_epi8_mask(distance, lengths) & ~high;
    const __mmask64 digit = _mm512_mask_cmplt_epu8_mask(inside & ~high, digits, _mm512_set1_epi8(10));
    const __mmask64 point = _mm512_cmpeq_epi8_mask(text, _mm512_set1_epi8('.'));
    Lanes lanes;
    lanes.negative = _mm512_mask_cmpeq_epi8_mask(first, text, _mm512_set1_epi8('-'));
    // The separator's bit is set in every lane, so no subtraction borrows from the next.
    const uint64_t other = (inside & ~digit & ~lanes.negative) | high;
    const uint64_t less = other - low;
    const uint64_t none = ~(digit + (high - low)) & high;
    lanes.before = less & ~other;
    lanes.odd = (((other & less) | (other & ~point)) & ~high) | none;
    const __m512i plain = _mm512_maskz_mov_epi8(digit, digits);
    const __m512i moved = width == 16  ? _mm512_bslli_epi128(plain, 1)
                          : width == 8 ? _mm512_slli_epi64(plain, 8)
                                       : _mm512_slli_epi32(plain, 8);
    lanes.digits = _mm512_mask_mov_epi8(plain, other ^ less, moved);
    return lanes;
}

/* Four digits a number: 16 numbers of 32 bits. */
NEEDS INLINE __m512i fours(__m512i digits)
{
    const __m512i pairs = _mm512_maddubs_epi16(digits, _mm512_set1_epi16(1 << 8 | 10));
    return _mm512_madd_epi16(pairs, _mm512_set1_epi32(1 << 16 | 100));
}

/* 16 cells of at most 3 bytes. */
NEEDS INLINE uint64_t cells4(__m512i last, __m512i block, const uint8_t *ends, const uint8_t *lengths, float *out,
                             Py_ssize_t room)
{
    const __m512i spread = _mm512_loadu_si512(spread4);
    const __m512i e = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)ends));
    const __m512i l = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)lengths));
    const Lanes lanes = take(last, block, _mm512_shuffle_epi8(e, spread), _mm512_shuffle_epi8(l, spread),
                             _mm512_set1_epi32(0x00010203), 0x1111111111111111u, 0x8888888888888888u, 4);
    const __m512i place = _mm512_popcnt_epi32(_mm512_maskz_set1_epi8(lanes.before, 1));
    const __m512 divisor = _mm512_permutexvar_ps(place, _mm512_loadu_ps(powers4));
    const __m512i minus = _mm512_maskz_set1_epi8(lanes.negative, 1);
    __m512 value = _mm512_div_ps(_mm512_cvtepi32_ps(fours(lanes.digits)), divisor);
    value = _mm512_mask_xor_ps(value, _mm512_test_epi32_mask(minus, minus), value, _mm512_set1_ps(-0.0f));
    if (room >= 16)
        _mm512_storeu_ps(out, value);
    else
        _mm512_mask_storeu_ps(out, (__mmask16)_bzhi_u32(0xFFFF, (unsigned)room), value);
    return _pext_u64(lanes.odd | lanes.odd << 1 | lanes.odd << 2 | lanes.odd << 3, 0x8888888888888888u);
}

/* 8 cells of at most 7 bytes. */
NEEDS INLINE uint64_t cells8(__m512i last, __m512i block, const uint8_t *ends, const uint8_t *lengths, float *out,
                             Py_ssize_t room)
{
    const __m512i spread = _mm512_loadu_si512(spread8);
    const __m512i e = _mm512_broadcastq_epi64(_mm_loadu_si64(ends));
    const __m512i l = _mm512_broadcastq_epi64(_mm_loadu_si64(lengths));
    const Lanes lanes = take(last, block, _mm512_shuffle_epi8(e, spread), _mm512_shuffle_epi8(l, spread),
                             _mm512_set1_epi64(0x0001020304050607), 0x0101010101010101u, 0x8080808080808080u, 8);
    __m512i number = fours(lanes.digits);
    number = _mm512_or_si512(number, _mm512_srli_epi64(number, 16));
    number = _mm512_madd_epi16(number, _mm512_set1_epi64(1 << 16 | 10000));
    const __m512i place = _mm512_popcnt_epi64(_mm512_maskz_set1_epi8(lanes.before, 1));
    const __m256 divisor = _mm256_permutexvar_ps(_mm512_cvtepi64_epi32(place), _mm256_loadu_ps(powers8));
    const __m512i minus = _mm512_maskz_set1_epi8(lanes.negative, 1);
    __m256 value = _mm256_div_ps(_mm256_cvtepi32_ps(_mm512_cvtepi64_epi32(number)), divisor);
    value = _mm256_mask_xor_ps(value, _mm512_test_epi64_mask(minus, minus), value, _mm256_set1_ps(-0.0f));
    if (room >= 8)
        _mm256_storeu_ps(out, value);
    else
        _mm256_mask_storeu_ps(out, (__mmask8)_bzhi_u32(0xFF, (unsigned)room), value);
    const __m512i odd = _mm512_movm_epi8(lanes.odd);
    return _mm512_test_epi64_mask(odd, odd);
}

/* 8 cells of at most 15 bytes. */
NEEDS INLINE uint64_t cells16(__m512i last, __m512i block, const uint8_t *ends, const uint8_t *lengths, float *out,
                              Py_ssize_t room)
{
    const __m512i even = _mm512_loadu_si512(spread_even), odd = _mm512_loadu_si512(spread_odd);
    const __m512i e = _mm512_broadcastq_epi64(_mm_loadu_si64(ends));
    const __m512i l = _mm512_broadcastq_epi64(_mm_loadu_si64(lengths));
    const __m512i distance = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)back));
    const uint64_t low = 0x0001000100010001u, high = 0x8000800080008000u;
    const Lanes a = take(last, block, _mm512_shuffle_epi8(e, even), _mm512_shuffle_epi8(l, even), distance,
                         low, high, 16);
    const Lanes b = take(last, block, _mm512_shuffle_epi8(e, odd), _mm512_shuffle_epi8(l, odd), distance,
                         low, high, 16);
    const __m512i eights = _mm512_madd_epi16(_mm512_packus_epi32(fours(a.digits), fours(b.digits)),
                                             _mm512_set1_epi32(1 << 16 | 10000));
    const __m512i number = _mm512_add_epi64(_mm512_mul_epu32(eights, _mm512_set1_epi64(100000000)),
                                            _mm512_srli_epi64(eights, 32));
    // One of 16 bits for each lane, the lanes of a and b in turn, as they are packed above.
#define IN_TURN(x, y) _mm_unpacklo_epi16(_mm_cvtsi64_si128((long long)(x)), _mm_cvtsi64_si128((long long)(y)))
    const __m512i place = _mm512_cvtepu16_epi64(_mm_popcnt_epi16(IN_TURN(a.before, b.before)));
    const __m512d divisor = _mm512_permutex2var_pd(_mm512_loadu_pd(powers16), place, _mm512_loadu_pd(powers16 + 8));
    const __m128i minus = IN_TURN(a.negative, b.negative), strange = IN_TURN(a.odd, b.odd);
#undef IN_TURN
    __m256 value = _mm512_cvtpd_ps(_mm512_div_pd(_mm512_cvtepu64_pd(number), divisor));
    value = _mm256_mask_xor_ps(value, _mm_test_epi16_mask(minus, minus), value, _mm256_set1_ps(-0.0f));
    if (room >= 8)
        _mm256_storeu_ps(out, value);
    else
        _mm256_mask_storeu_ps(out, (__mmask8)_bzhi_u32(0xFF, (unsigned)room), value);
    return _mm_test_epi16_mask(strange, strange);
}

NEEDS Py_ssize_t csv_run_avx512(Reader *r)
{
    static const uint8_t counting[64] = {
        64, 65, 66, 67, 68, 69, 70, 71, 72,  73,  74,  75,  76,  77,  78,  79,  80,  81,  82,  83,  84,  85,
        86, 87, 88, 89, 90, 91, 92, 93, 94,  95,  96,  97,  98,  99,  100, 101, 102, 103, 104, 105, 106, 107,
        108, 109, 110, 111, 112, 113, 114, 115, 116, 117, 118, 119, 120, 121, 122, 123, 124, 125, 126, 127};
    const __m512i positions = _mm512_loadu_si512(counting);
    const __m512i earlier = _mm512_sub_epi8(positions, _mm512_set1_epi8(65));
    const uint8_t *data = r->data;
    const Py_ssize_t columns = r->columns, cells = r->rows * columns, stop = r->stop;
    const Py_ssize_t lines_before = r->line - r->row;
    Py_ssize_t base = r->at - (Py_ssize_t)((uintptr_t)(data + r->at) & 63);  // blocks are aligned in memory
    Py_ssize_t first = r->at;                                               // of the cell that is not yet parsed
    Py_ssize_t flat = r->row * columns + r->column;
    Py_ssize_t left = columns - r->column;  // cells to the end of the row
    __m512i last = _mm512_setzero_si512();
    for (; base < stop; base += 64) {
        __m512i block;
        if (base >= r->at && stop - base >= 64)
            block = _mm512_load_si512(data + base);
        else {  // masked bytes are not touched, be they on a page that does not exist
            uint64_t mask = base < r->at ? ~0ull << (r->at - base) : ~0ull;
            mask &= stop - base < 64 ? ~(~0ull << (stop - base)) : ~0ull;
            block = _mm512_maskz_loadu_epi8(mask, data + base);
        }
        const uint64_t newlines = _mm512_cmpeq_epi8_mask(block, _mm512_set1_epi8('\n'));
        const uint64_t separators = _mm512_cmpeq_epi8_mask(block, _mm512_set1_epi8(',')) | newlines;
        const unsigned n = (unsigned)_mm_popcnt_u64(separators);
        if (n == 0) {
            last = block;
            continue;
        }
        const Py_ssize_t next = csv_left_after(separators, newlines, left, columns);
        if (next == 0)
            break;
        if (r->used + n > r->room || flat + n > cells)
            break;
        const __m512i ends = _mm512_maskz_compress_epi8(separators, positions);
        const Py_ssize_t ahead = first - 1 - base + 64;  // where the separator before the first cell stands
        const __m512i head = _mm512_set1_epi8((char)(ahead < 0 ? 0 : ahead));
        const __m512i before = _mm512_mask_permutexvar_epi8(head, ~1ull, earlier, ends);
        const __m512i from = _mm512_add_epi8(before, _mm512_set1_epi8(1));
        const __m512i lengths = _mm512_maskz_sub_epi8(_bzhi_u64(~0ull, n), ends, from);
        const uint64_t over3 = _mm512_cmpgt_epu8_mask(lengths, _mm512_set1_epi8(3));
        const uint64_t over7 = _mm512_cmpgt_epu8_mask(lengths, _mm512_set1_epi8(7));
        const uint64_t over15 = _mm512_cmpgt_epu8_mask(lengths, _mm512_set1_epi8(15));
        _Alignas(64) uint8_t end[80], length[80];
        _mm512_store_si512(end, ends);
        _mm512_store_si512(length, lengths);
        // Up to the end of the last row that is begun here every cell is ours, and is yet to be written.
        const Py_ssize_t ours = next == columns ? n : n + next;
        for (unsigned k = 0; k < n;) {
            unsigned count = n - k < 8 ? n - k : 8;
            uint64_t odd;
            if ((over3 >> k & 0xFFFF) == 0) {
                count = n - k < 16 ? n - k : 16;
                odd = cells4(last, block, end + k, length + k, r->out + flat + k, ours - k);
            } else if ((over7 >> k & 0xFF) == 0)
                odd = cells8(last, block, end + k, length + k, r->out + flat + k, ours - k);
            else
                odd = cells16(last, block, end + k, length + k, r->out + flat + k, ours - k) | over15 >> k;
            for (odd = _bzhi_u64(odd, count); odd; odd &= odd - 1) {
                const unsigned c = k + (unsigned)__builtin_ctzll(odd);
                csv_one_cell(r, c ? base + end[c - 1] - 63 : first, flat + c, lines_before);
            }
            k += count;
        }
        flat += n;
        left = next;
        first = base + 64 - (Py_ssize_t)_lzcnt_u64(separators);
        last = block;
    }
    r->at = first;
    r->row = flat / columns;
    r->column = flat - r->row * columns;
    r->line = r->row + lines_before;
    return base + 64 < stop ? base + 64 : stop;
}

NEEDS Py_ssize_t csv_newlines_avx512(const uint8_t *data, Py_ssize_t start, Py_ssize_t stop)
{
    const __m512i newline = _mm512_set1_epi8('\n');
    Py_ssize_t count = 0;
    for (; stop - start >= 64; start += 64)
        count += _mm_popcnt_u64(_mm512_cmpeq_epi8_mask(_mm512_loadu_si512(data + start), newline));
    const __m512i rest = _mm512_maskz_loadu_epi8(_bzhi_u64(~0ull, (unsigned)(stop - start)), data + start);
    return count + _mm_popcnt_u64(_mm512_cmpeq_epi8_mask(rest, newline));
}
#endif
