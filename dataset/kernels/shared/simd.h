// Sixteen floats at a time, in GCC and Clang vector types: the compiler maps them to AVX-512, AVX2, NEON or plain code.
// Intrinsics stand only where a compiler does not find the instruction by itself, each beside its portable form.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#if defined(__AVX512F__) && defined(__AVX512BW__)
#include <immintrin.h>
#define SIMD_AVX512 1
#endif

typedef float f32x16 __attribute__((vector_size(64)));
typedef float f32x4 __attribute__((vector_size(16)));
typedef int32_t i32x16 __attribute__((vector_size(64)));
typedef uint32_t u32x16 __attribute__((vector_size(64)));
typedef uint16_t u16x16 __attribute__((vector_size(32)));

constexpr int64_t LANES = 16;

// Waking sleeping threads takes some 50 us; one core alone moves about this much in that time.
constexpr int64_t BYTES_WORTH_THREADS = 1 << 20;

inline f32x16 splat(float x) { return x - f32x16{}; }

inline f32x16 load(const float* p) {
  f32x16 x;
  std::memcpy(&x, p, sizeof(x));
  return x;
}

inline void store(float* p, f32x16 x) { std::memcpy(p, &x, sizeof(x)); }

// bfloat16 is the upper half of a float.
inline f32x16 load_bf16(const uint16_t* p) {
  u16x16 half;
  std::memcpy(&half, p, sizeof(half));
#ifdef SIMD_AVX512
  return (f32x16)_mm512_slli_epi32(_mm512_cvtepu16_epi32((__m256i)half), 16);
#else
  return (f32x16)(__builtin_convertvector(half, u32x16) << 16);
#endif
}

// Rounds to the nearest bfloat16, ties to even; a NaN stays one.
inline u16x16 round_bf16(f32x16 x) {
  const u32x16 bits = (u32x16)x;
  const u32x16 rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const u32x16 chosen = (x == x) ? rounded : ((bits >> 16) | 0x40u);
#ifdef SIMD_AVX512
  return (u16x16)_mm512_cvtepi32_epi16((__m512i)chosen);
#else
  return __builtin_convertvector(chosen, u16x16);
#endif
}

inline void store_bf16(uint16_t* p, f32x16 x) {
  const u16x16 half = round_bf16(x);
  std::memcpy(p, &half, sizeof(half));
}

// Thirty-two bfloat16s as sixteen pairs, in memory order.
inline u32x16 load_pairs(const uint16_t* p) {
  u32x16 pairs;
  std::memcpy(&pairs, p, sizeof(pairs));
  return pairs;
}

inline u32x16 splat_pair(const uint16_t* p) {
  uint32_t pair;
  std::memcpy(&pair, p, sizeof(pair));
  return pair - u32x16{};
}

// Adds the products of both halves of each pair; products are exact, sums are float32.
inline f32x16 add_products(f32x16 total, u32x16 a, u32x16 b) {
#ifdef __AVX512BF16__
  return (f32x16)_mm512_dpbf16_ps((__m512)total, (__m512bh)a, (__m512bh)b);
#else
  total += (f32x16)(a << 16) * (f32x16)(b << 16);
  return total + (f32x16)(a & 0xffff0000u) * (f32x16)(b & 0xffff0000u);
#endif
}

inline f32x16 maximum(f32x16 a, f32x16 b) {
#ifdef SIMD_AVX512
  return (f32x16)_mm512_max_ps((__m512)a, (__m512)b);
#else
  return a > b ? a : b;
#endif
}

inline float sum(f32x16 x) {
#ifdef SIMD_AVX512
  return _mm512_reduce_add_ps((__m512)x);
#else
  float total = 0;
  for (int lane = 0; lane < LANES; ++lane) total += x[lane];
  return total;
#endif
}

// Four sums at once, for a third of the work.
inline f32x4 sums(f32x16 a, f32x16 b, f32x16 c, f32x16 d) {
#ifdef SIMD_AVX512
  const __m512 ab = _mm512_add_ps(_mm512_unpacklo_ps((__m512)a, (__m512)b), _mm512_unpackhi_ps((__m512)a, (__m512)b));
  const __m512 cd = _mm512_add_ps(_mm512_unpacklo_ps((__m512)c, (__m512)d), _mm512_unpackhi_ps((__m512)c, (__m512)d));
  const __m512 low = _mm512_shuffle_ps(ab, cd, _MM_SHUFFLE(1, 0, 1, 0));
  const __m512 high = _mm512_shuffle_ps(ab, cd, _MM_SHUFFLE(3, 2, 3, 2));
  const __m512 quarters = _mm512_add_ps(low, high);  // each 128 bits hold a part of all four sums
  const __m256 halves = _mm256_add_ps(_mm512_castps512_ps256(quarters),
                                      _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(quarters), 1)));
  return (f32x4)_mm_add_ps(_mm256_castps256_ps128(halves), _mm256_extractf128_ps(halves, 1));
#else
  return f32x4{sum(a), sum(b), sum(c), sum(d)};
#endif
}

inline float largest(f32x16 x) {
#ifdef SIMD_AVX512
  return _mm512_reduce_max_ps((__m512)x);
#else
  float top = x[0];
  for (int lane = 1; lane < LANES; ++lane) top = x[lane] > top ? x[lane] : top;
  return top;
#endif
}

// e^x to within two units in the last place; below the smallest normal number the result is 0, above the largest inf.
inline f32x16 exponential(f32x16 x) {
  const f32x16 shifted = x * 1.44269504f + 12582912.0f;  // 1.5 * 2^23: the sum's last bits are the rounded quotient
  const f32x16 n = shifted - 12582912.0f;
  f32x16 r = x - n * 0.693145752f;
  r = r - n * 1.42860677e-6f;
  f32x16 p = splat(1.9875691500e-4f);
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  const i32x16 exponent = ((i32x16)shifted - 0x4b400000) << 23;
  const f32x16 scaled = (f32x16)((i32x16)p + exponent);
  const f32x16 low = x < -87.33f ? f32x16{} : scaled;
  return x > 88.72f ? splat(INFINITY) : low;
}
