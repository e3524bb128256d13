#include <cuda_bf16.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>

namespace {

using bf16 = __nv_bfloat16;
using tvm::ffi::TensorView;

constexpr int kIntermediate = 14336;
constexpr int kThreads = 256;
constexpr int kPerThread = 8;  // 16 bytes
constexpr int kBlock = kThreads * kPerThread;
static_assert(kIntermediate % kBlock == 0);

__device__ float2 gated(__nv_bfloat162 gate, __nv_bfloat162 up) {
  const float2 g = __bfloat1622float2(gate), u = __bfloat1622float2(up);
  return {g.x / (1.0f + __expf(-g.x)) * u.x, g.y / (1.0f + __expf(-g.y)) * u.y};
}

__global__ void gate_block(const bf16* gate_up, bf16* output) {
  const size_t row = blockIdx.y, column = size_t(blockIdx.x) * kBlock + threadIdx.x * kPerThread;
  const bf16* gate = gate_up + row * 2 * kIntermediate + column;
  const uint4 raw_gate = *reinterpret_cast<const uint4*>(gate);
  const uint4 raw_up = *reinterpret_cast<const uint4*>(gate + kIntermediate);
  const auto* gates = reinterpret_cast<const __nv_bfloat162*>(&raw_gate);
  const auto* ups = reinterpret_cast<const __nv_bfloat162*>(&raw_up);
  uint4 raw;
  auto* pairs = reinterpret_cast<__nv_bfloat162*>(&raw);
#pragma unroll
  for (int i = 0; i < kPerThread / 2; ++i) pairs[i] = __float22bfloat162_rn(gated(gates[i], ups[i]));
  *reinterpret_cast<uint4*>(output + row * kIntermediate + column) = raw;
}

cudaStream_t stream_of(TensorView tensor) {
  const DLDevice device = tensor.device();
  return static_cast<cudaStream_t>(TVMFFIEnvGetStream(device.device_type, device.device_id));
}

void gate(TensorView gate_up, TensorView output) {
  const dim3 grid(kIntermediate / kBlock, gate_up.size(0));
  gate_block<<<grid, kThreads, 0, stream_of(output)>>>(
      static_cast<const bf16*>(gate_up.data_ptr()), static_cast<bf16*>(output.data_ptr()));
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, gate);
