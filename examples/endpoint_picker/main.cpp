// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// endpoint_picker: chooses the vLLM server for each request of a gateway that speaks Envoy's ext_proc, as the Gateway
// API Inference Extension has it. See README.md.
//
//     SIGHUP            reads the file of endpoints again, as happens when it changes
//     SIGUSR1           says the state of the book, one line of JSON
//     SIGTERM, SIGINT   no new streams; those that are there end, or are cut off after --drain; then 0

#include "../../tools/tool.hpp"
#include "controllers.hpp"
#include "endpoints.hpp"
#include "picker.hpp"
#include "scraper.hpp"
#include "server.hpp"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <sys/stat.h>
#include <atomic>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <string>
#include <system_error>
#include <thread>
#include <tuple>
#include <utility>

namespace {

using namespace endpoint_picker;

void say(const std::string& what) {
  static_cast<void>(std::fputs(fmt::format("endpoint_picker: {}\n", what).c_str(), stderr));
}

/// What changes when a file does; a link that is set to another file as well.
std::tuple<std::uint64_t, std::int64_t, std::int64_t, std::int64_t> look_of(const std::string& path) {
  struct stat s {};
  if (::stat(path.c_str(), &s) != 0) return {};
  return {s.st_ino, s.st_mtim.tv_sec, s.st_mtim.tv_nsec, s.st_size};
}

template <class T>
void require(T least, T most, T is, const char* option) {
  if (!(least <= is && is <= most)) {
    throw tessera::sim::usage_error{fmt::format("{}: a number from {} to {} is expected", option, least, most)};
  }
}

/// gRPC would take the port modulo 65536.
void require_address(const std::string& listen) {
  const std::size_t colon = listen.rfind(':');
  const char* const end = listen.data() + listen.size();
  int port = -1;
  const char* const begin = colon == listen.npos ? end : listen.data() + colon + 1;
  const auto [last, failure] = std::from_chars(begin, end, port);
  if (begin == end || colon == 0 || failure != std::errc{} || last != end || port < 0 || port > 65'535) {
    throw tessera::sim::usage_error{
        fmt::format("--listen: IP:PORT with a port from 0 to 65535 is expected, not {}", tessera::sim::shown(listen))};
  }
}

}  // namespace

int main(int argc, char** argv) {
  picker_settings choose;
  server::settings serve;
  scraper::settings scrape;
  std::string file;
  double silence = choose.silence.seconds();
  double lease = 0;
  double request_silence = serve.each.request_silence.seconds();
  double request_time = serve.each.request_time.seconds();
  double answer_silence = serve.each.answer_silence.seconds();
  double interval = 1;
  double patience = scrape.patience.seconds();
  double drain = 30;
  std::int64_t block_size = choose.block_size.count();

  CLI::App app{"Chooses an endpoint for each request of a gateway (Envoy ext_proc, endpoint picker protocol 1.0)"};
  app.set_version_flag("--version", tool::version());
  app.option_defaults()->always_capture_default();
  app.add_option("--endpoints", file, "JSON file of the endpoints; read again when it changes")->required();
  app.add_option("--listen", serve.listen, "IP:PORT for gRPC; port 0: any that is free");
  app.add_option("--controller,--policy", choose.policy,
                 "One of " + fmt::format("{}", fmt::join(controller_names(), ", ")));
  app.add_option("--seed", choose.seed, "For controllers that draw: another one for each picker");
  const CLI::Option* expected_given = app.add_option(
      "--expected", choose.expected, "fill-to-level: requests that other pickers send between report and choice");
  app.add_option("--choices", choose.choices, "Endpoints that are named for a request, the best first");
  app.add_option("--reasons", choose.reasons, "Whether requests that do not say so reason first");
  app.add_flag("--alone", choose.alone,
               "No other picker sends to these endpoints: loads are those of this picker's own book");
  app.add_option("--bytes-per-token", choose.bytes_per_token,
                 "Bytes of a prompt for each token, until answers have told");
  app.add_option("--block-size", block_size, "Tokens of a block in the book, whatever engines have");
  app.add_option("--shed-kv", choose.shed_kv, "Share of its KV, from 0 to 1, from which an endpoint is busy");
  app.add_option("--shed-waiting", choose.shed_waiting, "Requests in its queue from which an endpoint is busy");
  app.add_option("--silence", silence, "Seconds without metrics after which others are preferred");
  app.add_option("--lease", lease,
                 "Seconds without a message about a request after which it is given back; 0: by --answer-silence");
  app.add_option("--metrics-path", scrape.path, "Path of the engines' metrics");
  app.add_option("--scrape-interval", interval, "Seconds between two looks at metrics");
  app.add_option("--scrape-patience", patience, "Seconds for an answer");
  app.add_option("--metrics-at-most", scrape.most, "Bytes of an answer");
  app.add_option("--endpoints-at-most", choose.endpoints, "In the file");
  app.add_option("--streams-at-most", serve.streams, "At a time");
  app.add_option("--message-at-most", serve.message, "Bytes of a message");
  app.add_option("--body-at-most", serve.each.body, "Bytes of a request's body: else 413");
  app.add_option("--headers-at-most", serve.each.headers, "Bytes of a request's headers: else 431");
  app.add_option("--buffered-at-most", choose.buffered, "Bytes of bodies of all requests at a time: else 503");
  app.add_option("--request-silence", request_silence, "Seconds between two messages of a request: else 408");
  app.add_option("--request-time", request_time, "Seconds for all of a request: else 408");
  app.add_option("--answer-silence", answer_silence, "Seconds until an answer begins, and between its messages");
  app.add_option("--drain", drain, "Seconds for streams to end after SIGTERM");
  app.add_option("--tls-certificate", serve.certificate, "PEM file; without: no TLS");
  app.add_option("--tls-key", serve.key, "PEM file");

  return tool::run("endpoint_picker", "smaller limits", app, [&] {
    tool::require_values(argc, argv);
    app.parse(argc, argv);
    require<double>(0.001, 1e6, silence, "--silence");
    require<double>(0, 1e6, lease, "--lease");
    require<double>(0.001, 1e6, request_silence, "--request-silence");
    require<double>(0.001, 1e6, request_time, "--request-time");
    require<double>(0.001, 1e6, answer_silence, "--answer-silence");
    require<double>(0.001, 1e6, interval, "--scrape-interval");
    require<double>(0.001, 1e6, patience, "--scrape-patience");
    require<double>(0, 1e6, drain, "--drain");
    require<double>(0.1, 100, choose.bytes_per_token, "--bytes-per-token");
    require<double>(0, 1, choose.shed_kv, "--shed-kv");
    require<double>(0, 1e6, choose.expected, "--expected");
    const std::string asked = std::exchange(choose.policy, name_now(choose.policy));
    const tessera::sim::named_controller* const by = tessera::sim::find_controller(choose.policy);
    if (by == nullptr) {
      throw tessera::sim::usage_error{fmt::format("--controller: one of {} is expected, not {}",
                                                  fmt::join(controller_names(), ", "), tessera::sim::shown(asked))};
    }
    if (expected_given->count() != 0 && choose.policy != "fill-to-level") {
      throw tessera::sim::usage_error{fmt::format("--expected goes with --controller fill-to-level, not with {}",
                                                  tessera::sim::shown(choose.policy))};
    }
    require<std::int64_t>(1, 1 << 20, block_size, "--block-size");
    require<std::size_t>(1, 64, choose.choices, "--choices");
    require<std::size_t>(1, 100'000, choose.endpoints, "--endpoints-at-most");
    require<std::size_t>(1, 1'000'000, serve.streams, "--streams-at-most");
    require<std::size_t>(1 << 10, 1 << 30, serve.message, "--message-at-most");
    require<std::size_t>(1 << 10, 1 << 30, scrape.most, "--metrics-at-most");
    require<std::size_t>(1, std::size_t{1} << 40U, serve.each.body, "--body-at-most");
    require<std::size_t>(1, 1 << 30, serve.each.headers, "--headers-at-most");
    require<std::size_t>(1, std::size_t{1} << 40U, choose.buffered, "--buffered-at-most");
    require_address(serve.listen);
    if (!scrape.path.starts_with('/')) {
      throw tessera::sim::usage_error{fmt::format("--metrics-path: a path that begins with / is expected, not {}",
                                                  tessera::sim::shown(scrape.path))};
    }
    if (serve.certificate.empty() != serve.key.empty()) {
      throw tessera::sim::usage_error{"--tls-certificate and --tls-key are expected together"};
    }
    choose.silence = tessera::duration{silence};
    choose.lease = tessera::duration{lease > 0 ? lease : answer_silence + request_time};
    choose.block_size = tessera::tokens{block_size};
    choose.requests = serve.streams;
    serve.each.request_silence = tessera::duration{request_silence};
    serve.each.request_time = tessera::duration{request_time};
    serve.each.answer_silence = tessera::duration{answer_silence};
    scrape.patience = tessera::duration{patience};

    // Signals are for this thread alone, which waits for them.
    sigset_t signals;
    sigemptyset(&signals);
    for (const int s : {SIGTERM, SIGINT, SIGHUP, SIGUSR1}) sigaddset(&signals, s);
    pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    static_cast<void>(std::signal(SIGPIPE, SIG_IGN));

    picker book{choose};
    if (asked != choose.policy) say(fmt::format("--controller {} is now --controller {}", asked, choose.policy));
    say(describe(*by));
    auto look = look_of(file);
    book.list(read_endpoints(file, tessera::sim::read_file(file), choose.endpoints));
    server runs{book, serve};
    std::printf("listening on port %d\n", runs.port());
    tool::flush_output();

    std::atomic<bool> ends{false};
    std::thread reads{[&] {
      scraper s{book, scrape, say};
      tessera::time_point next = now();
      while (!ends) {
        if (now() < next) {
          std::this_thread::sleep_for(std::chrono::milliseconds{5});
          continue;
        }
        next = now() + tessera::duration{interval};
        s.round([&] { return ends.load(); });
      }
    }};
    std::thread ticks{[&] {
      while (!ends) {
        std::this_thread::sleep_for(std::chrono::milliseconds{50});
        book.tick(now());
        runs.tick();
      }
    }};
    const auto reload = [&] {
      look = look_of(file);
      try {
        book.list(read_endpoints(file, tessera::sim::read_file(file), choose.endpoints));
        say("read " + file);
      } catch (const std::exception& wrong) {
        say(fmt::format("{}; the endpoints are as they were", wrong.what()));
      }
    };
    tessera::time_point looked = now();
    for (bool goes_on = true; goes_on;) {
      constexpr timespec a_moment{0, 200'000'000};
      switch (sigtimedwait(&signals, nullptr, &a_moment)) {
        case SIGTERM:
        case SIGINT: goes_on = false; break;
        case SIGHUP: reload(); break;
        case SIGUSR1: {
          nlohmann::ordered_json state = book.state();
          state["streams"] = runs.streams();
          std::printf("%s\n", state.dump().c_str());
          static_cast<void>(std::fflush(stdout));
          break;
        }
        default: break;
      }
      if (now() - looked < tessera::duration{0.2}) continue;
      looked = now();
      if (look_of(file) != look) reload();
    }
    say("drains");
    runs.drain(tessera::duration{drain});
    ends = true;
    reads.join();
    ticks.join();
    say(fmt::format("has ended; in the book: {}", book.size()));
  });
}
