/* Moves flat fp32 averages towards weights in one pass over memory.

   average += weight * (value - average), rounded as torch.lerp rounds it. A value that is NaN or infinite leaves its
   average as it is. What torch needs a pass each for (reading 16-bit values, looking for NaN, a second average) happens
   here to blocks that are still in the first-level cache. */

#include <math.h>
#include <stdint.h>
#include <string.h>

enum { BLOCK = 1024 }; /* 4 kB of values and of every average */

typedef struct {
    const void *values;
    int64_t place; /* of the first value in the averages, in elements */
    int64_t size;
    int32_t bfloat16; /* 16-bit values; else fp32 */
} Source;

static inline float fused(float a, float b, float c)
{
#if defined(__FP_FAST_FMAF) || defined(__FMA__)
    return __builtin_fmaf(a, b, c);
#else
    return a * b + c;
#endif
}

static inline int is_finite(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (bits & 0x7f800000u) != 0x7f800000u;
}

static void widen(const uint16_t *restrict halves, float *restrict wide, int64_t size)
{
    for (int64_t i = 0; i < size; i++) {
        uint32_t bits = (uint32_t)halves[i] << 16;
        memcpy(wide + i, &bits, sizeof bits);
    }
}

/* Returns how many values are not finite. Two forms, as torch has them, since each is exact at its own end. */
static int64_t move(float *restrict average, const float *restrict values, float weight, int64_t size)
{
    int64_t lost = 0;
    if (weight < 0.5f) {
        for (int64_t i = 0; i < size; i++) {
            int finite = is_finite(values[i]);
            float moved = fused(weight, values[i] - average[i], average[i]);
            average[i] = finite ? moved : average[i];
            lost += !finite;
        }
    } else {
        for (int64_t i = 0; i < size; i++) {
            int finite = is_finite(values[i]);
            float moved = fused(weight - 1.0f, values[i] - average[i], values[i]);
            average[i] = finite ? moved : average[i];
            lost += !finite;
        }
    }
    return lost;
}

static int64_t move_all(const Source *source, int64_t from, int64_t size, float *const *averages, const float *weights,
                        int32_t count)
{
    float wide[BLOCK];
    int64_t lost = 0;
    for (int64_t at = from; at < from + size; at += BLOCK) {
        int64_t length = from + size - at < BLOCK ? from + size - at : BLOCK;
        const float *values = (const float *)source->values + at;
        if (source->bfloat16) {
            widen((const uint16_t *)source->values + at, wide, length);
            values = wide;
        }
        for (int32_t i = 0; i < count; i++) {
            int64_t found = move(averages[i] + source->place + at, values, weights[i], length);
            lost += i == 0 ? found : 0;
        }
    }
    return lost;
}

/* Takes elements `begin` to `end` of all `sources` behind one another, so that threads can share the work; returns how
   many of them are not finite. */
int64_t ema_lerp(const Source *sources, int64_t number, int64_t begin, int64_t end, float *const *averages,
                 const float *weights, int32_t count)
{
    int64_t lost = 0, passed = 0;
    for (int64_t i = 0; i < number && passed < end; i++) {
        int64_t from = begin > passed ? begin - passed : 0;
        int64_t to = end - passed < sources[i].size ? end - passed : sources[i].size;
        if (from < to)
            lost += move_all(sources + i, from, to - from, averages, weights, count);
        passed += sources[i].size;
    }
    return lost;
}
