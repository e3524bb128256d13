#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

#include <algorithm>

#include "simd.h"

namespace {

constexpr int64_t N = 4096;
constexpr int64_t K = 4096;
constexpr int64_t TILE_M = 6;
constexpr int64_t TILE_N = 4;
constexpr int64_t STEP = 2 * LANES;  // bfloat16s in a vector

// Rows of A that stay in the L2 cache while B streams past.
constexpr int64_t ROWS = 60;

template <int64_t ROWS_OF_A>
void tile(const uint16_t* a, const uint16_t* b, uint16_t* c) {
  f32x16 acc[ROWS_OF_A][TILE_N] = {};
  for (int64_t k = 0; k < K; k += STEP) {
    u32x16 columns[TILE_N];
    for (int64_t j = 0; j < TILE_N; ++j) columns[j] = load_pairs(b + j * K + k);
    for (int64_t i = 0; i < ROWS_OF_A; ++i) {
      const u32x16 row = load_pairs(a + i * K + k);
      for (int64_t j = 0; j < TILE_N; ++j) acc[i][j] = add_products(acc[i][j], row, columns[j]);
    }
  }
  for (int64_t i = 0; i < ROWS_OF_A; ++i) {
    f32x16 sums = {};
    for (int64_t j = 0; j < TILE_N; ++j) sums[j] = sum(acc[i][j]);
    const u16x16 rounded = round_bf16(sums);
    std::memcpy(c + i * N, &rounded, TILE_N * sizeof(uint16_t));
  }
}

void tile(int64_t rows, const uint16_t* a, const uint16_t* b, uint16_t* c) {
  switch (rows) {
    case 1: return tile<1>(a, b, c);
    case 2: return tile<2>(a, b, c);
    case 3: return tile<3>(a, b, c);
    case 4: return tile<4>(a, b, c);
    case 5: return tile<5>(a, b, c);
    default: return tile<TILE_M>(a, b, c);
  }
}

}  // namespace

void run(tvm::ffi::TensorView A, tvm::ffi::TensorView B, tvm::ffi::TensorView C) {
  const int64_t rows = A.size(0);
  const auto* a = static_cast<const uint16_t*>(A.data_ptr());
  const auto* b = static_cast<const uint16_t*>(B.data_ptr());
  auto* c = static_cast<uint16_t*>(C.data_ptr());
#pragma omp parallel
  for (int64_t panel = 0; panel < rows; panel += ROWS) {
#pragma omp for schedule(static) nowait
    for (int64_t n = 0; n < N; n += TILE_N) {
      for (int64_t m = panel; m < std::min(panel + ROWS, rows); m += TILE_M) {
        tile(rows - m, a + m * K, b + n * K, c + m * N + n);
      }
    }
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
