# SPDX-License-Identifier: MIT
"""What pyproject.toml cannot say: bpf/, which is no Python, goes into the package (capture/source.py)."""

from setuptools import find_packages, setup

setup(
    packages=[*find_packages("src"), "panthor_trace.bpf"],
    package_dir={"": "src", "panthor_trace.bpf": "bpf"},
)
