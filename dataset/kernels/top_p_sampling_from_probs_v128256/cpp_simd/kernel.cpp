#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "simd.h"

namespace {

constexpr int64_t VOCAB = 128256;
// Positive floats order as their bits do; 8 bits of exponent and 3 of mantissa make a bucket.
constexpr int SHIFT = 20;
constexpr int BUCKETS = 1 << 11;
// Rows sum to one only within rounding.
constexpr double MASS_AT_LEAST = 0.999;

static_assert(VOCAB % LANES == 0);

struct Token {
  float prob;
  int32_t id;
};

uint32_t bucket_of(float prob) {
  uint32_t bits;
  std::memcpy(&bits, &prob, sizeof(bits));
  return bits >> SHIFT;
}

// Appends those of sixteen tokens that weigh more than `rare`, without a branch: which ones cannot be predicted.
// Up to sixteen places past the new end are overwritten.
int64_t append_common(const float* probs, int32_t first_id, float rare, float* kept, int32_t* ids) {
#ifdef SIMD_AVX512
  const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const __m512 x = _mm512_loadu_ps(probs);
  const __mmask16 common = _mm512_cmp_ps_mask(x, _mm512_set1_ps(rare), _CMP_GT_OQ);
  _mm512_storeu_ps(kept, _mm512_maskz_compress_ps(common, x));
  _mm512_storeu_si512(ids, _mm512_maskz_compress_epi32(common, _mm512_add_epi32(lane, _mm512_set1_epi32(first_id))));
  return __builtin_popcount(common);
#else
  int64_t count = 0;
  for (int64_t i = 0; i < LANES; ++i) {
    kept[count] = probs[i];
    ids[count] = first_id + static_cast<int32_t>(i);
    count += probs[i] > rare;
  }
  return count;
#endif
}

// Uniform in [0, 1), different in each call and process: SplitMix64 over a counter from a random start.
double uniform() {
  static std::atomic<uint64_t> counter{(uint64_t{std::random_device{}()} << 32) | std::random_device{}()};
  uint64_t x = counter.fetch_add(0x9e3779b97f4a7c15u, std::memory_order_relaxed);
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return static_cast<double>((x ^ (x >> 31)) >> 11) * 0x1p-53;
}

// One row's tokens, its histogram and the nucleus found in it. Reused from row to row.
class Row {
 public:
  int64_t draw(const float* probs, float top_p) {
    // All tokens below `rare` together weigh less than what top_p leaves out.
    const double rare = (MASS_AT_LEAST - top_p) / VOCAB;
    if (rare <= 0 || !find_nucleus(probs, static_cast<float>(rare), top_p)) find_nucleus(probs, 0, top_p);
    return pick(uniform() * nucleus_mass_);
  }

 private:
  // Of the tokens that weigh more than `rare`; false when they do not reach top_p.
  bool find_nucleus(const float* probs, float rare, double top_p) {
    gather(probs, rare);
    nucleus_mass_ = 0;
    for (last_bucket_ = BUCKETS - 1; last_bucket_ > 0; --last_bucket_) {
      const double mass = mass_[last_bucket_];
      if (mass > 0 && nucleus_mass_ + mass >= top_p) break;
      nucleus_mass_ += mass;
    }
    edge_.clear();
    for (int64_t i = 0; i < count_; ++i) {
      if (bucket_of(probs_[i]) == last_bucket_) edge_.push_back({probs_[i], ids_[i]});
    }
    std::sort(edge_.begin(), edge_.end(), [](const Token& a, const Token& b) {
      return a.prob > b.prob || (a.prob == b.prob && a.id < b.id);
    });
    for (size_t i = 0; i < edge_.size(); ++i) {
      nucleus_mass_ += edge_[i].prob;
      if (nucleus_mass_ >= top_p) {
        edge_.resize(i + 1);
        return true;
      }
    }
    return false;
  }

  void gather(const float* probs, float rare) {
    probs_.resize(VOCAB + LANES);
    ids_.resize(VOCAB + LANES);
    count_ = 0;
    for (int64_t i = 0; i < VOCAB; i += LANES) {
      count_ += append_common(probs + i, static_cast<int32_t>(i), rare, &probs_[count_], &ids_[count_]);
    }
    mass_.assign(BUCKETS, 0);
    for (int64_t i = 0; i < count_; ++i) mass_[bucket_of(probs_[i])] += probs_[i];
  }

  // The token at `mass` when the nucleus is laid out bucket by bucket, the heaviest first.
  int64_t pick(double mass) const {
    uint32_t bucket = BUCKETS - 1;
    for (; bucket > last_bucket_ && mass >= mass_[bucket]; --bucket) mass -= mass_[bucket];
    int64_t found = 0;
    if (bucket > last_bucket_) {
      for (int64_t i = 0; i < count_ && mass >= 0; ++i) {
        if (bucket_of(probs_[i]) != bucket) continue;
        found = ids_[i];
        mass -= probs_[i];
      }
    } else {
      for (size_t i = 0; i < edge_.size() && mass >= 0; ++i) {
        found = edge_[i].id;
        mass -= edge_[i].prob;
      }
    }
    return found;
  }

  std::vector<float> probs_;
  std::vector<int32_t> ids_;
  std::vector<Token> edge_;
  std::vector<double> mass_;
  int64_t count_ = 0;
  uint32_t last_bucket_ = 0;
  double nucleus_mass_ = 0;
};

}  // namespace

void run(tvm::ffi::TensorView probs, tvm::ffi::TensorView top_p, tvm::ffi::TensorView samples) {
  const int64_t rows = probs.size(0);
  const auto* in = static_cast<const float*>(probs.data_ptr());
  const auto* limit = static_cast<const float*>(top_p.data_ptr());
  auto* out = static_cast<int64_t*>(samples.data_ptr());
#pragma omp parallel if (rows > 1)
  {
    thread_local Row row;
#pragma omp for schedule(dynamic)
    for (int64_t i = 0; i < rows; ++i) out[i] = row.draw(in + i * VOCAB, limit[i]);
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
