# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Conan 2. `conan create . -s compiler.cppstd=20` packages the headers and builds test_package against them.
#
# By default the package is headers alone: one package for every compiler and platform. With with_sim, with_replay or
# with_tools it also holds archives, or programs, and depends on all settings.

import os
import re

from conan import ConanFile
from conan.errors import ConanException, ConanInvalidConfiguration
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load, rm

required_conan_version = ">=2.0.9"


def _sim(options):
    """Whether the simulator is in the package."""
    return options.with_sim or options.with_replay or options.with_tools


class Tessera(ConanFile):
    name = "tessera"
    description = "Scheduling policies for LLM serving, as a header-only C++20 library"
    license = "Apache-2.0 WITH LLVM-exception"
    topics = ("llm", "scheduling", "inference", "serving", "header-only")

    settings = "os", "arch", "compiler", "build_type"
    options = {
        "with_sim": [True, False],  # tessera::sim, the simulator: needs fmt and nlohmann_json
        "with_replay": [True, False],  # tessera::replay, the tool with policies of one's own; brings the simulator
        "with_tools": [True, False],  # the programs replay, capacity, plan, rank and calibrate; brings the simulator
        "with_cuda": [True, False],  # tessera::cuda: the headers of the CUDA toolkit, which Conan does not provide
    }
    default_options = {"with_sim": False, "with_replay": False, "with_tools": False, "with_cuda": False}

    exports_sources = "CMakeLists.txt", "LICENSE", "cmake/*", "include/*", "src/*", "tools/*"
    no_copy_source = True

    def set_version(self):
        header = load(self, os.path.join(self.recipe_folder, "include", "tessera", "version.hpp"))
        parts = []
        for part in ("MAJOR", "MINOR", "PATCH"):
            found = re.search(rf"^#define TESSERA_VERSION_{part} (\d+)$", header, re.MULTILINE)
            if not found:
                raise ConanException(f"include/tessera/version.hpp does not define TESSERA_VERSION_{part}")
            parts.append(found.group(1))
        self.version = ".".join(parts)

    def configure(self):
        self.package_type = "static-library" if _sim(self.options) else "header-library"

    def layout(self):
        cmake_layout(self)

    def requirements(self):
        # Headers alone, and our own headers include them.
        headers = {"libs": False, "transitive_headers": True}
        self.requires("boost/[>=1.74.0 <2]", **headers)
        self.requires("range-v3/[>=0.12.0 <1]", **headers)
        if _sim(self.options):
            self.requires("fmt/[>=8 <13]", transitive_headers=True)
            self.requires("nlohmann_json/[>=3.9.0 <4]", **headers)
        if self.options.with_replay or self.options.with_tools:
            self.requires("cli11/[>=2.1.0 <3]", visible=False)
            self.requires("zlib/[>=1.2.11 <2]")
        if self.options.with_tools:
            self.requires("eigen/[>=3.3.7 <4]", visible=False)

    def validate(self):
        try:
            check_min_cppstd(self, 20)
        except ConanInvalidConfiguration as reason:
            raise ConanInvalidConfiguration(f"tessera needs C++20: {reason} (add -s compiler.cppstd=20)") from reason

    def package_id(self):
        if _sim(self.info.options):
            self.info.options.with_sim = True
            del self.info.options.with_cuda
        else:
            self.info.clear()

    def generate(self):
        CMakeDeps(self).generate()
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables["TESSERA_BUILD_TESTS"] = False
        toolchain.cache_variables["TESSERA_BUILD_EXAMPLES"] = False
        toolchain.cache_variables["TESSERA_BUILD_BENCH"] = False
        toolchain.cache_variables["TESSERA_BUILD_DOCS"] = False
        toolchain.cache_variables["TESSERA_BUILD_TOOLS"] = bool(self.options.with_tools)
        toolchain.cache_variables["TESSERA_INSTALL_SIM"] = bool(_sim(self.options))
        toolchain.cache_variables["TESSERA_INSTALL_REPLAY"] = bool(self.options.with_replay)
        toolchain.user_presets_path = False
        toolchain.generate()

    def build(self):
        if _sim(self.options):
            cmake = CMake(self)
            cmake.configure()
            cmake.build()

    def package(self):
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))
        include = os.path.join(self.source_folder, "include")
        for pattern in ("*.hpp", "*.cuh"):
            copy(self, pattern, include, os.path.join(self.package_folder, "include"), excludes="tessera/sim/*")
        package = os.path.join(self.package_folder, "share", "cmake", "tessera")
        copy(self, "tesseraCuda.cmake", os.path.join(self.source_folder, "cmake"), package)
        parts = {"sim": _sim(self.options), "replay": self.options.with_replay, "tools": self.options.with_tools}
        for component, wanted in parts.items():
            if wanted:
                CMake(self).install(component=component)
        rm(self, "*Targets*.cmake", package)  # CMakeDeps makes its own
        if self.options.with_tools and not os.path.isdir(os.path.join(self.package_folder, "bin")):
            raise ConanException("no tool was installed")

    def package_info(self):
        self.cpp_info.set_property("cmake_file_name", "tessera")

        library = self.cpp_info.components["tessera"]
        library.set_property("cmake_target_name", "tessera::tessera")
        library.set_property("pkg_config_name", "tessera")
        library.requires = self._targets("boost::headers", "range-v3::range-v3")
        components = [library]

        if _sim(self.options):
            sim = self.cpp_info.components["sim"]
            sim.set_property("cmake_target_name", "tessera::sim")
            sim.libs = ["tessera_sim"]
            # As CMake compiles the archive: see include/tessera/config.hpp.
            unchecked = self.settings.build_type in ("Release", "RelWithDebInfo", "MinSizeRel")
            sim.defines = [f"TESSERA_CHECKED={0 if unchecked else 1}"]
            sim.requires = ["tessera"] + self._targets("fmt::fmt", "nlohmann_json::nlohmann_json")
            sim.system_libs = self._system_libs(fmt="fmt")
            components.append(sim)
        if self.options.with_replay:
            replay = self.cpp_info.components["replay"]
            replay.set_property("cmake_target_name", "tessera::replay")
            replay.libs = ["tessera_replay"]
            replay.requires = ["sim"] + self._targets("zlib::zlib")
            replay.system_libs = self._system_libs(zlib="z")
            components.append(replay)
        if self.options.with_cuda:
            cuda = self.cpp_info.components["cuda"]
            cuda.set_property("cmake_target_name", "tessera::cuda")
            cuda.requires = ["tessera"]
            self.cpp_info.set_property("cmake_build_modules", ["share/cmake/tessera/tesseraCuda.cmake"])
            components.append(cuda)

        for component in components:
            component.includedirs = ["include"]
            component.bindirs = []
            component.libdirs = ["lib"] if component.libs else []
        if self.options.with_tools:
            programs = os.path.join(self.package_folder, "bin")
            self.buildenv_info.prepend_path("PATH", programs)
            self.runenv_info.prepend_path("PATH", programs)

    # What the profile's platform_requires provide has no targets: the compiler and the linker find it by themselves.
    def _targets(self, *names):
        return [name for name in names if name.partition("::")[0] in self.dependencies]

    def _system_libs(self, **names):
        return [library for package, library in names.items() if package not in self.dependencies]
