// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// rank: learns from prompts and their output lengths which prompts will take longer.
//
//     rank train --data prompts.jsonl --model lengths.rank
//     rank eval --data others.jsonl --model lengths.rank
//     rank score --data new.jsonl --model lengths.rank
//
// And to see the effect of the order in a server:
//
//     rank score --data others.jsonl --model lengths.rank --output scored.jsonl --trace scored.csv
//     replay --trace scored.csv --rate 40 --policy fcfs,pars,sjf

#include "tool.hpp"

#include <CLI/CLI.hpp>

int main(int argc, char** argv) {
  rank_tool::arguments a;
  CLI::App app{"Learns from prompts and the lengths of their outputs which prompts will take longer."};
  app.require_subcommand(1);

  const auto common = [&](CLI::App& command) {
    command.add_option("--data", a.data, "JSON lines with \"prompt\" and \"output_tokens\" (reasoning included)")
        ->required();
    command.add_option("--embeddings", a.embeddings,
                       "float32 rows of your encoder, one per prompt, as further features");
    command.add_option("--dimension", a.dimension, "floats per row");
    command.add_option("--encoder", a.encoder, "a number for the encoder, kept in the model file")
        ->capture_default_str();
    command.add_flag("--only-embeddings", a.only_embeddings, "leave the text out");
  };
  const auto training = [&](CLI::App& command) {
    command.add_option("--loss", a.loss, "pairwise, pointwise or listwise")
        ->check(CLI::IsMember({"pairwise", "pointwise", "listwise"}))
        ->capture_default_str();
    command.add_option("--delta", a.delta, "leave out pairs of lengths with a smaller relative difference")
        ->check(CLI::Range(0.0, 0.99))
        ->capture_default_str();
    command.add_option("--margin", a.margin, "of the pairwise loss")
        ->check(CLI::Range(1e-6, 1e6))
        ->capture_default_str();
    command.add_option("--hidden", a.hidden, "hidden units; 0: a linear model")
        ->check(CLI::Range(std::size_t{0}, tessera::rank::mlp_model::max_hidden))
        ->capture_default_str();
    command.add_option("--bits", a.bits, "2^bits buckets for the text")
        ->check(CLI::Range(8u, 24u))
        ->capture_default_str();
    command.add_option("--seed", a.seed, "seed of all random draws")->capture_default_str();
  };

  CLI::App& train = *app.add_subcommand("train", "learns a model and writes it to a file");
  common(train);
  training(train);
  train.add_option("--model", a.model, "the file to write")->required();
  train.add_option("--json", a.json, "write the learning curve");
  CLI::Option* const plot =
      train.add_option("--plot", a.plot, "draw the learning curve into this folder (needs gnuplot)");
  train.add_option("--plot-format", a.plot_format, "svg or png")
      ->needs(plot)
      ->check(CLI::IsMember({"svg", "png"}))
      ->capture_default_str();

  CLI::App& eval = *app.add_subcommand("eval", "Kendall's tau-b of a model, or of training itself");
  common(eval);
  training(eval);
  eval.add_option("--model", a.model, "the model to evaluate");
  CLI::Option* const folds = eval.add_option(
      "--folds", a.folds, "instead of --model: number of parts; train on all but one, test on it, for each part");
  for (const char* of_training : {"--loss", "--delta", "--margin", "--hidden", "--bits", "--seed"}) {
    eval.get_option(of_training)->needs(folds);
  }
  eval.add_option("--json", a.json, "write the numbers");

  CLI::App& score =
      *app.add_subcommand("score", "adds a member \"score\" to every line; smaller is expected to be shorter");
  common(score);
  score.add_option("--model", a.model, "the model to score with")->required();
  score.add_option("--output", a.output, "the file to write; - is the standard output")->capture_default_str();
  score.add_option("--trace", a.trace,
                   "write a trace for `replay --policy pars` as well; lines need \"prompt_tokens\" and "
                   "\"output_tokens\", and may have \"arrival_s\" and \"reasoning_tokens\"");

  return tool::run("rank", "fewer prompts, or fewer --bits", app, [&] {
    tool::require_values(argc, argv);
    app.parse(argc, argv);
    if (train.parsed()) rank_tool::train(a);
    if (eval.parsed()) rank_tool::eval(a);
    if (score.parsed()) rank_tool::score(a);
    tool::flush_output();
  });
}
