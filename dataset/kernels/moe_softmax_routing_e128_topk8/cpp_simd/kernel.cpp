#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

#include "simd.h"

namespace {

constexpr int64_t EXPERTS = 128;
constexpr int64_t TOP_K = 8;
constexpr int64_t VECTORS = EXPERTS / LANES;
// Waking the other threads costs about what one takes for this many tokens.
constexpr int64_t TOKENS_WORTH_THREADS = 512;

// Keys order as the logits do, and no two are equal: the logit's upper half above the expert, counted down.
i32x16 keys_of(f32x16 logits, int32_t first_expert) {
  const i32x16 lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  const i32x16 bits = (i32x16)(logits + 0.0f);  // -0 becomes 0
  const i32x16 ordered = bits < 0 ? bits ^ 0x7fffffff : bits;
  return (ordered & ~0xffff) | (static_cast<int32_t>(EXPERTS) - 1 - first_expert - lane);
}

i32x16 maximum(i32x16 a, i32x16 b) { return a > b ? a : b; }

int32_t largest(i32x16 x) {
#ifdef SIMD_AVX512
  return _mm512_reduce_max_epi32((__m512i)x);
#else
  int32_t top = x[0];
  for (int lane = 1; lane < LANES; ++lane) top = x[lane] > top ? x[lane] : top;
  return top;
#endif
}

void route(const uint16_t* logits, float* weights, int32_t* ids) {
  i32x16 keys[VECTORS];
  for (int64_t i = 0; i < VECTORS; ++i) keys[i] = keys_of(load_bf16(logits + i * LANES), i * LANES);
  alignas(64) float chosen[LANES];
  store(chosen, splat(-INFINITY));
  for (int64_t place = 0; place < TOP_K; ++place) {
    const i32x16 pairs[4] = {maximum(keys[0], keys[1]), maximum(keys[2], keys[3]), maximum(keys[4], keys[5]),
                             maximum(keys[6], keys[7])};
    const int32_t top = largest(maximum(maximum(pairs[0], pairs[1]), maximum(pairs[2], pairs[3])));
    for (int64_t i = 0; i < VECTORS; ++i) keys[i] = keys[i] == top ? INT32_MIN - i32x16{} : keys[i];
    ids[place] = static_cast<int32_t>(EXPERTS) - 1 - (top & 0xffff);
    const uint32_t bits = static_cast<uint32_t>(logits[ids[place]]) << 16;
    std::memcpy(chosen + place, &bits, sizeof(bits));
  }
  const f32x16 powers = exponential(load(chosen) - chosen[0]);
  store(chosen, powers / sum(powers));
  std::memcpy(weights, chosen, TOP_K * sizeof(float));
}

}  // namespace

void run(tvm::ffi::TensorView router_logits, tvm::ffi::TensorView topk_weights, tvm::ffi::TensorView topk_ids) {
  const int64_t tokens = router_logits.size(0);
  const auto* logits = static_cast<const uint16_t*>(router_logits.data_ptr());
  auto* weights = static_cast<float*>(topk_weights.data_ptr());
  auto* ids = static_cast<int32_t*>(topk_ids.data_ptr());
#pragma omp parallel for schedule(static) if (tokens >= TOKENS_WORTH_THREADS)
  for (int64_t token = 0; token < tokens; ++token) {
    route(logits + token * EXPERTS, weights + token * TOP_K, ids + token * TOP_K);
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
