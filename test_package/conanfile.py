# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

import os

from conan import ConanFile
from conan.tools.build import can_run
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout


class TestPackage(ConanFile):
    settings = "os", "arch", "compiler", "build_type"
    generators = "CMakeDeps"

    def requirements(self):
        self.requires(self.tested_reference_str)

    def layout(self):
        cmake_layout(self)

    def generate(self):
        tested = self.dependencies[self.tested_reference_str]
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables["EXPECTED_VERSION"] = str(tested.ref.version)
        options = tested.options
        toolchain.cache_variables["WITH_SIM"] = bool(options.with_sim or options.with_replay or options.with_tools)
        toolchain.cache_variables["WITH_REPLAY"] = bool(options.with_replay)
        toolchain.cache_variables["WITH_CUDA"] = bool(options.with_cuda)
        toolchain.user_presets_path = False
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def test(self):
        if not can_run(self):
            return
        for program in ("schedule", "simulate", "compare"):
            path = os.path.join(self.cpp.build.bindir, program)
            if os.path.exists(path):
                self.run(path, env="conanrun")
        if self.dependencies[self.tested_reference_str].options.with_tools:
            self.run("replay --help", env="conanrun")
