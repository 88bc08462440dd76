#include "kernels/cuda/gemm_plan.h"

#include <algorithm>
#include <bit>

namespace snug::ops {
namespace {

int64_t alignment_of(std::initializer_list<const void*> arrays) {
  uintptr_t bits = 256;
  for (const void* array : arrays) bits |= reinterpret_cast<uintptr_t>(array);
  return int64_t{1} << std::countr_zero(bits);
}

cudaDataType_t data_type(Dtype dtype) {
  if (dtype == Dtype::bf16) return CUDA_R_16BF;
  if (dtype == Dtype::f16) return CUDA_R_16F;
  if (dtype == Dtype::f32) return CUDA_R_32F;
  throw internal_error("{} is not a type that models compute in", name_of(dtype));
}

cublasOperation_t operation(bool transpose) { return transpose ? CUBLAS_OP_T : CUBLAS_OP_N; }

}  // namespace

GemmKey GemmKey::of(const CudaGemm& p, const Math& math) {
  return {
      .m = p.m,
      .n = p.n,
      .k = p.k,
      .a = p.a_dtype,
      .b = p.b_dtype,
      .c = p.c_dtype,
      .transpose_a = p.transpose_a,
      .transpose_b = p.transpose_b,
      .bias = p.bias != nullptr,
      .sum = p.sum != nullptr,
      .in_place = p.sum == p.c,
      .tf32 = math.tf32 && p.a_dtype == Dtype::f32,
      .deterministic = math.deterministic,
      .part = p.part,
      .alignment = alignment_of({p.a, p.b, p.c, p.bias, p.sum, p.workspace.data()}),
      .workspace = std::min<int64_t>(static_cast<int64_t>(p.workspace.size()), kCudaGemmWorkspace),
      .a_stride = p.stride_of_a() == p.columns_of_a() ? 0 : p.stride_of_a(),
      .b_stride = p.stride_of_b() == p.columns_of_b() ? 0 : p.stride_of_b(),
      .c_stride = p.stride_of_c() == p.n ? 0 : p.stride_of_c()};
}

std::string GemmKey::text() const {
  std::string text =
      fmt::format("{}x{}x{} {} {} {} {}{}{}{}{}{}{} align {} workspace {}", m, n, k, name_of(a),
                  name_of(b), name_of(c), transpose_a ? 't' : 'n', transpose_b ? 't' : 'n',
                  bias ? " bias" : "", sum ? " sum" : "", in_place ? " in-place" : "",
                  tf32 ? " tf32" : "", deterministic ? " deterministic" : "", alignment, workspace);
  if (a_stride > 0) text += fmt::format(" a-stride {}", a_stride);
  if (b_stride > 0) text += fmt::format(" b-stride {}", b_stride);
  if (c_stride > 0) text += fmt::format(" c-stride {}", c_stride);
  if (part) text += " part";
  return text;
}

void GemmPlan::Destroy::operator()(cublasLtMatmulDesc_t p) const {
  cublaslt().MatmulDescDestroy(p);
}
void GemmPlan::Destroy::operator()(cublasLtMatrixLayout_t p) const {
  cublaslt().MatrixLayoutDestroy(p);
}
void GemmPlan::Destroy::operator()(cublasLtMatmulPreference_t p) const {
  cublaslt().MatmulPreferenceDestroy(p);
}

template <typename T>
void GemmPlan::set(cublasLtMatmulDescAttributes_t attribute, const T& value) {
  cublaslt().check(cublaslt().MatmulDescSetAttribute(desc_.get(), attribute, &value, sizeof(value)),
                   "describing the GEMM {}", key_.text());
}

GemmPlan::GemmPlan(const GemmKey& key, const CudaGemm& p) : key_(key) {
  cublasLtMatmulDesc_t desc = nullptr;
  const cublasComputeType_t compute = key.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  cublaslt().check(cublaslt().MatmulDescCreate(&desc, compute, CUDA_R_32F),
                   "describing the GEMM {}", key.text());
  desc_.reset(desc);
  set(CUBLASLT_MATMUL_DESC_TRANSA, operation(key.transpose_b));
  set(CUBLASLT_MATMUL_DESC_TRANSB, operation(key.transpose_a));
  if (key.bias) {  // one number per column of c: per row of what the library takes for the result
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias);
  }
  left_ = key.transpose_b ? layout(key.b, key.k, key.n, key.b_stride)
                          : layout(key.b, key.n, key.k, key.b_stride);
  right_ = key.transpose_a ? layout(key.a, key.m, key.k, key.a_stride)
                           : layout(key.a, key.k, key.m, key.a_stride);
  result_ = layout(key.c, key.n, key.m, key.c_stride);
}

// Column-major; stride 0: without gaps.
GemmPlan::Owned<cublasLtMatrixLayout_t> GemmPlan::layout(Dtype dtype, int64_t rows, int64_t columns,
                                                         int64_t stride) const {
  cublasLtMatrixLayout_t made = nullptr;
  cublaslt().check(
      cublaslt().MatrixLayoutCreate(&made, data_type(dtype), static_cast<uint64_t>(rows),
                                    static_cast<uint64_t>(columns), stride > 0 ? stride : rows),
      "describing the GEMM {}", key_.text());
  return Owned<cublasLtMatrixLayout_t>(made);
}

GemmPlan::Owned<cublasLtMatmulPreference_t> GemmPlan::preference() const {
  cublasLtMatmulPreference_t made = nullptr;
  cublaslt().check(cublaslt().MatmulPreferenceCreate(&made), "describing the GEMM {}", key_.text());
  Owned<cublasLtMatmulPreference_t> preference(made);
  auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
    cublaslt().check(
        cublaslt().MatmulPreferenceSetAttribute(made, attribute, &value, sizeof(value)),
        "describing the GEMM {}", key_.text());
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<uint64_t>(key_.workspace));
  for (const auto attribute :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
    prefer(attribute, static_cast<uint32_t>(key_.alignment));
  // Parts of a sum meet in the workspace, in fp32 and in one order; never in the result.
  prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
         static_cast<uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  return preference;
}

std::vector<cublasLtMatmulAlgo_t> GemmPlan::candidates(int most) const {
  if (key_.a != key_.b) return {};
  std::vector<cublasLtMatmulHeuristicResult_t> found(static_cast<size_t>(most));
  int count = 0;
  const cublasStatus_t status = cublaslt().MatmulAlgoGetHeuristic(
      cublaslt_handle(), desc_.get(), left_.get(), right_.get(), result_.get(), result_.get(),
      preference().get(), most, found.data(), &count);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE) return {};
  cublaslt().check(status, "choosing an algorithm for the GEMM {}", key_.text());
  std::vector<cublasLtMatmulAlgo_t> algorithms;
  for (int i = 0; i < count; ++i) {
    const cublasLtMatmulHeuristicResult_t& result = found[static_cast<size_t>(i)];
    if (result.state == CUBLAS_STATUS_SUCCESS &&
        result.workspaceSize <= static_cast<size_t>(key_.workspace))
      algorithms.push_back(result.algo);
  }
  return algorithms;
}

bool GemmPlan::accepts(const cublasLtMatmulAlgo_t& algorithm) const {
  cublasLtMatmulHeuristicResult_t result = {};
  const cublasStatus_t status =
      cublaslt().MatmulAlgoCheck(cublaslt_handle(), desc_.get(), left_.get(), right_.get(),
                                 result_.get(), result_.get(), &algorithm, &result);
  return status == CUBLAS_STATUS_SUCCESS &&
         result.workspaceSize <= static_cast<size_t>(key_.workspace);
}

cublasStatus_t GemmPlan::run(const CudaGemm& p, const cublasLtMatmulAlgo_t& algorithm,
                             void* stream) {
  if (key_.bias) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias);
  const float beta = key_.sum ? 1 : 0;
  return cublaslt().Matmul(cublaslt_handle(), desc_.get(), &p.alpha, p.b, left_.get(), p.a,
                           right_.get(), &beta, key_.sum ? p.sum : p.c, result_.get(), p.c,
                           result_.get(), &algorithm, p.workspace.data(),
                           static_cast<size_t>(key_.workspace), static_cast<cudaStream_t>(stream));
}

}  // namespace snug::ops
