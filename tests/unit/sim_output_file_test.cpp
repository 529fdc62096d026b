// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <tessera/sim/input/input.hpp>
#include <tessera/sim/report/output_file.hpp>

#include "support/catch.hpp"
#include "support/temporary_folder.hpp"

#include <cstdint>
#include <filesystem>
#include <string>

#include <unistd.h>

namespace {

namespace sim = tessera::sim;
namespace fs = std::filesystem;
using folder = tessera_test::temporary_folder;

TEST_CASE("an output file is there whole or not at all", "[sim]") {
  const folder dir;
  const fs::path path = dir.path / "out.json";
  {
    sim::output_file f{path};
    CHECK(dir.entries() == 0);  // Tried, and nothing left: a program that is killed meanwhile leaves nothing either.
    f.write("half");
    CHECK_FALSE(fs::exists(path));
  }
  CHECK(dir.entries() == 0);
  {
    sim::output_file f{path};
    f.write("one ");
    f.write("two");
    f.commit();
  }
  CHECK(sim::read_file(path.string()) == "one two");
  CHECK(dir.entries() == 1);
  {
    sim::output_file f{path};
    f.write("other");
  }
  CHECK(sim::read_file(path.string()) == "one two");  // Not touched.
  CHECK(dir.entries() == 1);
}

TEST_CASE("an output file goes through a link, and directly into what is no regular file", "[sim]") {
  const folder dir;
  {
    sim::output_file first{dir.path / "real"};
    first.commit();
  }
  fs::create_symlink(dir.path / "real", dir.path / "link");
  {
    sim::output_file f{dir.path / "link"};
    f.write("x");
    f.commit();
  }
  CHECK(fs::is_symlink(dir.path / "link"));
  CHECK(sim::read_file((dir.path / "real").string()) == "x");
  {
    sim::output_file f{"/dev/null"};
    f.write("x");
    f.commit();
  }
  CHECK(fs::is_character_file("/dev/null"));
  // What a link leads to need not have a path, as a pipe that a shell has opened.
  if (!fs::exists("/dev/fd")) return;
  int ends[2] = {};
  REQUIRE(::pipe(ends) == 0);
  {
    sim::output_file f{fs::path{"/dev/fd"} / std::to_string(ends[1])};
    f.write("through");
    f.commit();
  }
  char read[8] = {};
  CHECK(::read(ends[0], read, sizeof read) == 7);
  CHECK(std::string_view{read} == "through");
  for (const int end : ends) ::close(end);
}

TEST_CASE("a place that cannot be written is an error with its name", "[sim]") {
  const folder dir;
  try {
    sim::output_file f{dir.path / "no" / "such" / "folder.json"};
    FAIL("no error");
  } catch (const sim::output_error& e) {
    const std::string_view what = e.what();
    CHECK(what.find("cannot write ") == 0);
    CHECK(what.find("folder.json: No such file or directory") != what.npos);
  }
  CHECK_THROWS_AS(sim::output_file{dir.path}, sim::output_error);
}

TEST_CASE("a folder for files to come goes again while it is empty", "[sim]") {
  const folder dir;
  {
    const sim::output_folder made{dir.path / "a" / "b" / ""};
    CHECK(fs::is_directory(dir.path / "a" / "b"));
  }
  CHECK(dir.entries() == 0);
  fs::create_directory(dir.path / "old");
  {
    const sim::output_folder old{dir.path / "old"};
    const sim::output_folder made{dir.path / "a" / "b"};
    sim::output_file f{dir.path / "a" / "there"};
    f.commit();
  }
  CHECK(fs::is_directory(dir.path / "old"));
  CHECK(fs::exists(dir.path / "a" / "there"));
  CHECK_FALSE(fs::exists(dir.path / "a" / "b"));
  CHECK_THROWS_AS(sim::output_folder{dir.path / "a" / "there"}, sim::output_error);
  CHECK_THROWS_AS(sim::output_folder{dir.path / "a" / "there" / "below"}, sim::output_error);
  CHECK_THROWS_AS(sim::output_folder{"-"}, sim::output_error);
}

}  // namespace
