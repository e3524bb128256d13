"""What ncu and compute-sanitizer say, in the forms of their 2025 versions."""

from __future__ import annotations

COLUMNS = (
    '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size","Device",'
    '"CC","dram__bytes_read.sum","dram__bytes_write.sum","dram__throughput.avg.pct_of_peak_sustained_elapsed",'
    '"gpu__time_duration.sum","launch__registers_per_thread","launch__shared_mem_per_block",'
    '"lts__t_sector_hit_rate.pct","sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed",'
    '"sm__throughput.avg.pct_of_peak_sustained_elapsed","sm__warps_active.avg.pct_of_peak_sustained_active"'
)
UNITS = '"","","","","","","","","","","","byte","byte","%","ns","register/thread","byte/block","%","%","%","%"'
NCU = f"""\
==PROF== Connected to process 7 (/usr/bin/python3.11)
==PROF== Profiling "rmsnorm_kernel" - 0: 0%....50%....100% - 9 passes
==PROF== Profiling "tail_kernel" - 1: 0%....50%....100% - 9 passes
==PROF== Disconnected from process 7
{COLUMNS}
{UNITS}
"0","7","python3.11","127.0.0.1","rmsnorm_kernel(const float *, float *, int)","1","7","(256, 1, 1)","(8192, 1, 1)",\
"0","9.0","67,110,000","67,100,000","81.20","40,000","40","1,056","48.31","0","22.50","91.77"
"1","7","python3.11","127.0.0.1","void tail_kernel<float>(T1 *)","1","7","(32, 1, 1)","(1, 1, 1)",\
"0","9.0","4,096","4,096","0.10","2,000","16","0","n/a","0","0.20","1.55"
"""
REFUSALS = [
    (
        "==PROF== Connected to process 7 (/usr/bin/python3.11)\n==ERROR== ERR_NVGPUCTRPERM - The user does not have "
        "permission to access NVIDIA GPU Performance Counters on the target device 0. For instructions on enabling "
        "permissions and to get more information see https://developer.nvidia.com/ERR_NVGPUCTRPERM",
        "NVreg_RestrictProfilingToAdminUsers=0",
    ),
    (
        "==ERROR== Failed to initialize the profiler: LibraryNotLoaded. Check that a compatible driver library "
        "is loaded.",
        "a driver of its own",
    ),
    ("==ERROR== Cuda driver is not compatible with Nsight Compute.", "nvidia-smi"),
    (
        "==ERROR== An error was reported by the driver:\n==ERROR== Profiling failed because a driver resource was "
        "unavailable. Ensure that no other tool (like DCGM) is concurrently collecting profiling data.",
        "dcgmi profile --pause",
    ),
    ("==PROF== Disconnected from process 7\n==WARNING== No kernels were profiled.", "launched no kernel"),
    ("==ERROR== Something new.", "Something new."),
    ("==PROF== Connected to process 7", "it ended with code 1 and said nothing"),
]
CLEAN = "========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors"
MEMCHECK = """\
========= COMPUTE-SANITIZER
========= Invalid __global__ write of size 4 bytes
=========     at scale_kernel(float *, int)+0xd0 in scale.cu:14
=========     by thread (0,0,0) in block (1,0,0)
=========     Access at 0x7f241b0001e0 is out of bounds
=========     and is 33 bytes after the nearest allocation at 0x7f241b000000 of size 448 bytes
=========
========= Invalid __global__ write of size 4 bytes
=========     at scale_kernel(float *, int)+0xd0 in scale.cu:14
=========     by thread (1,0,0) in block (1,0,0)
=========     Access at 0x7f241b0001e4 is out of bounds
=========
Traceback (most recent call last):
RuntimeError: CUDA error: unspecified launch failure
========= Target application returned an error
========= ERROR SUMMARY: 2 errors"""
RACECHECK = """\
========= COMPUTE-SANITIZER
========= Error: Race reported between Write access at ka_race(int *)+0x90 in probe.cu:13
=========     and Read access at ka_race(int *)+0xa0 in probe.cu:14 [2048 hazards]
=========
========= Warning: Race reported between Write access at mild(int *)+0x50
=========     and Write access at mild(int *)+0x50 [4 hazards]
=========
========= RACECHECK SUMMARY: 2 hazards displayed (1 error, 1 warning)"""
INITCHECK = """\
========= COMPUTE-SANITIZER
========= Uninitialized __global__ memory read of size 4 bytes
=========     at load_row(const float *)+0x70
=========     by thread (31,0,0) in block (1,0,0)
=========     Address 0x7f3c7ec000fc
=========         Device Frame: add_kernel(const float *, float *)+0x1f0
=========
========= ERROR SUMMARY: 1 error"""
SYNCCHECK = """\
========= COMPUTE-SANITIZER
========= Barrier error detected. Divergent thread(s) in warp.
=========     at ka_divergent(int *)+0xb0 in probe.cu:20
=========     by thread (0,0,0) in block (0,0,0)
=========
========= ERROR SUMMARY: 1 error"""
OLD = """\
========= COMPUTE-SANITIZER
========= Invalid __shared__ read of size 4 bytes
=========     at 0x1234 in SomeKernel
========= ERROR SUMMARY: 1 error"""
UNKNOWN = """\
========= COMPUTE-SANITIZER
========= Something that nobody has seen before
========= ERROR SUMMARY: 3 errors"""
SANITIZER_REFUSALS = [
    (
        '========= COMPUTE-SANITIZER\n========= Error: Device not supported. Please refer to the "Supported Devices" '
        "section of the sanitizer documentation",
        "a driver of its own",
    ),
    (
        "========= COMPUTE-SANITIZER\n========= Error: No attachable process found. compute-sanitizer timed-out.",
        "run it again on a quieter machine",
    ),
    (
        "========= COMPUTE-SANITIZER\n========= Internal Sanitizer Error: The Sanitizer encountered an error while "
        "initializing device 0",
        "of the driver's CUDA version",
    ),
    (
        "ImportError: libfoo.so.1: cannot open shared object file\n"
        "========= Error: Target application terminated before first instrumented API call",
        "did not play to its end: ImportError: libfoo.so.1",
    ),
]
