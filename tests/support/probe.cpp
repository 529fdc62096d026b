// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Compiled so that the build system says where the headers of the library and of its dependencies are.
#include <tessera/version.hpp>

static_assert(TESSERA_VERSION_MAJOR >= 0);
