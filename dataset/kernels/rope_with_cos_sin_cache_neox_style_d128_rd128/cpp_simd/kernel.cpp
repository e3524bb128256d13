#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

#include "simd.h"

namespace {

constexpr int64_t HEAD = 128;
constexpr int64_t HALF = HEAD / 2;
constexpr int64_t VECTORS = HALF / LANES;

struct Angles {
  f32x16 cosine[VECTORS], sine[VECTORS];

  explicit Angles(const float* row) {
    for (int64_t i = 0; i < VECTORS; ++i) {
      cosine[i] = load(row + i * LANES);
      sine[i] = load(row + HALF + i * LANES);
    }
  }
};

void rotate(const uint16_t* heads, int64_t count, const Angles& angles, uint16_t* out) {
  for (int64_t head = 0; head < count; ++head, heads += HEAD, out += HEAD) {
    for (int64_t i = 0; i < VECTORS; ++i) {
      const f32x16 low = load_bf16(heads + i * LANES), high = load_bf16(heads + HALF + i * LANES);
      store_bf16(out + i * LANES, low * angles.cosine[i] - high * angles.sine[i]);
      store_bf16(out + HALF + i * LANES, high * angles.cosine[i] + low * angles.sine[i]);
    }
  }
}

}  // namespace

void run(tvm::ffi::TensorView q, tvm::ffi::TensorView k, tvm::ffi::TensorView cos_sin_cache,
         tvm::ffi::TensorView positions, tvm::ffi::TensorView q_out, tvm::ffi::TensorView k_out) {
  const int64_t tokens = q.size(0), q_heads = q.size(1), k_heads = k.size(1);
  const auto* q_in = static_cast<const uint16_t*>(q.data_ptr());
  const auto* k_in = static_cast<const uint16_t*>(k.data_ptr());
  const auto* cache = static_cast<const float*>(cos_sin_cache.data_ptr());
  const auto* position = static_cast<const int64_t*>(positions.data_ptr());
  auto* q_to = static_cast<uint16_t*>(q_out.data_ptr());
  auto* k_to = static_cast<uint16_t*>(k_out.data_ptr());
#pragma omp parallel for schedule(static) if (tokens * (q_heads + k_heads) * HEAD * 4 >= BYTES_WORTH_THREADS)
  for (int64_t token = 0; token < tokens; ++token) {
    const Angles angles(cache + position[token] * HEAD);
    rotate(q_in + token * q_heads * HEAD, q_heads, angles, q_to + token * q_heads * HEAD);
    rotate(k_in + token * k_heads * HEAD, k_heads, angles, k_to + token * k_heads * HEAD);
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
