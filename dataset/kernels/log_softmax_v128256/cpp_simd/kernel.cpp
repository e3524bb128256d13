#include <omp.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

#include <algorithm>
#include <vector>

#include "simd.h"

namespace {

constexpr int64_t VOCAB = 128256;
constexpr int64_t BLOCK = 2048;
static_assert(VOCAB % LANES == 0 && BLOCK % (4 * LANES) == 0);

// Of some logits: the largest, and the sum of exponentials of all less it.
struct Tally {
  float top = -INFINITY;
  float total = 0;

  void add(const Tally& other) {
    if (other.top == -INFINITY) return;
    const float high = std::max(top, other.top);
    total = total * std::exp(top - high) + other.total * std::exp(other.top - high);
    top = high;
  }

  float log_sum() const { return top + std::log(total); }
};

Tally tally_block(const float* x, int64_t count) {
  f32x16 tops = splat(-INFINITY);
  for (int64_t i = 0; i < count; i += LANES) tops = maximum(tops, load(x + i));
  const float top = largest(tops);
  if (top == -INFINITY) return {};
  f32x16 totals = {};
  for (int64_t i = 0; i < count; i += LANES) totals += exponential(load(x + i) - top);
  return {top, sum(totals)};
}

Tally tally(const float* x, int64_t start, int64_t stop) {
  Tally all;
  for (int64_t i = start; i < stop; i += BLOCK) all.add(tally_block(x + i, std::min(BLOCK, stop - i)));
  return all;
}

void subtract(const float* x, float log_sum, int64_t start, int64_t stop, float* out) {
  for (int64_t i = start; i < stop; i += LANES) store(out + i, load(x + i) - log_sum);
}

// Where part `part` of `parts` of a row begins.
int64_t bound(int64_t part, int64_t parts) { return VOCAB / LANES * part / parts * LANES; }

}  // namespace

void run(tvm::ffi::TensorView logits, tvm::ffi::TensorView log_probs) {
  const int64_t rows = logits.size(0);
  const auto* in = static_cast<const float*>(logits.data_ptr());
  auto* out = static_cast<float*>(log_probs.data_ptr());
  std::vector<Tally> tallies(omp_get_max_threads() * omp_get_max_threads());
  // One row alone takes no longer than waking the threads.
#pragma omp parallel if (rows > 1)
  {
    const int64_t threads = omp_get_num_threads(), me = omp_get_thread_num();
    const int64_t whole = rows / threads * threads;
    for (int64_t row = me; row < whole; row += threads) {
      const float* x = in + row * VOCAB;
      subtract(x, tally(x, 0, VOCAB).log_sum(), 0, VOCAB, out + row * VOCAB);
    }
    const int64_t start = bound(me, threads), stop = bound(me + 1, threads);
    for (int64_t row = whole; row < rows; ++row) {
      tallies[(row - whole) * threads + me] = tally(in + row * VOCAB, start, stop);
    }
#pragma omp barrier
    for (int64_t row = whole; row < rows; ++row) {
      Tally all;
      for (int64_t part = 0; part < threads; ++part) all.add(tallies[(row - whole) * threads + part]);
      subtract(in + row * VOCAB, all.log_sum(), start, stop, out + row * VOCAB);
    }
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
