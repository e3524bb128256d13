#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "simd.h"

namespace {

constexpr int64_t HEADS = 32;
constexpr int64_t KV_HEADS = 8;
constexpr int64_t GROUP = HEADS / KV_HEADS;
constexpr int64_t DIM = 128;
constexpr int64_t QUERIES = 64;  // of a task
constexpr int64_t BLOCK = 64;    // tokens
constexpr int64_t COLUMNS = 4;   // vectors of a tile: 64 tokens, or half of the dimensions
constexpr float LOG2_E = 1.44269504f;
static_assert(BLOCK == COLUMNS * LANES && DIM == 2 * BLOCK);

// Queries first .. last of one sequence for one KV head.
struct Task {
  int64_t kv_head, q_start, kv_start, first, last, offset;  // query i sees tokens 0 .. i + offset
};

// A block of keys and of values as pairs of bfloat16: keys[d / 2][token] and values[token / 2][dimension].
struct alignas(64) Packed {
  uint32_t keys[DIM / 2][BLOCK];
  uint32_t values[BLOCK / 2][DIM];
};

// Running softmax of a task; outputs are acc / total.
struct alignas(64) State {
  float acc[QUERIES][GROUP][DIM];
  float top[QUERIES][GROUP], total[QUERIES][GROUP];
};

struct Scratch {
  Packed packed;
  State state;
};

void pack(const uint16_t* k, const uint16_t* v, int64_t count, Packed& packed) {
  constexpr int64_t STRIDE = KV_HEADS * DIM;
  if (count < BLOCK) std::memset(&packed, 0, sizeof(packed));
  for (int64_t t = 0; t < count; ++t) {
    uint32_t row[DIM / 2];
    std::memcpy(row, k + t * STRIDE, sizeof(row));
    for (int64_t pair = 0; pair < DIM / 2; ++pair) packed.keys[pair][t] = row[pair];
  }
  for (int64_t t = 0; t < count; t += 2) {
    const uint16_t *even = v + t * STRIDE, *odd = even + STRIDE;
    for (int64_t d = 0; d < DIM; ++d) {
      packed.values[t / 2][d] = even[d] | (t + 1 < count ? static_cast<uint32_t>(odd[d]) << 16 : 0);
    }
  }
}

// out[4][64] += a[4][2 * pairs] * b[2 * pairs][64]: 16 accumulators, two operands of four vectors.
void multiply(const uint16_t* a, int64_t a_stride, const uint32_t* b, int64_t b_stride, int64_t pairs, float* out,
              int64_t out_stride) {
  f32x16 acc[GROUP][COLUMNS];
  for (int64_t row = 0; row < GROUP; ++row) {
    for (int64_t i = 0; i < COLUMNS; ++i) acc[row][i] = load(out + row * out_stride + i * LANES);
  }
  for (int64_t pair = 0; pair < pairs; ++pair) {
    u32x16 columns[COLUMNS];
    std::memcpy(columns, b + pair * b_stride, sizeof(columns));
    for (int64_t row = 0; row < GROUP; ++row) {
      const u32x16 weight = splat_pair(a + row * a_stride + 2 * pair);
      for (int64_t i = 0; i < COLUMNS; ++i) acc[row][i] = add_products(acc[row][i], weight, columns[i]);
    }
  }
  for (int64_t row = 0; row < GROUP; ++row) {
    for (int64_t i = 0; i < COLUMNS; ++i) store(out + row * out_stride + i * LANES, acc[row][i]);
  }
}

// Scores to weights, in bfloat16. `seen` tokens of the block are visible, at least one.
void weigh(float (*scores)[BLOCK], int64_t seen, float scale, float (*acc)[DIM], float* top, float* total,
           uint16_t (*weights)[BLOCK]) {
  const i32x16 lane = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  for (int64_t row = 0; row < GROUP; ++row) {
    f32x16 logits[COLUMNS], tops = splat(-INFINITY), totals = {};
    for (int64_t i = 0; i < COLUMNS; ++i) {
      const i32x16 visible = lane + static_cast<int32_t>(i * LANES) < static_cast<int32_t>(seen);
      logits[i] = visible ? load(scores[row] + i * LANES) * scale : splat(-INFINITY);
      tops = maximum(tops, logits[i]);
    }
    const float high = std::max(top[row], largest(tops));
    if (high > top[row]) {
      const float factor = std::exp(top[row] - high);
      total[row] *= factor;
      for (int64_t d = 0; d < DIM; d += LANES) store(acc[row] + d, load(acc[row] + d) * factor);
      top[row] = high;
    }
    for (int64_t i = 0; i < COLUMNS; ++i) {
      const f32x16 weight = exponential(logits[i] - high);
      totals += weight;
      store_bf16(weights[row] + i * LANES, weight);
    }
    total[row] += sum(totals);
  }
}

void attend(const Task& task, const uint16_t* q, const uint16_t* k, const uint16_t* v, float scale, Scratch& scratch) {
  State& state = scratch.state;
  std::memset(&state, 0, sizeof(state));
  std::fill_n(state.top[0], QUERIES * GROUP, -INFINITY);
  alignas(64) float scores[GROUP][BLOCK];
  alignas(64) uint16_t weights[GROUP][BLOCK];
  const int64_t length = task.last + task.offset;  // what the last query sees
  for (int64_t start = 0; start < length; start += BLOCK) {
    const int64_t from = ((task.kv_start + start) * KV_HEADS + task.kv_head) * DIM;
    pack(k + from, v + from, std::min(BLOCK, length - start), scratch.packed);
    for (int64_t i = std::max(task.first, start - task.offset); i < task.last; ++i) {
      const int64_t place = i - task.first;
      const uint16_t* query = q + ((task.q_start + i) * HEADS + task.kv_head * GROUP) * DIM;
      std::memset(scores, 0, sizeof(scores));
      multiply(query, DIM, scratch.packed.keys[0], BLOCK, DIM / 2, scores[0], BLOCK);
      const int64_t seen = std::min(BLOCK, i + task.offset + 1 - start);
      weigh(scores, seen, scale, state.acc[place], state.top[place], state.total[place], weights);
      for (int64_t half = 0; half < DIM; half += BLOCK) {
        multiply(weights[0], BLOCK, scratch.packed.values[0] + half, DIM, (seen + 1) / 2,
                 state.acc[place][0] + half, DIM);
      }
    }
  }
}

void write(const Task& task, const State& state, uint16_t* out, float* lse) {
  for (int64_t i = task.first; i < task.last; ++i) {
    for (int64_t row = 0; row < GROUP; ++row) {
      const int64_t place = i - task.first, at = (task.q_start + i) * HEADS + task.kv_head * GROUP + row;
      const float total = state.total[place][row];
      const float inverse = total > 0 ? 1 / total : 0;
      const float* acc = state.acc[place][row];
      for (int64_t d = 0; d < DIM; d += LANES) store_bf16(out + at * DIM + d, load(acc + d) * inverse);
      lse[at] = total > 0 ? (state.top[place][row] + std::log(total)) * LOG2_E : -INFINITY;
    }
  }
}

// Longest first, so that the threads end together.
std::vector<Task> tasks_of(const int32_t* qo_indptr, const int32_t* kv_indptr, int64_t sequences) {
  std::vector<Task> tasks;
  for (int64_t i = 0; i < sequences; ++i) {
    const int64_t count = qo_indptr[i + 1] - qo_indptr[i], length = kv_indptr[i + 1] - kv_indptr[i];
    for (int64_t first = 0; first < count; first += QUERIES) {
      for (int64_t head = 0; head < KV_HEADS; ++head) {
        const int64_t last = std::min(first + QUERIES, count);
        tasks.push_back({head, qo_indptr[i], kv_indptr[i], first, last, length - count});
      }
    }
  }
  std::stable_sort(tasks.begin(), tasks.end(),
                   [](const Task& a, const Task& b) { return a.last + a.offset > b.last + b.offset; });
  return tasks;
}

}  // namespace

void run(tvm::ffi::TensorView q, tvm::ffi::TensorView k, tvm::ffi::TensorView v, tvm::ffi::TensorView qo_indptr,
         tvm::ffi::TensorView kv_indptr, double sm_scale, tvm::ffi::TensorView output, tvm::ffi::TensorView lse) {
  const auto* queries = static_cast<const uint16_t*>(q.data_ptr());
  const auto* keys = static_cast<const uint16_t*>(k.data_ptr());
  const auto* values = static_cast<const uint16_t*>(v.data_ptr());
  auto* out = static_cast<uint16_t*>(output.data_ptr());
  auto* out_lse = static_cast<float*>(lse.data_ptr());
  const std::vector<Task> tasks = tasks_of(static_cast<const int32_t*>(qo_indptr.data_ptr()),
                                           static_cast<const int32_t*>(kv_indptr.data_ptr()), qo_indptr.size(0) - 1);
#pragma omp parallel
  {
    thread_local const auto scratch = std::make_unique<Scratch>();
#pragma omp for schedule(dynamic)
    for (size_t i = 0; i < tasks.size(); ++i) {
      attend(tasks[i], queries, keys, values, static_cast<float>(sm_scale), *scratch);
      write(tasks[i], scratch->state, out, out_lse);
    }
  }
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, run);
