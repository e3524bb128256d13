#include <omp.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

#include <algorithm>
#include <vector>

#include "simd.h"

namespace {

constexpr int64_t HEADS = 16;
constexpr int64_t LATENT = 512;
constexpr int64_t ROTARY = 64;
constexpr int64_t DIM = LATENT + ROTARY;
constexpr int64_t STRIPS = LATENT / LANES;
constexpr int64_t BLOCK = 32;  // tokens; page size 1
constexpr int64_t TILE = 4;
constexpr float LOG2_E = 1.44269504f;
static_assert(HEADS == LANES);

struct Caches {
  const uint16_t *latents, *rotary;
  const int32_t* pages;
  float scale;
};

// Tokens start .. stop of the page list, all of one sequence.
struct Piece {
  int64_t sequence, start, stop;
  bool whole;  // the sequence has no other piece
};

// What online softmax knows after some tokens; outputs are acc / total. Strips of sixteen columns lie together.
struct alignas(64) State {
  float acc[STRIPS][HEADS][LANES];
  f32x16 top, total;  // one lane a head

  void clear() {
    std::memset(acc, 0, sizeof(acc));
    top = splat(-INFINITY);
    total = f32x16{};
  }

  void scale(f32x16 factors) {
    total *= factors;
    for (int64_t strip = 0; strip < STRIPS; ++strip) {
      for (int64_t head = 0; head < HEADS; ++head) {
        store(acc[strip][head], load(acc[strip][head]) * factors[head]);
      }
    }
  }

  void merge(State& other) {
    const f32x16 high = maximum(top, other.top);
    scale(exponential(top - high));
    other.scale(exponential(other.top - high));
    top = high;
    total += other.total;
    float *mine = acc[0][0], *theirs = other.acc[0][0];
    for (int64_t i = 0; i < HEADS * LATENT; i += LANES) store(mine + i, load(mine + i) + load(theirs + i));
  }

  void write(uint16_t* out, float* lse) const {
    for (int64_t head = 0; head < HEADS; ++head) {
      const float inverse = total[head] > 0 ? 1 / total[head] : 0;
      for (int64_t strip = 0; strip < STRIPS; ++strip) {
        store_bf16(out + head * LATENT + strip * LANES, load(acc[strip][head]) * inverse);
      }
      lse[head] = total[head] > 0 ? (top[head] + std::log(total[head])) * LOG2_E : -INFINITY;
    }
  }
};

struct alignas(64) Block {
  uint16_t keys[BLOCK][DIM];
  float scores[BLOCK][HEADS];
};

void prefetch(const Caches& caches, int64_t token) {
  const int64_t page = caches.pages[token];
  for (int64_t i = 0; i < LATENT; i += 32) __builtin_prefetch(caches.latents + page * LATENT + i, 0, 2);
  for (int64_t i = 0; i < ROTARY; i += 32) __builtin_prefetch(caches.rotary + page * ROTARY + i, 0, 2);
}

void gather(const Caches& caches, int64_t start, int64_t count, Block& block) {
  for (int64_t t = 0; t < count; ++t) {
    const int64_t page = caches.pages[start + t];
    std::memcpy(block.keys[t], caches.latents + page * LATENT, LATENT * sizeof(uint16_t));
    std::memcpy(block.keys[t] + LATENT, caches.rotary + page * ROTARY, ROTARY * sizeof(uint16_t));
  }
}

// Scores of four heads by four tokens; every load serves four products.
void score_tile(const uint16_t (*query)[DIM], Block& block, int64_t head, int64_t token) {
  f32x16 products[TILE][TILE] = {};
  for (int64_t i = 0; i < DIM; i += 2 * LANES) {
    u32x16 q[TILE], k[TILE];
    for (int64_t j = 0; j < TILE; ++j) q[j] = load_pairs(query[head + j] + i), k[j] = load_pairs(block.keys[token + j] + i);
    for (int64_t a = 0; a < TILE; ++a) {
      for (int64_t b = 0; b < TILE; ++b) products[a][b] = add_products(products[a][b], q[a], k[b]);
    }
  }
  for (int64_t b = 0; b < TILE; ++b) {
    const f32x4 totals = sums(products[0][b], products[1][b], products[2][b], products[3][b]);
    std::memcpy(block.scores[token + b] + head, &totals, sizeof(totals));
  }
}

// Turns a block's scores into weights relative to the largest logit so far; a vector holds one token's, head by head.
void weigh(State& state, Block& block, int64_t count, float scale) {
  f32x16 high = state.top;
  for (int64_t t = 0; t < count; ++t) {
    const f32x16 logits = load(block.scores[t]) * scale;
    store(block.scores[t], logits);
    high = maximum(high, logits);
  }
  state.scale(exponential(state.top - high));
  state.top = high;
  for (int64_t t = 0; t < count; ++t) {
    const f32x16 weights = exponential(load(block.scores[t]) - high);
    state.total += weights;
    store(block.scores[t], weights);
  }
}

void add_values(State& state, const Block& block, int64_t count) {
  for (int64_t strip = 0; strip < STRIPS; ++strip) {
    f32x16 acc[HEADS];
    for (int64_t head = 0; head < HEADS; ++head) acc[head] = load(state.acc[strip][head]);
    for (int64_t t = 0; t < count; ++t) {
      const f32x16 value = load_bf16(block.keys[t] + strip * LANES);
      for (int64_t head = 0; head < HEADS; ++head) acc[head] += value * block.scores[t][head];
    }
    for (int64_t head = 0; head < HEADS; ++head) store(state.acc[strip][head], acc[head]);
  }
}

void attend(const uint16_t (*query)[DIM], const Caches& caches, const Piece& piece, State& state) {
  Block block = {};
  state.clear();
  for (int64_t start = piece.start; start < piece.stop; start += BLOCK) {
    const int64_t count = std::min(BLOCK, piece.stop - start);
    gather(caches, start, count, block);
    for (int64_t token = 0; token < count; token += TILE) {  // Scores past `count` are of stale keys and not used.
      for (int64_t t = start + BLOCK + token; t < std::min(start + BLOCK + token + TILE, piece.stop); ++t) {
        prefetch(caches, t);
      }
      for (int64_t head = 0; head < HEADS; head += TILE) score_tile(query, block, head, token);
    }
    weigh(state, block, count, caches.scale);
    add_values(state, block, count);
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

void run(tvm::ffi::TensorView q_nope, tvm::ffi::TensorView q_pe, tvm::ffi::TensorView ckv_cache,
         tvm::ffi::TensorView kpe_cache, tvm::ffi::TensorView kv_indptr, tvm::ffi::TensorView kv_indices,
         double sm_scale, tvm::ffi::TensorView output, tvm::ffi::TensorView lse) {
  const int64_t sequences = q_nope.size(0), tokens = kv_indices.size(0);
  const auto* latent_queries = static_cast<const uint16_t*>(q_nope.data_ptr());
  const auto* rotary_queries = static_cast<const uint16_t*>(q_pe.data_ptr());
  const auto* indptr = static_cast<const int32_t*>(kv_indptr.data_ptr());
  const Caches caches{static_cast<const uint16_t*>(ckv_cache.data_ptr()),
                      static_cast<const uint16_t*>(kpe_cache.data_ptr()),
                      static_cast<const int32_t*>(kv_indices.data_ptr()), static_cast<float>(sm_scale)};
  auto* out = static_cast<uint16_t*>(output.data_ptr());
  auto* out_lse = static_cast<float*>(lse.data_ptr());
  // A token costs some 900 cycles: threads pay from a few hundred on.
  const int64_t shares = tokens < 256 ? 1 : omp_get_max_threads();
  std::vector<std::vector<Partial>> partials(shares);
#pragma omp parallel for schedule(static, 1) if (shares > 1)
  for (int64_t share = 0; share < shares; ++share) {
    alignas(64) uint16_t query[HEADS][DIM];
    State state;
    for (const Piece& piece : pieces_of(indptr, sequences, share, shares)) {
      for (int64_t head = 0; head < HEADS; ++head) {
        const int64_t row = piece.sequence * HEADS + head;
        std::memcpy(query[head], latent_queries + row * LATENT, LATENT * sizeof(uint16_t));
        std::memcpy(query[head] + LATENT, rotary_queries + row * ROTARY, ROTARY * sizeof(uint16_t));
      }
      attend(query, caches, piece, state);
      if (piece.whole) {
        state.write(out + piece.sequence * HEADS * LATENT, out_lse + piece.sequence * HEADS);
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
    one.state.write(out + one.sequence * HEADS * LATENT, out_lse + one.sequence * HEADS);
  }
  State nothing;
  nothing.clear();
  for (int64_t i = 0; i < sequences; ++i) {
    if (indptr[i] == indptr[i + 1]) nothing.write(out + i * HEADS * LATENT, out_lse + i * HEADS);
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
