# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# Conan 2. `conan create . -s compiler.cppstd=20` packages the headers and builds test_package against them.
#
# Without the tools the package is headers alone: one package for every compiler, platform and set of options. With
# -o with_tools=True it holds the programs replay, capacity, plan, rank and calibrate as well, and then it is one package
# for each platform.

import os
import re

from conan import ConanFile
from conan.errors import ConanException, ConanInvalidConfiguration
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load

required_conan_version = ">=2.0.9"


class Tessera(ConanFile):
    name = "tessera"
    description = "Scheduling policies for LLM serving, as a header-only C++20 library"
    license = "Apache-2.0 WITH LLVM-exception"
    topics = ("llm", "scheduling", "inference", "serving", "header-only")

    package_type = "header-library"
    settings = "os", "arch", "compiler", "build_type"
    options = {
        "with_sim": [True, False],  # tessera::sim, the simulator: needs fmt and nlohmann_json
        "with_replay": [True, False],  # tessera::replay, the tool with policies of one's own; brings the simulator
        "with_tools": [True, False],  # the programs replay, capacity, plan, rank and calibrate; brings the simulator
        "with_cuda": [True, False],  # tessera::cuda: the headers of the CUDA toolkit, which Conan does not provide
    }
    default_options = {"with_sim": False, "with_replay": False, "with_tools": False, "with_cuda": False}

    exports_sources = "CMakeLists.txt", "LICENSE", "cmake/*", "include/*", "tools/*", "examples/policies/*"
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

    @property
    def _sim(self):
        return self.options.with_sim or self.options.with_replay or self.options.with_tools

    def layout(self):
        cmake_layout(self)

    def requirements(self):
        # Headers alone, and our own headers include them.
        headers = {"libs": False, "transitive_headers": True}
        self.requires("boost/[>=1.74.0 <2]", **headers)
        self.requires("range-v3/[>=0.12.0 <1]", **headers)
        if self._sim:
            self.requires("fmt/[>=8 <13]", transitive_headers=True)
            self.requires("nlohmann_json/[>=3.9.0 <4]", **headers)
        if self.options.with_replay:
            self.requires("cli11/[>=2.1.0 <3]", **headers)
        elif self.options.with_tools:
            self.requires("cli11/[>=2.1.0 <3]", visible=False)
        if self.options.with_tools:
            self.requires("eigen/[>=3.3.7 <4]", visible=False)

    def validate(self):
        try:
            check_min_cppstd(self, 20)
        except ConanInvalidConfiguration as reason:
            raise ConanInvalidConfiguration(f"tessera needs C++20: {reason} (add -s compiler.cppstd=20)") from reason

    def package_id(self):
        if self.info.options.with_tools:
            # Programs: what they were made of is inside them.
            del self.info.settings.build_type
            del self.info.options.with_sim
            del self.info.options.with_replay
            del self.info.options.with_cuda
            self.info.requires.clear()
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
        toolchain.user_presets_path = False
        toolchain.generate()

    def build(self):
        if self.options.with_tools:
            cmake = CMake(self)
            cmake.configure()
            cmake.build()

    def package(self):
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))
        include = os.path.join(self.source_folder, "include")
        for pattern in ("*.hpp", "*.cuh"):
            copy(self, pattern, include, os.path.join(self.package_folder, "include"))
        package = os.path.join(self.package_folder, "share", "cmake", "tessera")
        for module in ("tesseraCuda.cmake", "tesseraReplay.cmake"):
            copy(self, module, os.path.join(self.source_folder, "cmake"), package)
        copy(self, "policies/policies.cpp", os.path.join(self.source_folder, "examples"), os.path.join(package, "tools"))
        for source in ("tool.hpp", "replay/replay.cpp", "replay/*.hpp"):
            copy(self, source, os.path.join(self.source_folder, "tools"), os.path.join(package, "tools"))
        if self.options.with_tools:
            CMake(self).install(component="tools")
            if not os.path.isdir(os.path.join(self.package_folder, "bin")):
                raise ConanException("no tool was installed")

    def package_info(self):
        self.cpp_info.set_property("cmake_file_name", "tessera")

        library = self.cpp_info.components["tessera"]
        library.set_property("cmake_target_name", "tessera::tessera")
        library.set_property("pkg_config_name", "tessera")
        library.requires = self._targets("boost::headers", "range-v3::range-v3")
        components = [library]

        modules = []
        if self._sim:
            sim = self.cpp_info.components["sim"]
            sim.set_property("cmake_target_name", "tessera::sim")
            sim.requires = ["tessera"] + self._targets("fmt::fmt", "nlohmann_json::nlohmann_json")
            components.append(sim)
        if self.options.with_cuda:
            cuda = self.cpp_info.components["cuda"]
            cuda.set_property("cmake_target_name", "tessera::cuda")
            cuda.requires = ["tessera"]
            modules.append("share/cmake/tessera/tesseraCuda.cmake")
            components.append(cuda)
        if self.options.with_replay:
            # A part of its own, so that CMakeDeps looks for CLI11; the module makes tessera::replay of it.
            cli = self.cpp_info.components["replay_options"]
            cli.set_property("cmake_target_name", "tessera::replay_options")
            cli.requires = self._targets("cli11::cli11") + ["sim"]
            modules.append("share/cmake/tessera/tesseraReplay.cmake")
            components.append(cli)
        if modules:
            self.cpp_info.set_property("cmake_build_modules", modules)

        for component in components:
            component.includedirs = ["include"]
            component.bindirs = []
            component.libdirs = []
        if self.options.with_tools:
            programs = os.path.join(self.package_folder, "bin")
            self.buildenv_info.prepend_path("PATH", programs)
            self.runenv_info.prepend_path("PATH", programs)

    def _targets(self, *names):
        # What the profile's platform_requires provide has no targets: the compiler finds it by itself.
        return [name for name in names if name.partition("::")[0] in self.dependencies]
