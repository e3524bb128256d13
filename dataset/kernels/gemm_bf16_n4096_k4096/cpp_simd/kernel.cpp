#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

#include <algorithm>
#include <vector>

#include "simd.h"

namespace {

constexpr int64_t N = 4096;
constexpr int64_t K = 4096;
constexpr int64_t TILE_M = 6;
constexpr int64_t TILE_N = 4;
constexpr int64_t STEP = 2 * LANES;  // bfloat16s in a vector
constexpr int64_t PANEL = 120;       // most rows of A that stay in the L2 cache while B streams past
static_assert(PANEL % TILE_M == 0);

// Rows of A tile by tile, the rows of a tile alternating vector by vector: as they lie, K being a power of two, all of
// them would compete for the same few lines of the L1 cache.
void pack(const uint16_t* a, int64_t rows, uint16_t* packed) {
  for (int64_t m = 0; m < rows; m += TILE_M) {
    for (int64_t k = 0; k < K; k += STEP) {
      for (int64_t i = m; i < std::min(m + TILE_M, rows); ++i, packed += STEP) {
        std::memcpy(packed, a + i * K + k, STEP * sizeof(uint16_t));
      }
    }
  }
}

// ROWS rows of packed A by four rows of B, which is read along K as it lies.
template <int64_t ROWS>
void multiply(const uint16_t* a, const uint16_t* b, uint16_t* c) {
  f32x16 acc[ROWS][TILE_N] = {};
  for (int64_t k = 0; k < K; k += STEP) {
    u32x16 columns[TILE_N];
    for (int64_t j = 0; j < TILE_N; ++j) columns[j] = load_pairs(b + j * K + k);
    for (int64_t i = 0; i < ROWS; ++i, a += STEP) {
      const u32x16 row = load_pairs(a);
      for (int64_t j = 0; j < TILE_N; ++j) acc[i][j] = add_products(acc[i][j], row, columns[j]);
    }
  }
  for (int64_t i = 0; i < ROWS; ++i) {
    const f32x4 totals = sums(acc[i][0], acc[i][1], acc[i][2], acc[i][3]);
    f32x16 wide = {};
    std::memcpy(&wide, &totals, sizeof(totals));
    const u16x16 rounded = round_bf16(wide);
    std::memcpy(c + i * N, &rounded, TILE_N * sizeof(uint16_t));
  }
}

void multiply(int64_t rows, const uint16_t* a, const uint16_t* b, uint16_t* c) {
  switch (rows) {
    case 1: return multiply<1>(a, b, c);
    case 2: return multiply<2>(a, b, c);
    case 3: return multiply<3>(a, b, c);
    case 4: return multiply<4>(a, b, c);
    case 5: return multiply<5>(a, b, c);
    default: return multiply<TILE_M>(a, b, c);
  }
}

}  // namespace

void run(tvm::ffi::TensorView A, tvm::ffi::TensorView B, tvm::ffi::TensorView C) {
  const int64_t rows = A.size(0);
  const auto* a = static_cast<const uint16_t*>(A.data_ptr());
  const auto* b = static_cast<const uint16_t*>(B.data_ptr());
  auto* c = static_cast<uint16_t*>(C.data_ptr());
  const int64_t panels = (rows + PANEL - 1) / PANEL, tiles = (rows + TILE_M - 1) / TILE_M;
  const int64_t panel = panels == 0 ? PANEL : (tiles + panels - 1) / panels * TILE_M;
#pragma omp parallel
  {
    thread_local std::vector<uint16_t> packed(PANEL * K);  // each thread's own: cheaper than waiting for one another
    for (int64_t first = 0; first < rows; first += panel) {
      const int64_t count = std::min(panel, rows - first);
      pack(a + first * K, count, packed.data());
#pragma omp for schedule(static) nowait
      for (int64_t n = 0; n < N; n += TILE_N) {
        for (int64_t m = 0; m < count; m += TILE_M) {
          multiply(count - m, packed.data() + m * K, b + n * K, c + (first + m) * N + n);
        }
      }
    }
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
