# SPDX-License-Identifier: Apache-2.0
"""The one thing that pyproject.toml cannot say: a compiled CSV reader that may fail to build.

It is built for the stable interface, so one wheel serves every Python from 3.11; without a compiler the
package installs all the same and reads with numba. No processor is named: it looks when it runs.
"""

from setuptools import Extension, setup

FOLDER = "src/joulelab/data"

setup(
    ext_modules=[
        Extension(
            "joulelab.data._csv_native",
            sources=[f"{FOLDER}/_csv_{part}.c" for part in ("native", "portable", "avx512", "avx2")],
            depends=[f"{FOLDER}/_csv_native.h"],
            # A product and a sum fused into one operation would round differently on some processors.
            extra_compile_args=["-O3", "-std=gnu11", "-ffp-contract=off", "-fvisibility=hidden"],
            libraries=["m"],
            py_limited_api=True,
            optional=True,
        )
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
