// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <tessera/sim/report/output_file.hpp>
#include <tessera/sim/report/plots.hpp>

#include <fmt/format.h>

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

/// @file
/// The one picture of a tool, and the script beside it that redraws it.

namespace tool {

/// The places of the picture and its script: FILE.svg, FILE.png, or a folder for both.
class picture {
 public:
  /// Makes the folder, and tests both places.
  /// @param name name of the files in a folder. @param in_folder the picture's format there.
  /// @throws tessera::sim::usage_error @throws tessera::sim::output_error
  picture(const std::string& where, const std::string& name, tessera::sim::plot_format in_folder)
      : image_{where}, format_{in_folder} {
    const auto extension = image_.extension();
    if (extension == ".svg" || extension == ".png") {
      format_ = extension == ".png" ? tessera::sim::plot_format::png : tessera::sim::plot_format::svg;
    } else if (!extension.empty() && !std::filesystem::is_directory(image_)) {
      throw tessera::sim::usage_error{
          fmt::format("a picture is FILE.svg, FILE.png or a folder for it, not {}", tessera::sim::shown(where))};
    } else {
      folder_.emplace(image_);
      image_ /= name + (in_folder == tessera::sim::plot_format::png ? ".png" : ".svg");
    }
    script_ = image_;
    script_.replace_extension(".gp");
    file_.emplace(script_);
  }

  [[nodiscard]] const std::filesystem::path& image() const noexcept { return image_; }
  [[nodiscard]] const std::filesystem::path& script() const noexcept { return script_; }

  /// Writes the script and has gnuplot draw it. @param text the script without its terminal and output. Call once.
  /// @throws tessera::sim::output_error
  void draw(std::string_view text, int height) {
    namespace sim = tessera::sim;
    file_->write(fmt::format("if (!exists('picture')) picture = {}\n{}set output picture\n{}",
                             sim::detail::gnuplot_quoted(image_.filename().string()),
                             sim::detail::script_head(format_, height), text));
    file_->commit();
    sim::draw_script(script_, image_, format_);
  }

 private:
  std::filesystem::path image_;
  std::filesystem::path script_;
  tessera::sim::plot_format format_;
  std::optional<tessera::sim::output_folder> folder_;
  std::optional<tessera::sim::output_file> file_;
};

}  // namespace tool
