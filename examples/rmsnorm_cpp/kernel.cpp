// RMSNorm over the last axis, bfloat16 in and out, float32 inside.
// Called as run(hidden_states [rows, 4096], weight [4096], output [rows, 4096]).
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

#include <cmath>
#include <cstdint>
#include <cstring>

namespace {

float widen(uint16_t value) {
  uint32_t bits = static_cast<uint32_t>(value) << 16;
  float result;
  std::memcpy(&result, &bits, sizeof result);
  return result;
}

// Round to nearest, ties to even.
uint16_t narrow(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

void run(tvm::ffi::TensorView hidden, tvm::ffi::TensorView weight, tvm::ffi::TensorView output) {
  const int64_t rows = hidden.size(0), columns = hidden.size(1);
  const auto* x = static_cast<const uint16_t*>(hidden.data_ptr());
  const auto* w = static_cast<const uint16_t*>(weight.data_ptr());
  auto* y = static_cast<uint16_t*>(output.data_ptr());
#pragma omp parallel for if (rows > 4)
  for (int64_t row = 0; row < rows; ++row) {
    const uint16_t* in = x + row * columns;
    float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < columns; ++i) sum += widen(in[i]) * widen(in[i]);
    const float scale = 1.0f / std::sqrt(sum / static_cast<float>(columns) + 1e-5f);
    for (int64_t i = 0; i < columns; ++i) y[row * columns + i] = narrow(widen(in[i]) * scale * widen(w[i]));
  }
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
