// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <tessera/core/owned_storage.hpp>
#include <tessera/request/hook.hpp>

#include <cstdio>

struct request : tessera::request_hook {
  int slot = 0;
};

int main() {
  request r;
  r.slot = 7;
  const auto need = tessera::storage_layout{}.add<int>(3).bytes();
  const bool ok = r.slot == 7 && need == tessera::storage_alignment;
  std::printf("tessera %d.%d.%d: %s\n", TESSERA_VERSION_MAJOR, TESSERA_VERSION_MINOR, TESSERA_VERSION_PATCH,
              ok ? "ok" : "wrong");
  return ok ? 0 : 1;
}
