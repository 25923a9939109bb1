"""Build of the compiled modules; the metadata is in pyproject.toml.

csrc/kernels/kernels.c is compiled once per instruction set and real type with that set's flags (csrc/isas.json); the
objects are linked into crbm_fast._ckernels, which chooses one at import.  csrc/solver.c is compiled once per real type.
Nothing here looks at the CPU of the machine that builds.

Environment: CRBM_FAST_DEBUG=1 turns Cython's bounds checks on; CRBM_FAST_NO_OPENMP=1 builds without threads;
CRBM_FAST_SANITIZE=address,undefined passes -fsanitize= to compiler and linker.
"""

import json
import os
import re
import sys
import sysconfig
import tempfile
from pathlib import Path

import numpy as np
import scipy.linalg
from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

# {machine: {instruction set: {vector width in bytes, compiler flags}}}
ISAS = json.loads(Path("csrc/isas.json").read_text(encoding="utf-8"))

# No fast-math: a unit whose logit passes +-88 makes infinities on the way.  Contraction gives multiply-adds.
C_FLAGS = ["-std=c11", "-O3", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast", "-fvisibility=hidden"]
CYTHON_FLAGS = ["-O2"]
WARNINGS = ["-Wall", "-Wextra"]

MODULES = ("_ckernels", "_blas", "_threads", "_engine", "_enumeration", "_algebra", "cython_api")
# Plain C beside the kernels, linked into the module that offers it.
C_SOURCES = {
    "crbm_fast.cython_api": ["csrc/embed.c"],
}
INCLUDE = ["csrc", "crbm_fast/include"]
WITH_SOLVER = ("crbm_fast._engine", "crbm_fast.cython_api")
THREADED = [f"crbm_fast.{name}" for name in ("_threads", "_engine", "_algebra")]
HEADERS = [str(p) for folder in INCLUDE for p in sorted(Path(folder).rglob("*.h"))]
DEBUG = os.environ.get("CRBM_FAST_DEBUG") == "1"
SWITCHES = [name for name in os.environ if name in ("CRBM_FAST_DEBUG", "CRBM_FAST_NO_OPENMP", "CRBM_FAST_SANITIZE")]
SANITIZE = [f"-fsanitize={s}" for s in [os.environ.get("CRBM_FAST_SANITIZE")] if s]


def isas():
    """The instruction sets of the machine compiled for; on macOS the compiler may be told several at once."""
    flags = os.environ.get("ARCHFLAGS") or sysconfig.get_config_var("CFLAGS") or ""
    machines = set(re.findall(r"-arch\s+(\w+)", flags)) or {sysconfig.get_platform().rsplit("-", 1)[-1]}
    if len(machines) > 1:
        return ISAS["other"]
    machine = machines.pop().lower()
    return ISAS[{"amd64": "x86_64", "aarch64": "arm64"}.get(machine, machine if machine in ISAS else "other")]


def write_blas_int():
    """_blas_int.pxi: scipy's own integer for BLAS where it declares one."""
    pxd = Path(scipy.linalg.__file__).with_name("cython_blas.pxd").read_text(encoding="utf-8")
    text = "from scipy.linalg.cython_blas cimport blas_int\n" if "blas_int" in pxd else "ctypedef int blas_int\n"
    path = Path("crbm_fast/_blas_int.pxi")
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


class BuildExt(build_ext):
    def build_extensions(self):
        self.force = bool(self.force or SWITCHES)  # timestamps do not know about switches
        openmp = self.openmp_flags()
        for ext in self.extensions:
            threads = openmp if ext.name in THREADED else []
            ext.extra_compile_args = CYTHON_FLAGS + threads + SANITIZE
            ext.extra_link_args = threads + SANITIZE
            sources = C_SOURCES.get(ext.name, [])
            ext.extra_objects = [o for source in sources for o in self.objects(source, self.build_temp)]
            if ext.name in WITH_SOLVER:
                ext.extra_objects += self.solver_objects()
            if ext.name == "crbm_fast._ckernels":
                ext.extra_objects = self.kernel_objects()
        super().build_extensions()

    def openmp_flags(self):
        """The flag that links OpenMP, or none with a note: threads are then off (Apple's clang has no OpenMP)."""
        if os.environ.get("CRBM_FAST_NO_OPENMP") == "1":
            return []
        source = "#include <omp.h>\nint main(void) { return omp_get_max_threads() < 1; }\n"
        with tempfile.TemporaryDirectory() as d:
            c = Path(d, "probe.c")
            c.write_text(source, encoding="utf-8")
            try:
                objects = self.compiler.compile([str(c)], output_dir=d, extra_postargs=["-fopenmp"])
                self.compiler.link_executable(objects, str(Path(d, "probe")), extra_postargs=["-fopenmp"])
            except Exception as error:  # the compiler classes raise many kinds
                print(f"crbm_fast: no OpenMP ({error}); building without threads", file=sys.stderr)
                return []
        return ["-fopenmp"]

    def kernel_objects(self):
        objects = []
        have = [(f"CRBM_HAVE_{isa}", None) for isa in isas()]
        for isa, how in isas().items():
            for bits in (32, 64):
                macros = [("CRBM_ISA", isa), ("CRBM_REAL", str(bits)), ("VBYTES", str(how["bytes"]))]
                output = Path(self.build_temp, f"{isa}_{bits}")
                objects += self.objects("csrc/kernels/kernels.c", output, macros, how["flags"])
        return objects + self.objects("csrc/dispatch.c", self.build_temp, have)

    def solver_objects(self):
        return [
            o
            for bits in (32, 64)
            for o in self.objects("csrc/solver.c", Path(self.build_temp, f"solver_{bits}"), [("CRBM_REAL", str(bits))])
        ]

    def objects(self, source, output, macros=(), flags=()):
        return self.compiler.compile(
            [source],
            output_dir=str(output),
            macros=list(macros),
            include_dirs=INCLUDE,
            extra_postargs=C_FLAGS + WARNINGS + list(flags) + SANITIZE,
            depends=HEADERS,
        )


def extension(name):
    return Extension(
        f"crbm_fast.{name}",
        [f"crbm_fast/{name}.pyx"],
        include_dirs=[*INCLUDE, np.get_include()],
        define_macros=[("NPY_NO_DEPRECATED_API", "NPY_1_7_API_VERSION")],
        # Without these an edited kernel would be recompiled but not relinked, and the old one run.
        depends=[*HEADERS, *map(str, Path("csrc").rglob("*.c")), "csrc/isas.json", "setup.py"],
    )


write_blas_int()
setup(
    cmdclass={"build_ext": BuildExt},
    ext_modules=cythonize(
        [extension(name) for name in MODULES],
        force=bool(SWITCHES),
        compiler_directives={
            "language_level": 3,
            "boundscheck": DEBUG,
            "wraparound": DEBUG,
            "initializedcheck": DEBUG,
            "cdivision": not DEBUG,
            "freethreading_compatible": False,
        },
    ),
)
