// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// @file
/// The one source of the version: CMake, Conan and vcpkg read it from here.

/// Semantic versioning, see CONTRIBUTING.md.
#define TESSERA_VERSION_MAJOR 0
/// Before 1.0.0 a new minor version may change the interface.
#define TESSERA_VERSION_MINOR 1
/// A new patch version does not.
#define TESSERA_VERSION_PATCH 0
