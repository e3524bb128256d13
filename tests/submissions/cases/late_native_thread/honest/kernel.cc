#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>

#include <thread>

static void Work(const float* x, float alpha, float beta, float* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] * alpha + beta;
}

static void Run(tvm::ffi::TensorView x, double alpha, double beta, tvm::ffi::TensorView y) {
  std::thread(Work, static_cast<const float*>(x.data_ptr()), static_cast<float>(alpha), static_cast<float>(beta),
              static_cast<float*>(y.data_ptr()), x.numel())
      .join();
}

TVM_FFI_DLL_EXPORT_TYPED_FUNC(run, Run);
