#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

#include "simd.h"

namespace {

constexpr int64_t HIDDEN = 4096;
constexpr float EPSILON = 1e-5f;

void norm_row(const uint16_t* row, const uint16_t* residual, const uint16_t* weight, uint16_t* out) {
  alignas(64) float added[HIDDEN];
  f32x16 squares[4] = {};
  for (int64_t i = 0; i < HIDDEN; i += 4 * LANES) {
    for (int64_t j = 0; j < 4; ++j) {
      const int64_t at = i + j * LANES;
      const f32x16 x = load_bf16(row + at) + load_bf16(residual + at);
      store(added + at, x);
      squares[j] += x * x;
    }
  }
  const float mean = sum((squares[0] + squares[1]) + (squares[2] + squares[3])) / HIDDEN;
  const float scale = 1.0f / std::sqrt(mean + EPSILON);
  for (int64_t i = 0; i < HIDDEN; i += LANES) store_bf16(out + i, load(added + i) * scale * load_bf16(weight + i));
}

}  // namespace

void run(tvm::ffi::TensorView hidden_states, tvm::ffi::TensorView residual, tvm::ffi::TensorView weight,
         tvm::ffi::TensorView output) {
  const int64_t rows = hidden_states.size(0);
  const auto* in = static_cast<const uint16_t*>(hidden_states.data_ptr());
  const auto* add = static_cast<const uint16_t*>(residual.data_ptr());
  const auto* scales = static_cast<const uint16_t*>(weight.data_ptr());
  auto* out = static_cast<uint16_t*>(output.data_ptr());
#pragma omp parallel for schedule(static) if (rows * HIDDEN * 6 >= BYTES_WORTH_THREADS)
  for (int64_t row = 0; row < rows; ++row) {
    norm_row(in + row * HIDDEN, add + row * HIDDEN, scales, out + row * HIDDEN);
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
