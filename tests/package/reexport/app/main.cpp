// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include <engine.hpp>

#include <cstdio>

int main() {
  engine::request r;
  r.prompt = tessera::tokens{100};
  r.max_output = tessera::tokens{3};
  // 100 tokens in steps of 64 are two, the second of which samples the first of the three output tokens.
  const bool ok = engine::run(r) == 4;
  std::printf("tessera %d.%d.%d: %s\n", TESSERA_VERSION_MAJOR, TESSERA_VERSION_MINOR, TESSERA_VERSION_PATCH,
              ok ? "ok" : "wrong");
  return ok ? 0 : 1;
}
