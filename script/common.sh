# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Sourced by the other scripts.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"

# A compiler of this library takes up to 1 GB: as many at once as there are cores, but not more than memory allows.
jobs() {
  local cores memory_kb
  cores=$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)
  memory_kb=$(awk '/MemAvailable/ {print $2}' /proc/meminfo 2>/dev/null || true)
  if [ -n "${memory_kb:-}" ] && [ $((memory_kb / 1048576)) -lt "$cores" ]; then cores=$((memory_kb / 1048576)); fi
  if [ "$cores" -lt 1 ]; then cores=1; fi
  echo "${TESSERA_JOBS:-$cores}"
}

if command -v ccache >/dev/null 2>&1 && [ -z "${CMAKE_CXX_COMPILER_LAUNCHER:-}" ]; then
  export CMAKE_CXX_COMPILER_LAUNCHER=ccache
  # What one clone has compiled, another need not: paths below the root are hashed relative to it.
  export CCACHE_BASEDIR="$root" CCACHE_NOHASHDIR=1
  # What precompiled headers ask for.
  export CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
fi

# The clang and clang-format that bootstrap installs, or the one named by the environment.
clangxx=${TESSERA_CLANGXX:-clang++-16}
clang_format=${TESSERA_CLANG_FORMAT:-clang-format-16}
