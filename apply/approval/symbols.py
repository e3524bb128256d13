"""What a native kernel may ask of the host: an allow-list of the symbols and libraries that its shared object imports.

A kernel computes on memory that it was given. It needs the allocator, mathematics, threads of its compiler's runtime
and its binding; it needs no file, socket, process, dynamic loader or environment. This is no sandbox (code can make
system calls without any symbol): it keeps honest mistakes and plain reach out, and the operator's approval does the
rest.
"""

from __future__ import annotations

import re
from pathlib import Path

from kernelmill.apply.errors import ApplyError

LIBRARIES = re.compile(
    r"(libtvm_ffi|libstdc\+\+|libm|libgcc_s|libgomp|libomp|libc|libmvec|libpthread|ld-linux-[\w-]+|libtorch(_cpu|_cuda|_python)?"
    r"|libc10(_cuda)?|libcudart|libcublas(Lt)?|libcuda)\.so(\.\d+)*"
)
SYMBOLS = re.compile(
    r"_Z.*"  # C++: of the libraries above only
    r"|TVMFFI\w+|__tvm_ffi\w*|Py\w+|_Py\w+"
    r"|GOMP_\w+|omp_get_\w+|omp_in_parallel|__kmpc_\w+"
    r"|__cxa_\w+|__gxx_personality_v0|_Unwind_\w+|__dso_handle|__gmon_start__|_ITM_\w+|__stack_chk_fail|__tls_get_addr"
    r"|malloc|calloc|realloc|free|aligned_alloc|posix_memalign|abort|__assert_fail|__errno_location"
    r"|mem(cpy|move|set|cmp|chr|rchr)|__mem(cpy|move|set)_chk|str(len|nlen|cmp|ncmp|chr|rchr|cpy|ncpy|dup)"
    r"|(__)?v?snprintf(_chk)?"
    r"|a?(sin|cos|tan)h?f?|atan2f?|exp(2|m1)?f?|log(2|10|1p|b)?f?|powf?|sqrtf?|cbrtf?|hypotf?|erfc?f?|[lt]gammaf?|fm(a|in|ax|od)f?"
    r"|(floor|ceil|round|rint|nearbyint|trunc|fabs|ldexp|frexp|scalbn|copysign|modf|nextafter)f?|l?l(round|rint)f?"
    r"|sincosf?|__\w+_finite|_ZGV\w+|qsort|bsearch|(cuda|cu|cublas)[A-Z]\w*|__cuda\w+"
    r"|pthread_(once|mutex_\w+|key_\w+|[gs]etspecific|cond_\w+|self|equal)|__pthread_key_create"
)
FORBIDDEN_CXX = re.compile(r"_Z\w*(basic_[io]?fstream|basic_filebuf|filesystem|6thread|5async|random_device)\w*")
"""Parts of the C++ library that open files, start threads or ask the system."""


def check_symbols(library: Path) -> list[str]:
    """The symbols it imports. Raises ApplyError for one that a kernel has no need of, or a file that is no library."""
    from elftools.common.exceptions import ELFError
    from elftools.elf.dynamic import DynamicSection
    from elftools.elf.elffile import ELFFile
    from elftools.elf.sections import SymbolTableSection

    try:
        with library.open("rb") as file:
            elf = ELFFile(file)
            dynamic, table = elf.get_section_by_name(".dynamic"), elf.get_section_by_name(".dynsym")
            if not isinstance(dynamic, DynamicSection) or not isinstance(table, SymbolTableSection):
                raise ApplyError(f"{library.name} has no dynamic section, so what it imports cannot be told")
            needed = [str(getattr(tag, "needed", "")) for tag in dynamic.iter_tags() if tag.entry.d_tag == "DT_NEEDED"]
            imported = sorted(
                symbol.name for symbol in table.iter_symbols() if symbol.entry.st_shndx == "SHN_UNDEF" and symbol.name
            )
    except (OSError, ELFError) as error:
        raise ApplyError(f"{library} is no shared object: {error}") from error
    strange = [name for name in needed if not LIBRARIES.fullmatch(name)]
    strange += [name for name in imported if not SYMBOLS.fullmatch(name) or FORBIDDEN_CXX.fullmatch(name)]
    if strange:
        raise ApplyError(
            f"{library.name} imports {', '.join(strange[:8])}{' …' if len(strange) > 8 else ''}: "
            "a kernel that computes on given memory needs none of that; it is not approved"
        )
    return imported
