#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""plot.py [--check] [--out FOLDER] [PAGE...]

Draws the pictures of the pages beside this file from the CSV files of each page: PAGE/NAME.svg. Without a page, all.
Bars and whiskers are means with their 95 % intervals, unless the picture says otherwise.

--check draws into a temporary folder and compares with the pictures that are here.
--out writes to FOLDER/PAGE instead.
Exit codes: 0 done, 1 a picture differs, 2 misuse, 77 matplotlib VERSION is not here (`script/plots` installs it).
"""
import argparse
import csv
import math
import os
import pathlib
import re
import sys
import tempfile

VERSION = "3.10.7"
HERE = pathlib.Path(__file__).resolve().parent
INK = "#444444"
COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#c98a00", "#4aa3df", "#666666", "#a6761d"]
# Browsers show a picture inverted where dark colours are wanted, as the project's other pictures are.
DARK = "<style>@media (prefers-color-scheme: dark) { svg { filter: invert(1) hue-rotate(180deg); } }</style>"
FONT = "font-family=\"Verdana, 'DejaVu Sans', sans-serif\""


def rows(name, **where):
    """The rows of PAGE/NAME.csv in which each column of `where` has the value, or one of the values."""
    with open(HERE / f"{name}.csv", encoding="utf-8", newline="") as f:
        found = list(csv.DictReader(f))
    for column, wanted in where.items():
        wanted = [wanted] if isinstance(wanted, str) else wanted
        found = [r for r in found if r[column] in wanted]
    if not found:
        raise SystemExit(f"{name}.csv has no row with {where}")
    return found


def number(row, column):
    """A cell's number; NaN if it is empty."""
    return float(row[column]) if row[column] else math.nan


def half(row, column):
    """Half of the 95 % interval of a column; 0 if it has none."""
    text = row.get(f"{column}_ci95") or ""
    return float(text) if text else 0.0


def unique(found, column):
    """The values of a column in the order of the rows."""
    return list(dict.fromkeys(r[column] for r in found))


class Drawing:
    """The figures of one page."""

    def __init__(self, out):
        import matplotlib

        matplotlib.use("svg")
        matplotlib.rcParams.update({
            "svg.hashsalt": "tessera", "svg.fonttype": "none", "font.family": "sans-serif", "font.size": 9,
            "axes.titlesize": 9, "axes.labelsize": 9, "xtick.labelsize": 8, "ytick.labelsize": 8, "legend.fontsize": 8,
            "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "grid.color": "#dddddd",
            "grid.linewidth": 0.6, "axes.axisbelow": True, "axes.edgecolor": INK, "xtick.color": INK,
            "ytick.color": INK, "text.color": "#222222", "axes.labelcolor": "#222222", "legend.frameon": False,
            "lines.linewidth": 1.4, "lines.markersize": 3.5, "errorbar.capsize": 0, "path.simplify": True,
        })
        from matplotlib import pyplot

        self.pyplot = pyplot
        self.out = out

    def axes(self, across, down=1, height=2.9, width=9.0, **more):
        figure, grid = self.pyplot.subplots(down, across, figsize=(width, height * down), squeeze=False, **more)
        return figure, [ax for line in grid for ax in line]

    def save(self, figure, name, legend=None, columns=6):
        """Writes a figure, with one legend of all its curves below it."""
        below = 0.0
        if legend:
            lines = math.ceil(len(legend[1]) / columns)
            below = (0.12 + 0.2 * lines) / figure.get_figheight()
            figure.legend(*legend, loc="lower center", ncols=columns)
        figure.tight_layout(rect=(0, below, 1, 1))
        path = self.out / f"{name}.svg"
        path.parent.mkdir(parents=True, exist_ok=True)
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure.savefig(path, format="svg", metadata=nothing)
        self.pyplot.close(figure)
        path.write_text(compact(path.read_text(encoding="utf-8")), encoding="utf-8")


def compact(svg):
    """The same picture in fewer bytes: coordinates to a hundredth of a point, a line for each group of elements."""
    svg = re.sub(r"<!DOCTYPE[^>]*>\s*", "", svg)
    svg = re.sub(r"\s+", " ", svg)
    svg = re.sub(r"-?\d+\.\d{3,}", lambda m: f"{float(m.group(0)):.2f}".rstrip("0").rstrip("."), svg)
    svg = re.sub(r"(<svg [^>]*)>", lambda m: f"{m.group(1)} {FONT}>{DARK}", svg, count=1)
    svg = re.sub(r"font-family: [^;]*; |font-family: [^;\"]*(?=\")| transform=\"rotate\(-0 [^)]*\)\"", "", svg)
    svg = re.sub(r"> (?=<)", ">", svg)
    svg = re.sub(r"(</g>)(?=<g id=\"(?:axes|legend|patch|line2d|LineCollection|matplotlib|xtick|ytick))", r"\1\n", svg)
    return svg.strip() + "\n"


# -- kinds of pictures -------------------------------------------------------------------------------------------------


def log(axis):
    """A logarithmic axis with plain numbers at 1, 2 and 5."""
    from matplotlib import ticker

    (axis.axes.set_xscale if axis.axis_name == "x" else axis.axes.set_yscale)("log")
    low, high = sorted(axis.get_view_interval())
    axis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5) if high / low < 300 else (1,)))
    axis.set_major_formatter(ticker.FuncFormatter(lambda x, _: f"{x:,g}"))
    axis.set_minor_locator(ticker.NullLocator())


def curves(ax, found, by, x, y, names=None, scale=1.0):
    """A line with whiskers for each value of `by`."""
    for i, name in enumerate(names or unique(found, by)):
        mine = [r for r in found if r[by] == name]
        ax.errorbar([number(r, x) for r in mine], [scale * number(r, y) for r in mine],
                    yerr=[scale * half(r, y) for r in mine], marker="o", label=name, color=COLOURS[i % len(COLOURS)])


def bars(ax, labels, groups, horizontal=False):
    """Bars beside each other: `groups` is a list of (name, values, half widths)."""
    size = 0.8 / len(groups)
    for i, (name, values, halves) in enumerate(groups):
        at = [k + (i - (len(groups) - 1) / 2) * size for k in range(len(labels))]
        colour = COLOURS[i % len(COLOURS)]
        whiskers = halves if halves and any(halves) else None
        look = {"label": name, "color": colour, "error_kw": {"elinewidth": 0.8, "ecolor": INK}}
        if horizontal:
            ax.barh(at, values, size, xerr=whiskers, **look)
        else:
            ax.bar(at, values, size, yerr=whiskers, **look)
    if horizontal:
        ax.set_yticks(range(len(labels)), labels)
        ax.invert_yaxis()
        ax.grid(axis="y", visible=False)
    else:
        ax.set_xticks(range(len(labels)), labels)
        ax.grid(axis="x", visible=False)


def dots(ax, labels, groups):
    """Points with whiskers, one line for each label: `groups` is a list of (name, values, half widths)."""
    step = 0.7 / len(groups)
    for i, (name, values, halves) in enumerate(groups):
        at = [k + (i - (len(groups) - 1) / 2) * step for k in range(len(labels))]
        ax.errorbar(values, at, xerr=halves, fmt="o", label=name, color=COLOURS[i % len(COLOURS)], elinewidth=1)
    ax.set_yticks(range(len(labels)), labels)
    ax.invert_yaxis()


def by_name(found, column, names, y):
    """Values and half widths of `y` in the order of `names`; 0 and 0 where there is none."""
    of = {r[column]: r for r in found}
    return [number(of[n], y) if n in of else math.nan for n in names], [half(of[n], y) if n in of else 0 for n in names]


# -- the pages ---------------------------------------------------------------------------------------------------------


def cascade(d):
    figure, axes = d.axes(3, 3, 2.2)
    for line, (experiment, title) in enumerate([("long-tailed", "long-tailed, 40 s"),
                                                ("long-tailed, 40 minutes", "long-tailed, 40 min"),
                                                ("ShareGPT", "ShareGPT, 40 s")]):
        found = rows("cascade/sweeps", experiment=experiment)
        for place, (y, name, scale) in enumerate([("ttft_s", "mean TTFT, s", 1), ("tpot_ms", "mean TPOT, ms", 1),
                                                  ("tokens_per_s", "1,000 tokens/s", 1e-3)]):
            ax = axes[3 * line + place]
            curves(ax, found, "system", "rate_per_s", y, scale=scale)
            ax.set(title=f"{title}: {name}", xlabel="requests/s" if line == 2 else "")
            if place != 2:
                log(ax.yaxis)
    d.save(figure, "latency", axes[0].get_legend_handles_labels(), 5)

    found = rows("cascade/limits")
    cases = unique(found, "case")
    figure, axes = d.axes(2, 1, 3.6, sharey=True)
    for ax, y, name in [(axes[0], "tpot_change_pct", "mean TPOT"), (axes[1], "tokens_per_s_change_pct", "tokens/s")]:
        dots(ax, cases, [(s, *by_name([r for r in found if r["system"] == s], "case", cases, y))
                         for s in unique(found, "system")])
        ax.axvline(0, color=INK, linewidth=0.8)
        ax.set_xscale("symlog", linthresh=100)
        ax.set_xlim(-100, 400)
        ax.set_xticks([-100, -50, 0, 50, 100, 300], ["-100", "-50", "0", "50", "100", "300"])
        ax.set(title=name, xlabel="change from the Llumnix-like baseline, %")
    axes[1].invert_yaxis()  # Shared: turned twice.
    d.save(figure, "limits", axes[0].get_legend_handles_labels(), 3)


def pascal(d):
    policies = ["fcfs", "rr", "rr-quanta", "pascal", "pascal-paced", "due-first"]
    figure, axes = d.axes(3, 2, 2.4)
    for line, workload in enumerate(["alpaca-chat", "arena-chat"]):
        found = rows("pascal/loads", workload=workload, policy=policies)
        for place, (y, name) in enumerate([("ttft_s", "mean TTFT, s"), ("ttft_p99_s", "P99 TTFT, s"),
                                           ("slo_missed_pct", "SLO missed, %")]):
            ax = axes[3 * line + place]
            curves(ax, found, "policy", "load_pct", y, policies)
            ax.set(title=f"{workload}: {name}", xlabel="load, % of FCFS's saturation" if line else "")
            ax.set_xticks([80, 93, 99, 105, 110])
    d.save(figure, "loads", axes[0].get_legend_handles_labels(), 6)

    figure, axes = d.axes(4, 1, 2.7, sharey=True)
    for ax, workload in zip(axes, ["alpaca-chat", "arena-chat", "r1-servegen", "reasoning-heavy"], strict=True):
        found = rows("pascal/bins", workload=workload, baseline="fcfs", policy=["pascal", "pascal-paced", "due-first"])
        curves(ax, found, "policy", "load_pct", "best_pct")
        for i, policy in enumerate(unique(found, "policy")):
            mine = [r for r in found if r["policy"] == policy]
            ax.errorbar([number(r, "load_pct") for r in mine], [number(r, "worst_pct") for r in mine],
                        yerr=[half(r, "worst_pct") for r in mine], marker="s", linestyle="--", color=COLOURS[i])
        ax.axhline(0, color=INK, linewidth=0.8)
        ax.set(title=workload, xlabel="load, %")
        ax.set_xticks([int(level) for level in unique(found, "load_pct")])
    axes[0].set_ylabel("best (solid), worst (dashed) bin, %", fontsize=7.5)
    d.save(figure, "bins", axes[0].get_legend_handles_labels(), 3)

    figure, axes = d.axes(2, 1, 2.6)
    for ax, phase, y, name in [(axes[0], "reasoning", "to_oracle_ratio", "all tokens reason: time, times the oracle"),
                               (axes[1], "answering", "slo_met_pct", "all tokens answer: SLO met, %")]:
        found = rows("pascal/phases", phase=phase)
        lengths = unique(found, "tokens")
        bars(ax, lengths, [(p, by_name([r for r in found if r["policy"] == p], "tokens", lengths, y)[0], None)
                           for p in unique(found, "policy")])
        ax.set(title=name, xlabel="tokens")
    d.save(figure, "phases", axes[0].get_legend_handles_labels(), 4)


def phasor(d):
    mix = rows("phasor/tails", kv_waits_at="nowhere", kind="mix")
    figure, axes = d.axes(3, 1, 3.0)
    shown = ["Splitwise 3/3/2", "DistServe 4/4", "DistServe, best split", "colocated", "Phasor 3/3/2",
             "Phasor, best pools"]
    curves(axes[0], mix, "system", "rate_per_s", "e2e_p99_s", shown)
    log(axes[0].yaxis)
    axes[0].set(title="production mix: P99 end to end, s", xlabel="requests/s")
    for ax, y, name in [(axes[1], "phasor_332_to_it_pct", "Phasor 3/3/2"),
                        (axes[2], "phasor_best_to_it_pct", "Phasor, best pools")]:
        curves(ax, mix, "system", "rate_per_s", y, shown[:4])
        ax.axhline(0, color=INK, linewidth=0.8)
        ax.set(title=f"{name}: change of P99, %", xlabel="requests/s")
    d.save(figure, "tails", axes[0].get_legend_handles_labels(), 6)

    found = rows("phasor/concurrency")
    kinds = unique(found, "kind")
    figure, axes = d.axes(1, 1, 3.8)
    dots(axes[0], kinds, [(s, *by_name([r for r in found if r["system"] == s], "kind", kinds, "in_flight"))
                          for s in unique(found, "system")])
    log(axes[0].xaxis)
    axes[0].set(title="requests in flight with the P99 of TTFT and of TPOT within their limits")
    d.save(figure, "concurrency", axes[0].get_legend_handles_labels(), 4)


def pars(d):
    figure, axes = d.axes(3, 1, 3.0)
    found = rows("pars/tau", scores="noise")
    curves(axes[0], found, "lengths", "tau_b", "to_oracle_mean_ratio")
    axes[0].set_ylim(0.9, 40)
    log(axes[0].yaxis)
    axes[0].set(title="burst: mean latency, times the true order", xlabel="tau-b of the scores")
    model = rows("pars/tau", scores="model")
    for i, r in enumerate(model):
        axes[0].errorbar(number(r, "tau_b"), number(r, "to_oracle_mean_ratio"), yerr=half(r, "to_oracle_mean_ratio"),
                         fmt="s", color=COLOURS[i], markerfacecolor="none", label=f"PARS's model, {r['lengths']}")
    axes[0].legend()
    found = rows("pars/spread")
    curves(axes[1], found, "scores", "length_spread", "fcfs_mean_ratio")
    axes[1].axhline(7.7, color=INK, linewidth=0.8, linestyle=":", label="paper: 7.7")
    axes[1].set(title="burst: FCFS's mean latency / the policy's", xlabel="mean(L) x mean(1/L) of the lengths")
    axes[1].legend()
    found = rows("pars/run_length", policy=["PARS, boosted after 120 s", "PARS, never boosted", "PARS, smooth ageing"])
    curves(axes[2], found, "policy", "requests", "fcfs_mean_ratio")
    axes[2].set_xscale("log")
    axes[2].set_xticks([2000, 8000, 32000], ["2,000", "8,000", "32,000"])
    axes[2].minorticks_off()
    axes[2].set(title="load 1.1: FCFS's mean latency / the policy's", xlabel="requests in a run")
    axes[2].legend(loc="upper left")
    d.save(figure, "gain")

    shown = ["FCFS", "PARS, boosted after 120 s", "PARS, never boosted", "PARS, smooth ageing", "due-first",
             "oracle SJF, never boosted"]
    figure, axes = d.axes(3, 1, 2.9)
    for ax, lengths in zip(axes, ["GPT-4's lengths", "R1's spread", "r1-servegen"], strict=True):
        curves(ax, rows("pars/runs", arrivals="Poisson", lengths=lengths), "policy", "load", "mean_ms_per_token", shown)
        log(ax.yaxis)
        ax.set(title=f"{lengths}: mean ms a token", xlabel="load")
    d.save(figure, "loads", axes[0].get_legend_handles_labels(), 3)


def due_first(d):
    better_up = {"tokens/s", "good, %", "worst share, %"}
    figure, axes = d.axes(3, 2, 2.5)
    found = rows("due_first/summary")
    colours = dict(zip(["ahead", "alike", "behind"], [COLOURS[2], COLOURS[6], COLOURS[1]], strict=True))
    for ax, setting in zip(axes, unique(found, "setting"), strict=True):
        mine = [r for r in found if r["setting"] == setting]
        sign = {id(r): -1 if r["metric"] in better_up else 1 for r in mine}
        mine.sort(key=lambda r: sign[id(r)] * number(r, "change"))
        for verdict, colour in colours.items():
            at = [k for k, r in enumerate(mine) if r["verdict"] == verdict]
            ax.errorbar(at, [sign[id(mine[k])] * number(mine[k], "change") for k in at],
                        yerr=[half(mine[k], "change") for k in at], fmt="o", markersize=2.5, elinewidth=0.8,
                        color=colour, label=verdict)
        ax.axhline(0, color=INK, linewidth=0.8)
        ax.set_yscale("symlog", linthresh=10)
        ax.set_yticks([-100, -10, 0, 10, 100], ["-100", "-10", "0", "10", "100"])
        ax.set_xticks([])
        ax.set(title=f"{setting}: {len(mine)} comparisons", ylabel="worse by, % or points")
    d.save(figure, "summary", axes[3].get_legend_handles_labels(), 3)

    figure, axes = d.axes(1, 1, 3.0, 6.0)
    found = rows("due_first/pace")
    for i, workload in enumerate(unique(found, "workload")):
        mine = [r for r in found if r["workload"] == workload]
        x, y = "worst_bin_pct_of_fcfs", "best_bin_pct_of_fcfs"
        axes[0].errorbar([number(r, x) for r in mine], [number(r, y) for r in mine], xerr=[half(r, x) for r in mine],
                         yerr=[half(r, y) for r in mine], marker="o", elinewidth=0.6, color=COLOURS[i], label=workload)
    axes[0].set(title="pace from 0 (top left) to 0.2 s a token (bottom right)",
                xlabel="P99 TTFT of the worst bin, % of FCFS", ylabel="of the best bin, % of FCFS")
    axes[0].legend()
    d.save(figure, "pace")


def drawn(d):
    figure, axes = d.axes(2, 1, 3.4)
    found = rows("drawn/best")
    metrics = [r["metric"] for r in found]
    left = [0.0] * len(found)
    for column, name, colour in [("ahead_pct", "ahead", COLOURS[2]), ("alike_pct", "within 2 %", "#bbbbbb"),
                                 ("behind_pct", "behind", COLOURS[1])]:
        values = [number(r, column) for r in found]
        axes[0].barh(range(len(found)), values, 0.7, left=left, color=colour, label=name)
        left = [a + b for a, b in zip(left, values, strict=True)]
    axes[0].set_yticks(range(len(found)), metrics)
    axes[0].invert_yaxis()
    axes[0].set(title="due-first against the best other policy", xlabel="% of 80 settings")
    axes[0].legend(loc="upper center", bbox_to_anchor=(0.4, -0.18), ncols=3)
    each = sorted(rows("drawn/each"), key=lambda r: number(r, "end_to_end_mean_s_ratio"))
    names = [r["policy"] for r in each]
    longer = [number(r, "end_to_end_mean_s_ratio") - 1 for r in each]
    axes[1].barh(range(len(each)), longer, 0.7, left=1, color=COLOURS[0])
    axes[1].set_yticks(range(len(each)), names)
    axes[1].invert_yaxis()
    axes[1].axvline(1, color=INK, linewidth=0.8)
    axes[1].set(title="mean latency / due-first's, geometric mean", xlabel="times")
    d.save(figure, "settings")


def faults(d):
    found = rows("faults/deaths")
    names = [f"{r['policy']}, {r['dead_worker']}" if r["dead_worker"] else r["policy"] for r in found]
    figure, axes = d.axes(2, 1, 5.6, sharey=True)
    for ax, y, without, title in [(axes[0], "ttft_p99_s", "ttft_p99_without_s", "P99 TTFT, s"),
                                  (axes[1], "good_pct", "good_without_pct", "within 2 s and 0.1 s a token, %")]:
        dots(ax, names, [("no death", [number(r, without) for r in found], [half(r, without) for r in found]),
                         ("one death", [number(r, y) for r in found], [half(r, y) for r in found])])
        ax.set(title=title)
    axes[1].invert_yaxis()  # Shared: turned twice.
    d.save(figure, "deaths", axes[0].get_legend_handles_labels(), 2)


def report_age(d):
    figure, axes = d.axes(3, 1, 3.2)
    shown = ["shortest-queue", "least-load", "power-of-two", "pascal", "llumnix", "cascade", "phasor", "due-first"]
    for ax, routers, action in zip(axes, ["1", "4", "1"], ["0", "0", "1"], strict=True):
        found = rows("report_age/ages", routers=routers, action_s=action, controller=shown)
        curves(ax, [r for r in found if number(r, "report_s") > 0], "controller", "report_s", "ttft_s", shown)
        log(ax.xaxis)
        log(ax.yaxis)
        ax.set(title=f"routers: {routers}, actions {action} s late:\nmean TTFT, s", xlabel="age of reports, s")
    d.save(figure, "ages", axes[0].get_legend_handles_labels(), 4)


def fidelity(d):
    found = rows("fidelity/steps")
    names = [f"{r['hardware']}: {r['step']}" for r in found]
    figure, axes = d.axes(1, 1, 4.4)
    dots(axes[0], names, [(name, [number(r, column) for r in found], None) for name, column in
                          [("roofline", "roofline_error_pct"), ("built in", "built_in_error_pct"),
                           ("fitted to 14 other steps", "not_fitted_error_pct")]])
    axes[0].set_xlim(0)
    axes[0].set(title="mean error of a step's time", xlabel="%")
    d.save(figure, "steps", axes[0].get_legend_handles_labels(), 3)

    figure, axes = d.axes(2, 1, 2.4)
    for ax, hardware in zip(axes, ["RTX PRO 6000", "RTX 4090"], strict=True):
        found = rows("fidelity/runs", hardware=hardware)
        names = [re.sub(r"14 points and [\d.]+ ms, fitted", "+ host time,\nfitted", r["model"]) for r in found]
        names = [n.replace(", kernels", ",\nkernels") for n in names]
        bars(ax, names, [(name, [number(r, column) for r in found], None) for name, column in
                         [("TTFT", "ttft_error_pct"), ("TPOT", "tpot_error_pct"), ("E2E", "e2e_error_pct")]])
        ax.axhline(0, color=INK, linewidth=0.8)
        ax.tick_params(axis="x", labelsize=6.5)
        ax.set(title=f"{hardware}: error of the mean of a run, %")
    d.save(figure, "runs", axes[0].get_legend_handles_labels(), 3)


def fleet(d):
    figure, axes = d.axes(3, 1, 3.0)
    shown = ["shortest-queue", "power-of-two", "least-load", "phi-time", "fill-time"]
    for ax, setting in zip(axes, unique(rows("fleet/routers"), "setting"), strict=True):
        found = rows("fleet/routers", setting=setting, placement=shown)
        found = [r for r in found if r["knowledge"].endswith(("router", "routers"))]
        for r in found:
            r["routers"] = r["knowledge"].split()[0]
        curves(ax, found, "placement", "routers", "ttft_ms", shown)
        ax.set_xscale("log", base=2)
        ax.set_xticks([1, 2, 4, 8], ["1", "2", "4", "8"])
        log(ax.yaxis)
        ax.set(title=f"{setting}:\nmean TTFT, ms", xlabel="routers")
    d.save(figure, "routers", axes[0].get_legend_handles_labels(), 5)

    found = rows("fleet/front_end")
    for r in found:
        r["case"] = f"{r['engines']}, {r['memory_and_lengths']}"
    cases = unique(found, "case")
    figure, axes = d.axes(1, 1, 2.8)
    shown = ["shortest queue", "power of two", "Phi_T", "Phi_T, blind to memory"]
    dots(axes[0], cases, [(p, *by_name([r for r in found if r["policy"] == p], "case", cases, "ttft_ms"))
                          for p in shown])
    floors = by_name(found, "case", cases, "floor_ttft_ms")[0]
    ends = [[k + d for k in range(len(cases))] for d in (-0.4, 0.4)]
    axes[0].vlines(floors, *ends, color="#000000", label="no router can be below")
    log(axes[0].xaxis)
    axes[0].set(title="Python front end before eight fake engines: mean TTFT, ms")
    d.save(figure, "front_end", axes[0].get_legend_handles_labels(), 5)

    found = rows("fleet/moves")
    figure, axes = d.axes(1, 2, 1.7)
    all_places = unique(found, "where")
    for ax, places, title in [(axes[0], all_places[:2], "two vLLM engines on a CPU: median, least and most"),
                              (axes[1], all_places[2:], "in virtual time, as an H100: mean, least and most")]:
        mine = [r for r in found if r["where"] in places]
        names = unique(mine, "request")
        for i, where in enumerate(places):
            some = [r for r in mine if r["where"] == where]
            middle = [number(r, "pause_ms") for r in some]
            ends = [[m - number(r, "least_ms") for m, r in zip(middle, some, strict=True)],
                    [number(r, "most_ms") - m for m, r in zip(middle, some, strict=True)]]
            ax.errorbar(middle, [k + 0.2 * (i - 0.5) for k in range(len(some))], xerr=ends, fmt="o", color=COLOURS[i],
                        label=where.split(", ", 1)[1])
        ax.set_yticks(range(len(names)), names)
        ax.invert_yaxis()
        ax.set_xlim(0)
        ax.set(title=f"longest pause between tokens, ms; {title}")
        ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    d.save(figure, "moves")


def foundation(d):
    found = rows("foundation/step")
    figure, axes = d.axes(2, 1, 3.0, gridspec_kw={"width_ratios": [3, 2]})
    names = [r["scheduler"] for r in found]
    bars(axes[0], names, [("before the rebuild", [number(r, "before_mean_us") for r in found], None),
                          ("now", [number(r, "mean_us") for r in found], None)], horizontal=True)
    for k, r in enumerate(found):
        if r["target_mean_us"]:
            axes[0].plot([number(r, "target_mean_us")] * 2, [k - 0.45, k + 0.45], color="#000000",
                         label="target" if k == 0 else None)
    axes[0].set(title="a step of 256 requests, mean", xlabel="us")
    found = rows("foundation/scale", of="running")
    curves(axes[1], found, "scheduler", "count", "step_p50_us")
    axes[1].set_xscale("log")
    log(axes[1].yaxis)
    axes[1].set_xticks([256, 1024, 4096], ["256", "1,024", "4,096"])
    axes[1].minorticks_off()
    axes[1].set(title="a step, p50, us", xlabel="running requests")
    axes[1].legend()
    d.save(figure, "step", axes[0].get_legend_handles_labels(), 3)

    found = rows("foundation/bad_days")
    figure, axes = d.axes(1, 1, 4.6)
    dots(axes[0], [r["day"] for r in found], [(name, [number(r, column) for r in found], None) for name, column in
                                             [("good day", "good_day_us"), ("bad day, before", "before_us"),
                                              ("bad day, now", "bad_day_us")]])
    log(axes[0].xaxis)
    axes[0].set(title="one call of the scheduler, us")
    d.save(figure, "bad_days", axes[0].get_legend_handles_labels(), 3)


def gpu(d):
    found = rows("gpu/budget")
    names = [f"{int(r['context_tokens']):,} tokens" for r in found]
    figure, axes = d.axes(1, 1, 2.4, 6.0)
    bars(axes[0], names, [("1 % of the shortest possible step", [number(r, "budget_us") for r in found], None),
                          ("scheduler and preparation on the host", [number(r, "host_us") for r in found], None)])
    axes[0].set(title="a decode step of 256 requests, us; the upload is not measured", xlabel="context of each request")
    axes[0].legend()
    d.save(figure, "budget")


def vllm(d):
    found = rows("vllm/scheduler_time")
    names = []
    for r in found:
        kind = "steady decoding" if r["load"] == "steady decoding" else "come and go"
        cache = "cache" if r["prefix_cache"] == "yes" else "no cache"
        names.append(f"{int(r['running']):,} running, {kind}, {cache}, {r['steps_in_flight']} in flight")
    figure, axes = d.axes(1, 1, 3.6)
    dots(axes[0], names, [("vLLM 0.32.0", [number(r, "vllm_us") for r in found], None),
                          ("tessera", [number(r, "tessera_us") for r in found], None)])
    axes[0].set_xlim(10)
    log(axes[0].xaxis)
    axes[0].set(title="scheduler, CPU time of a step, median, us")
    d.save(figure, "scheduler_time", axes[0].get_legend_handles_labels(), 2)

    figure, axes = d.axes(2, 1, 2.8)
    for ax, load in zip(axes, ["reasoning model", "real lengths"], strict=True):
        found = rows("vllm/order_gain", load=load)
        names = [r["scheduler"] for r in found]
        dots(ax, names, [(name, [number(r, column) for r in found], [half(r, column) for r in found])
                         for name, column in [("mean TTFT", "ttft_ratio"), ("P99 TTFT", "ttft_p99_ratio"),
                                              ("mean latency", "latency_ratio")]])
        ax.axvline(1, color=INK, linewidth=0.8)
        ax.set(title=load, xlabel="vLLM's own / tessera's: above 1 is a gain")
    d.save(figure, "order", axes[0].get_legend_handles_labels(), 3)


def llama_cpp(d):
    found = rows("llama_cpp/engine")
    names = [f"{r['policy']}\n{r['rate']}/s" for r in found]
    figure, axes = d.axes(3, 1, 2.8)
    for ax, what, title in [(axes[0], "ttft", "mean TTFT, s"), (axes[1], "qoe", "mean QoE")]:
        unit = "_s" if what == "ttft" else ""
        bars(ax, names, [("engine", [number(r, f"{what}_engine{unit}") for r in found], None),
                         ("simulator", [number(r, f"{what}_simulator{unit}") for r in found], None)])
        ax.tick_params(axis="x", labelsize=6)
        ax.set(title=title)
    found = rows("llama_cpp/drafts")
    for load in unique(found, "load"):
        mine = [r for r in found if r["load"] == load]
        for r in mine:
            r["saved"] = str(100 * (1 - number(r, "steps") / number(mine[0], "steps")))
    curves(axes[2], found, "load", "drafts_per_step", "saved")
    axes[2].set(title="steps saved by drafts, %", xlabel="drafts a step")
    axes[2].legend()
    d.save(figure, "engine", axes[0].get_legend_handles_labels())


PAGES = {f.__name__: f for f in (cascade, drawn, due_first, faults, fidelity, fleet, foundation, gpu, llama_cpp, pars,
                                 pascal, phasor, report_age, vllm)}


def has_matplotlib():
    """Whether the version is here; goes on in the environment of script/plots if that has it."""
    try:
        import matplotlib
    except ImportError:
        matplotlib = None
    if matplotlib is not None and matplotlib.__version__ == VERSION:
        return True
    cache = os.environ.get("TESSERA_CACHE") or os.path.expanduser("~/.cache/tessera")
    python = os.path.join(cache, "matplotlib", "bin", "python")
    if os.path.exists(python) and not os.path.samefile(sys.prefix, os.path.join(cache, "matplotlib")):
        os.execv(python, [python, *sys.argv])
    return False


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", metavar="PAGE")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--out", type=pathlib.Path, default=HERE)
    options = parser.parse_args()
    for page in options.pages:
        if page not in PAGES:
            parser.error(f"no page {page}: one of {', '.join(PAGES)}")
    if not has_matplotlib():
        print(f"matplotlib {VERSION} is not here: script/plots installs it", file=sys.stderr)
        return 77
    with tempfile.TemporaryDirectory() as name:
        out = pathlib.Path(name) if options.check else options.out
        for page in options.pages or PAGES:
            PAGES[page](Drawing(out / page))
        if not options.check:
            return 0
        drawn_here = {p.relative_to(out) for p in out.rglob("*.svg")}
        kept = {p.relative_to(HERE) for page in options.pages or PAGES for p in (HERE / page).glob("*.svg")}
        wrong = sorted(str(p) for p in drawn_here ^ kept)
        wrong += [str(p) for p in sorted(drawn_here & kept) if (out / p).read_bytes() != (HERE / p).read_bytes()]
    for path in wrong:
        print(f"{path}: not what plot.py draws from its data", file=sys.stderr)
    if not wrong:
        print(f"{len(drawn_here)} pictures are what plot.py draws")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
