# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Sourced by the other scripts.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"

# A compiler of this library takes up to 1 GB. The number of jobs is that of the cores, limited by the memory.
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
  # Clones share compiled objects: paths below the root are hashed relative to it.
  export CCACHE_BASEDIR="$root" CCACHE_NOHASHDIR=1
  # Precompiled headers need this.
  export CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
fi

# The clang and clang-format that bootstrap installs, or the one named by the environment.
clangxx=${TESSERA_CLANGXX:-clang++-16}
clang_format=${TESSERA_CLANG_FORMAT:-clang-format-16}

# `pip_program NAME PACKAGE==VERSION TEST` installs a program from PyPI that only one test needs. It goes into a virtual
# environment of its own, ${TESSERA_CACHE:-$HOME/.cache/tessera}/NAME. If it is not available, this says so and succeeds: the
# test is then skipped.
pip_program() { # name, requirement, test
  local cache=${TESSERA_CACHE:-${HOME:-/root}/.cache/tessera} why
  if ! why=$(pip_program_in "$cache" "$1" "$2"); then
    rm -rf "${cache:?}/$1"
    echo "${2%%==*} is not available: $why. The test $3 will be skipped." >&2
  fi
}
pip_program_in() { # cache, name, requirement; says why not
  local log prefix=$1/$2
  if ! mkdir -p "$1" || ! log=$(mktemp "$1/$2-log.XXXXXX"); then
    echo "cannot write to $1"
    return 1
  fi 2>/dev/null
  rm -rf "$prefix"
  local failed=
  if ! python3 -m venv "$prefix" >"$log" 2>&1; then
    failed="python3 has no venv ($(tail -n 1 "$log"))"
  else
    echo "Installing $3 into $prefix" >&2
    # A few tries at once and short waits: without a network this must not take long.
    "$prefix/bin/python" -m pip install --quiet --disable-pip-version-check --retries 1 --timeout 15 "$3" >"$log" 2>&1 ||
      failed="pip could not install it ($(tail -n 1 "$log"))"
  fi
  rm -f "$log"
  echo "$failed"
  [ -z "$failed" ]
}
