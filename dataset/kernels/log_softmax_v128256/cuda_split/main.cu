#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>

namespace {

using tvm::ffi::TensorView;

constexpr int kVocabulary = 128256;
constexpr int kParts = 32;  // a cluster would hold 16; parts meet in memory instead
constexpr int kPart = kVocabulary / kParts;
constexpr int kThreads = 512;
constexpr int kMaxRows = 4096;

struct Partial {
  float peak, total;
};

__device__ Partial partials[kMaxRows * kParts];

__device__ Partial merge(Partial one, Partial two) {
  const float peak = fmaxf(one.peak, two.peak);
  if (peak == -INFINITY) return {peak, 0.0f};
  return {peak, one.total * __expf(one.peak - peak) + two.total * __expf(two.peak - peak)};
}

__device__ Partial warp_merge(Partial mine) {
#pragma unroll
  for (int apart = 16; apart > 0; apart /= 2) {
    mine = merge(mine, {__shfl_xor_sync(~0u, mine.peak, apart), __shfl_xor_sync(~0u, mine.total, apart)});
  }
  return mine;
}

__global__ void reduce_part(const float* logits) {
  const float* from = logits + size_t(blockIdx.y) * kVocabulary + blockIdx.x * kPart;
  Partial mine{-INFINITY, 0.0f};
  for (int i = threadIdx.x; i < kPart; i += kThreads) mine = merge(mine, {from[i], 1.0f});
  mine = warp_merge(mine);
  __shared__ Partial by_warp[kThreads / 32];
  if (threadIdx.x % 32 == 0) by_warp[threadIdx.x / 32] = mine;
  __syncthreads();
  if (threadIdx.x >= 32) return;
  mine = threadIdx.x < kThreads / 32 ? by_warp[threadIdx.x] : Partial{-INFINITY, 0.0f};
  mine = warp_merge(mine);
  if (threadIdx.x == 0) partials[blockIdx.y * kParts + blockIdx.x] = mine;
}

__global__ void subtract_part(const float* logits, float* log_probs) {
  __shared__ float shift;
  if (threadIdx.x < 32) {
    const Partial whole = warp_merge(partials[blockIdx.y * kParts + threadIdx.x]);
    if (threadIdx.x == 0) shift = whole.peak + logf(whole.total);
  }
  __syncthreads();
  const size_t start = size_t(blockIdx.y) * kVocabulary + blockIdx.x * kPart;
  for (int i = threadIdx.x; i < kPart; i += kThreads) log_probs[start + i] = logits[start + i] - shift;
}

void log_softmax(TensorView logits, TensorView log_probs) {
  const DLDevice device = logits.device();
  const auto stream = static_cast<cudaStream_t>(TVMFFIEnvGetStream(device.device_type, device.device_id));
  const dim3 grid(kParts, logits.size(0));
  const auto* from = static_cast<const float*>(logits.data_ptr());
  reduce_part<<<grid, kThreads, 0, stream>>>(from);
  subtract_part<<<grid, kThreads, 0, stream>>>(from, static_cast<float*>(log_probs.data_ptr()));
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, log_softmax);
