#include <omp.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

#include <algorithm>
#include <vector>

#include "simd.h"

namespace {

constexpr int64_t HEADS = 32;
constexpr int64_t KV_HEADS = 8;
constexpr int64_t GROUP = HEADS / KV_HEADS;
constexpr int64_t DIM = 128;
constexpr int64_t VECTORS = DIM / LANES;
constexpr int64_t PAIR_VECTORS = VECTORS / 2;
constexpr int64_t ROW = KV_HEADS * DIM;  // one token in a cache: page size 1
constexpr int64_t BLOCK = LANES;         // tokens
constexpr float LOG2_E = 1.44269504f;

struct Caches {
  const uint16_t *k, *v;
  const int32_t* pages;
  float scale;
};

// Tokens start .. stop of the page list, all of one sequence.
struct Piece {
  int64_t sequence, start, stop;
  bool whole;  // the sequence has no other piece
};

// What online softmax knows after some tokens; outputs are acc / total.
struct alignas(64) State {
  float acc[HEADS][DIM];
  float top[HEADS], total[HEADS];

  void clear() {
    std::memset(acc, 0, sizeof(acc));
    for (int64_t head = 0; head < HEADS; ++head) top[head] = -INFINITY, total[head] = 0;
  }

  void scale(int64_t head, float factor) {
    total[head] *= factor;
    for (int64_t i = 0; i < DIM; i += LANES) store(acc[head] + i, load(acc[head] + i) * factor);
  }

  void merge(State& other) {
    for (int64_t head = 0; head < HEADS; ++head) {
      const float high = std::max(top[head], other.top[head]);
      scale(head, std::exp(top[head] - high));
      other.scale(head, std::exp(other.top[head] - high));
      top[head] = high;
      total[head] += other.total[head];
      for (int64_t i = 0; i < DIM; i += LANES) store(acc[head] + i, load(acc[head] + i) + load(other.acc[head] + i));
    }
  }

  void write(uint16_t* out, float* lse) const {
    for (int64_t head = 0; head < HEADS; ++head) {
      const float inverse = total[head] > 0 ? 1 / total[head] : 0;
      for (int64_t i = 0; i < DIM; i += LANES) store_bf16(out + head * DIM + i, load(acc[head] + i) * inverse);
      lse[head] = total[head] > 0 ? (top[head] + std::log(total[head])) * LOG2_E : -INFINITY;
    }
  }
};

void prefetch(const uint16_t* row) {
  for (int64_t i = 0; i < ROW; i += 32) __builtin_prefetch(row + i, 0, 2);
}

// Logits of one token before scaling: four query heads share each key.
void score_token(const uint16_t* query, const uint16_t* keys, float (*scores)[BLOCK], int64_t t) {
  for (int64_t kv = 0; kv < KV_HEADS; ++kv) {
    u32x16 key[PAIR_VECTORS];
    for (int64_t i = 0; i < PAIR_VECTORS; ++i) key[i] = load_pairs(keys + kv * DIM + i * 2 * LANES);
    f32x16 products[GROUP] = {};
    for (int64_t row = 0; row < GROUP; ++row) {
      const uint16_t* head = query + (kv * GROUP + row) * DIM;
      for (int64_t i = 0; i < PAIR_VECTORS; ++i) {
        products[row] = add_products(products[row], load_pairs(head + i * 2 * LANES), key[i]);
      }
    }
    const f32x4 totals = sums(products[0], products[1], products[2], products[3]);
    for (int64_t row = 0; row < GROUP; ++row) scores[kv * GROUP + row][t] = totals[row];
  }
}

// Turns a block's scores into weights relative to the largest logit so far.
void weigh(State& state, float (*scores)[BLOCK], int64_t count, float scale) {
  const i32x16 lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  const i32x16 present = lane < static_cast<int32_t>(count);
  for (int64_t head = 0; head < HEADS; ++head) {
    const f32x16 logits = present ? load(scores[head]) * scale : splat(-INFINITY);
    const float high = std::max(state.top[head], largest(logits));
    if (high > state.top[head]) state.scale(head, std::exp(state.top[head] - high));
    state.top[head] = high;
    const f32x16 weights = exponential(logits - high);
    state.total[head] += sum(weights);
    store(scores[head], weights);
  }
}

// Two heads at a time: their accumulators fill half of the registers. Meanwhile the next block's keys are fetched.
void add_values(State& state, const Caches& caches, int64_t start, int64_t count, int64_t next_count,
                const float (*weights)[BLOCK]) {
  static_assert(HEADS / 2 >= BLOCK);
  for (int64_t head = 0; head < HEADS; head += 2) {
    const int64_t kv = head / GROUP;
    if (head / 2 < next_count) prefetch(caches.k + caches.pages[start + count + head / 2] * ROW);
    f32x16 first[VECTORS], second[VECTORS];
    for (int64_t i = 0; i < VECTORS; ++i) {
      first[i] = load(state.acc[head] + i * LANES);
      second[i] = load(state.acc[head + 1] + i * LANES);
    }
    for (int64_t t = 0; t < count; ++t) {
      const uint16_t* values = caches.v + caches.pages[start + t] * ROW + kv * DIM;
      for (int64_t i = 0; i < VECTORS; ++i) {
        const f32x16 value = load_bf16(values + i * LANES);
        first[i] += value * weights[head][t];
        second[i] += value * weights[head + 1][t];
      }
    }
    for (int64_t i = 0; i < VECTORS; ++i) {
      store(state.acc[head] + i * LANES, first[i]);
      store(state.acc[head + 1] + i * LANES, second[i]);
    }
  }
}

void attend(const uint16_t* query, const Caches& caches, const Piece& piece, State& state) {
  alignas(64) float scores[HEADS][BLOCK];
  state.clear();
  for (int64_t start = piece.start; start < piece.stop; start += BLOCK) {
    const int64_t count = std::min(BLOCK, piece.stop - start);
    for (int64_t t = 0; t < count; ++t) {
      prefetch(caches.v + caches.pages[start + t] * ROW);
      score_token(query, caches.k + caches.pages[start + t] * ROW, scores, t);
    }
    weigh(state, scores, count, caches.scale);
    add_values(state, caches, start, count, std::min(BLOCK, piece.stop - start - count), scores);
  }
}

// The pieces of share `share` of `shares` of all tokens.
std::vector<Piece> pieces_of(const int32_t* indptr, int64_t sequences, int64_t share, int64_t shares) {
  const int64_t tokens = indptr[sequences] - indptr[0];
  const int64_t from = indptr[0] + tokens * share / shares, to = indptr[0] + tokens * (share + 1) / shares;
  std::vector<Piece> pieces;
  for (int64_t i = 0; i < sequences; ++i) {
    const int64_t start = std::max<int64_t>(from, indptr[i]), stop = std::min<int64_t>(to, indptr[i + 1]);
    if (start < stop) pieces.push_back({i, start, stop, start == indptr[i] && stop == indptr[i + 1]});
  }
  return pieces;
}

struct Partial {
  int64_t sequence;
  State state;
};

}  // namespace

void run(tvm::ffi::TensorView q, tvm::ffi::TensorView k_cache, tvm::ffi::TensorView v_cache,
         tvm::ffi::TensorView kv_indptr, tvm::ffi::TensorView kv_indices, double sm_scale,
         tvm::ffi::TensorView output, tvm::ffi::TensorView lse) {
  const int64_t sequences = q.size(0), tokens = kv_indices.size(0);
  const auto* queries = static_cast<const uint16_t*>(q.data_ptr());
  const auto* indptr = static_cast<const int32_t*>(kv_indptr.data_ptr());
  const Caches caches{static_cast<const uint16_t*>(k_cache.data_ptr()), static_cast<const uint16_t*>(v_cache.data_ptr()),
                      static_cast<const int32_t*>(kv_indices.data_ptr()), static_cast<float>(sm_scale)};
  auto* out = static_cast<uint16_t*>(output.data_ptr());
  auto* out_lse = static_cast<float*>(lse.data_ptr());
  const int64_t shares = tokens * ROW * 4 < BYTES_WORTH_THREADS ? 1 : omp_get_max_threads();
  std::vector<std::vector<Partial>> partials(shares);
#pragma omp parallel for schedule(static, 1) if (shares > 1)
  for (int64_t share = 0; share < shares; ++share) {
    State state;
    for (const Piece& piece : pieces_of(indptr, sequences, share, shares)) {
      attend(queries + piece.sequence * HEADS * DIM, caches, piece, state);
      if (piece.whole) {
        state.write(out + piece.sequence * HEADS * DIM, out_lse + piece.sequence * HEADS);
      } else {
        partials[share].push_back({piece.sequence, state});
      }
    }
  }
  std::vector<Partial> split;  // sequences in order, each with the sum of its pieces
  for (auto& some : partials) {
    for (auto& partial : some) {
      if (split.empty() || split.back().sequence != partial.sequence) {
        split.push_back(partial);
      } else {
        split.back().state.merge(partial.state);
      }
    }
  }
  for (const Partial& one : split) {
    one.state.write(out + one.sequence * HEADS * DIM, out_lse + one.sequence * HEADS);
  }
  State nothing;
  nothing.clear();
  for (int64_t i = 0; i < sequences; ++i) {
    if (indptr[i] == indptr[i + 1]) nothing.write(out + i * HEADS * DIM, out_lse + i * HEADS);
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
