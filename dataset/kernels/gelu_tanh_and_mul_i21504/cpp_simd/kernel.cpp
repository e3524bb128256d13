#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

#include "simd.h"

namespace {

constexpr int64_t INTERMEDIATE = 21504;
constexpr int64_t BLOCK = 1024;
constexpr int64_t BLOCKS = INTERMEDIATE / BLOCK;
static_assert(INTERMEDIATE % BLOCK == 0);

// 0.5 * (1 + tanh(u)) is the sigmoid of 2u.
inline f32x16 activated(f32x16 x) {
  const f32x16 twice = x * (x * x * 0.0713548163f + 1.5957691216f);
  return x / (exponential(-twice) + 1.0f);
}

void block(const uint16_t* gate, const uint16_t* up, uint16_t* out) {
  for (int64_t i = 0; i < BLOCK; i += LANES) store_bf16(out + i, activated(load_bf16(gate + i)) * load_bf16(up + i));
}

}  // namespace

void run(tvm::ffi::TensorView gate_up, tvm::ffi::TensorView output) {
  const int64_t blocks = gate_up.size(0) * BLOCKS;
  const auto* in = static_cast<const uint16_t*>(gate_up.data_ptr());
  auto* out = static_cast<uint16_t*>(output.data_ptr());
#pragma omp parallel for schedule(static) if (blocks * BLOCK * 6 >= BYTES_WORTH_THREADS)
  for (int64_t i = 0; i < blocks; ++i) {
    const uint16_t* gate = in + (i / BLOCKS) * 2 * INTERMEDIATE + (i % BLOCKS) * BLOCK;
    block(gate, gate + INTERMEDIATE, out + i * BLOCK);
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
