#include <cuda_bf16.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>

namespace {

using bf16 = __nv_bfloat16;
using tvm::ffi::TensorView;

constexpr int kHidden = 4096;
constexpr float kEpsilon = 1e-5f;
constexpr int kThreads = 512;
constexpr int kPerThread = kHidden / kThreads;  // 16 bytes

struct Eight {
  float at[kPerThread];
};

__device__ Eight load(const bf16* from) {
  const uint4 raw = *reinterpret_cast<const uint4*>(from);
  const auto* pairs = reinterpret_cast<const __nv_bfloat162*>(&raw);
  Eight found;
#pragma unroll
  for (int i = 0; i < kPerThread / 2; ++i) {
    const float2 both = __bfloat1622float2(pairs[i]);
    found.at[2 * i] = both.x;
    found.at[2 * i + 1] = both.y;
  }
  return found;
}

__device__ void store(bf16* to, const Eight& values) {
  uint4 raw;
  auto* pairs = reinterpret_cast<__nv_bfloat162*>(&raw);
#pragma unroll
  for (int i = 0; i < kPerThread / 2; ++i) {
    pairs[i] = __floats2bfloat162_rn(values.at[2 * i], values.at[2 * i + 1]);
  }
  *reinterpret_cast<uint4*>(to) = raw;
}

// The sum over all threads of a block, known to every one of them.
__device__ float block_sum(float mine) {
  __shared__ float by_warp[kThreads / 32];
#pragma unroll
  for (int apart = 16; apart > 0; apart /= 2) mine += __shfl_xor_sync(~0u, mine, apart);
  if (threadIdx.x % 32 == 0) by_warp[threadIdx.x / 32] = mine;
  __syncthreads();
  float total = 0.0f;
#pragma unroll
  for (int warp = 0; warp < kThreads / 32; ++warp) total += by_warp[warp];
  return total;
}

__device__ void normalise(Eight& row, const bf16* weight, bf16* output) {
  const Eight gain = load(weight);
  float squares = 0.0f;
#pragma unroll
  for (float value : row.at) squares += value * value;
  const float scale = rsqrtf(block_sum(squares) / kHidden + kEpsilon);
#pragma unroll
  for (int i = 0; i < kPerThread; ++i) row.at[i] *= scale * gain.at[i];
  store(output, row);
}

__global__ void norm_row(const bf16* hidden_states, const bf16* residual, const bf16* weight, bf16* output) {
  const size_t start = size_t(blockIdx.x) * kHidden + threadIdx.x * kPerThread;
  Eight row = load(hidden_states + start);
  const Eight added = load(residual + start);
#pragma unroll
  for (int i = 0; i < kPerThread; ++i) row.at[i] += added.at[i];
  normalise(row, weight + threadIdx.x * kPerThread, output + start);
}

cudaStream_t stream_of(TensorView tensor) {
  const DLDevice device = tensor.device();
  return static_cast<cudaStream_t>(TVMFFIEnvGetStream(device.device_type, device.device_id));
}

void rmsnorm(TensorView hidden_states, TensorView residual, TensorView weight, TensorView output) {
  norm_row<<<hidden_states.size(0), kThreads, 0, stream_of(output)>>>(
      static_cast<const bf16*>(hidden_states.data_ptr()), static_cast<const bf16*>(residual.data_ptr()),
      static_cast<const bf16*>(weight.data_ptr()), static_cast<bf16*>(output.data_ptr()));
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, rmsnorm);
