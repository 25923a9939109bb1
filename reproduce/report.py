"""The report: report.md from a Jinja2 template, with pictures beside it, and the same as one page, report.html.

results  ->  contents   all that the template asks for
         ->  templates/report.md.j2      ->  report.md
         ->  markdown-it                 ->  report.html, in templates/report.html.j2, with the pictures inside
"""

from __future__ import annotations

import base64
import re
import statistics
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
from markdown_it import MarkdownIt

from reproduce import claims, figures
from reproduce.claims import CELLS, CLAIMS, ERRORS, OCCLUSION_CLAIMS, cell, paper, paper_cell, sentence
from reproduce.methods import METHODS
from reproduce.recipes import committed_recipes, search_log
from reproduce.results import Result, read_all, replace_file
from reproduce.runs import CONVERGENCE, TARGETS, plan
from reproduce.tasks import IN_TABLES, SCALES, TABLES, TASKS

_CAPTIONS = {
    "fig-occlusion": "Error on occluded MNIST against the size of the missing patch; at 28x28 nothing is left to see, "
    "and the model is a plain RBM.",
    "fig-convergence": "Share of the training instances on which BP converged within its iterations, by epoch: MLE-BP "
    "on occluded (8x8) MNIST. The paper's figure has up to 50 epochs of smaller steps.",
    "fig-demo": "The first images of the test set, corrupted and predicted by MLE-BP.",
}


def write_report(folder: Path) -> list[Path]:
    """Write report.md, report.html and the figures into `folder`, from the results there.

    Returns
    -------
    list of Path
        What was written; figures only with matplotlib, and where their runs were done.
    """
    found = read_all(folder)
    if not found:
        raise FileNotFoundError(f"{folder} has no results: no file runs/<task>/<method>.json")
    pictures = figures.draw(found) if figures.available() else {}
    text = markdown(found, pictures)
    files = {f"{name}.png": png for name, png in pictures.items()}
    files |= {"report.md": text.encode(), "report.html": page(text, pictures).encode()}
    for name, contents in files.items():
        replace_file(folder / name, contents)
    return [folder / name for name in files]


def markdown(found: Mapping[str, Result], pictures: Collection[str]) -> str:
    """The report as Markdown, given the results and the names of the figures that were drawn."""
    text = _templates().get_template("report.md.j2").render(contents(found, pictures))
    return re.sub(r"\n{3,}", "\n\n", text)


def page(text: str, pictures: Mapping[str, bytes]) -> str:
    """The report as a page of HTML with everything in it: it needs no other file and no network."""
    renderer = MarkdownIt("commonmark").enable("table")
    tokens = renderer.parse(text)
    for image in (child for token in tokens for child in token.children or () if child.type == "image"):
        png = pictures[str(image.attrs["src"]).removesuffix(".png")]
        image.attrs["src"] = f"data:image/png;base64,{base64.b64encode(png).decode()}"
    body = renderer.renderer.render(tokens, renderer.options, {})
    title = text.splitlines()[0].removeprefix("# ")
    return _templates().get_template("report.html.j2").render(title=title, body=body)


def _templates() -> jinja2.Environment:
    """The templates and the filters they use."""
    loader = jinja2.FileSystemLoader(Path(__file__).with_name("templates"))
    # what is inserted is Markdown, or the HTML that was made of it
    environment = jinja2.Environment(
        loader=loader,
        autoescape=False,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {"count": count, "time": time_text, "words": words, "table": table, "plain": plain}
    return environment


# --- what it says -----------------------------------------------------------------------------------------------------


def contents(found: Mapping[str, Result], pictures: Collection[str]) -> dict[str, Any]:
    """All that templates/report.md.j2 asks for."""
    tally = claims.tally(found)
    ratios = claims.ratio_to_paper(found)
    made = [result["made"] for result in found.values()]
    small = [result["scale"] for result in found.values() if result["scale"]["name"] != "full"]
    return {
        "source": paper()["source"],
        "small": small[0] if small else None,
        "tally": tally,
        "compared": tally["holds"] + tally["fails"] + tally["close"],
        "ratios": ratios,
        "below": sum(ratio < 1 for ratio in ratios),
        "median": statistics.median(ratios) if ratios else None,
        "n_done": sum(result["error"] is None for result in found.values()),
        "seconds": sum(m["seconds"]["total"] for m in made),
        "machines": "; ".join(sorted({f"{m['cpu']}, {m['config']['instruction set']}" for m in made})),
        "stale": _stale(found),
        "best": _best(found),
        "tables": [_paper_table(found, name) for name in TABLES if _any_run(found, name)],
        "no_figures": None if figures.available() else figures.HINT,
        "figures": [{"name": n, "caption": _CAPTIONS[n], "notes": _figure_notes(found, n)} for n in pictures],
        "not_drawn": [name for name in _CAPTIONS if name not in pictures],
        **_runs(found),
        **_hyperparameters(),
    }


def _stale(found: Mapping[str, Result]) -> list[str]:
    """The names of results that `python -m reproduce` would not keep."""
    now = {scale.name: {run.name: run.hash for run in plan(TARGETS, scale)} for scale in SCALES.values()}
    scales = {name: now.get(result["scale"]["name"]) for name, result in found.items()}
    return [name for name, runs in scales.items() if runs is not None and runs.get(name) != found[name]["hash"]]


def _best(found: Mapping[str, Result]) -> list[list[str]]:
    """Rows of a table: MLE-BP beside the best that the paper has in each column."""
    rows = []
    for task in IN_TABLES:
        ours = cell(found, task.name, "MLE-BP", "all")
        theirs = {method: paper_cell(task.name, method, "all") or 0 for method in METHODS}
        best = min(theirs, key=theirs.__getitem__)
        if ours is not None:
            rows.append(
                [
                    f"`{task.name}`",
                    f"**{ours:.3f}**" if ours < theirs[best] else f"{ours:.3f}",
                    f"{theirs['MLE-BP']:.3f}",
                    f"{theirs[best]:.3f} ({best})",
                    _time(found[f"{task.name}/MLE-BP"]),
                ]
            )
    return rows


def _any_run(found: Mapping[str, Result], name: str) -> bool:
    """Whether any run of a table was done."""
    return any(f"{task.name}/{method}" in found for task in TABLES[name] for method in METHODS)


def _paper_table(found: Mapping[str, Result], name: str) -> dict[str, Any]:
    """A table of the paper with its cells beside ours, and what the paper says about it."""
    tasks, header = TABLES[name], [""]
    columns: list[list[str]] = []
    for task in tasks:
        for error in ERRORS:
            without_number = [m for m in METHODS if f"{task.name}/{m}" in found]  # if it has none, it failed
            columns.append(_cells({m: cell(found, task.name, m, error) for m in METHODS}, without_number))
            columns.append(_cells({m: paper_cell(task.name, m, error) for m in METHODS}))
        header += [f"{task.title}: All", "paper", "Changed", "paper"]
    said, in_cells = (
        [text for claim in group if claim.task in tasks if (text := sentence(found, claim))]
        for group in (CLAIMS, CELLS)
    )
    notes = said + [f"(By the paper's cells alone) {text}" for text in in_cells]
    for task in tasks:
        ours = [cell(found, task.name, method, "all") for method in ("MLE-BP", "CD-PercLoss")]
        theirs = [paper_cell(task.name, method, "all") for method in ("MLE-BP", "CD-PercLoss")]
        if None not in ours and None not in theirs:
            a, b = (claims.improvement(*pair) for pair in (ours, theirs))  # type: ignore[arg-type]
            notes.append(f"MLE-BP has {a} error than CD-PercLoss, {task.title}; by the paper's cells {b}.")
    tested = [found.get(f"{task.name}/{method}") for task in tasks for method in METHODS]
    return {
        "number": name.removeprefix("table"),
        "title": paper()["tables"][name]["title"],
        "header": header,
        "rows": [[method, *row] for method, row in zip(METHODS, zip(*columns, strict=True), strict=True)],
        "notes": notes,
        "standard_errors": [
            claims.standard_error(r) for r in tested if r is not None and r["error"] is None and r["test"] is not None
        ],
    }


def _cells(values: Mapping[str, float | None], failed: Collection[str] = ()) -> list[str]:
    """Percentages with three decimals as the paper has them, the lowest bold; a dash where there is none."""
    numbers = [value for value in values.values() if value is not None]
    texts = []
    for method, value in values.items():
        if value is None:
            texts.append("failed" if method in failed else "-")
        else:
            texts.append(f"**{value:.3f}**" if value == min(numbers) else f"{value:.3f}")
    return texts


def _figure_notes(found: Mapping[str, Result], figure: str) -> list[str]:
    """What the paper says about a figure, and whether the runs agree."""
    if figure == "fig-occlusion":
        return [text for claim in OCCLUSION_CLAIMS if (text := sentence(found, claim))]
    if figure == "fig-convergence":
        task, method = CONVERGENCE
        shares = found[f"{task.name}/{method}"]["convergence"]["share"]
        verdict = "**holds**" if min(shares) > 0.5 else "**fails**"
        return [
            f"BP converges on the majority of instances in every epoch: {verdict}; least "
            f"{100 * min(shares):.1f} % in epoch {1 + shares.index(min(shares))}, in the last {100 * shares[-1]:.1f} %."
        ]
    return []


def _runs(found: Mapping[str, Result]) -> dict[str, Any]:
    """Every run: how it went, and with what."""
    rows, failures, warned = [], [], []
    order = {name: i for i, name in enumerate(f"{task}/{method}" for task in TASKS for method in METHODS)}
    for name in sorted(found, key=lambda name: order.get(name, len(order))):
        result = found[name]
        begin = [name.split("/")[0], result["method"]]
        if result["error"] is not None:
            failures.append({"name": name, "text": f"{result['error']['type']}: {result['error']['message']}"})
            rows.append([*begin, "failed", "", "", "", _time(result)])
            continue
        warned += [{"name": name, "text": text} for text in result["warnings"]]
        errors = [result["validation"]["all"], None if result["test"] is None else result["test"]["all"]]
        percent = ["-" if error is None else f"{100 * error:.3f}" for error in errors]
        rows.append([*begin, f"{result['epochs']}", f"{result['best_epoch']}", *percent, _time(result)])
    return {"runs": rows, "failures": failures, "warned": warned}


def _hyperparameters() -> dict[str, Any]:
    """The recipes, and how they were found."""
    recipes, log = committed_recipes(), search_log()
    same_as: dict[str, list[str]] = {}
    for task, other in recipes["same_as"].items():
        same_as.setdefault(other, []).append(f"`{task}`")
    return {
        "how": log["how"],
        "trials": [len(tried) for methods in log["trials"].values() for tried in methods.values()],
        "same_as": same_as,
        "recipes": [
            [task, method, ", ".join(words(group) for group in recipe.values() if group)]
            for task, methods in recipes["recipes"].items()
            for method, recipe in methods.items()
        ],
    }


# --- how it says it ---------------------------------------------------------------------------------------------------


def _time(result: Result) -> str:
    """How long a run took; with + where it was resumed, since then the time outside of epochs is not known."""
    made = result["made"]
    return time_text(made["seconds"]["total"]) + ("+" if made.get("resumed_after") else "")


def words(keywords: Mapping[str, Any]) -> str:
    """Keywords in a line: epochs 8, learning_rate 0.01, rates (W_vx 0.05)."""

    def text(value: Any) -> str:
        if isinstance(value, Mapping):
            return f"({words(value)})"
        return f"{value:g}" if isinstance(value, float) else str(value)

    return ", ".join(f"{key} {text(value)}" for key, value in keywords.items())


def count(n: int, what: str) -> str:
    """A number of things: 1 run, 2 runs."""
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


def time_text(seconds: float) -> str:
    """A time: 12 s, 3 min 05 s, 2 h 10 min."""
    if seconds < 60:
        return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def plain(text: str) -> str:
    """A text in which no character is Markdown or HTML, on one line."""
    return re.sub(r"([\\`*<>|\[\]&]|(?<!\w)_|_(?!\w))", r"\\\1", " ".join(text.split()))


def table(rows: Sequence[Sequence[str]], header: Sequence[str], n_left: int = 1) -> str:
    """A Markdown table whose columns are padded to equal widths; all but the first `n_left` are aligned right."""
    lines = [list(header), *([text.replace("|", "\\|") for text in row] for row in rows)]
    widths = [max(3, *(len(line[i]) for line in lines)) for i in range(len(header))]
    padded = [
        [t.ljust(w) if i < n_left else t.rjust(w) for i, (t, w) in enumerate(zip(line, widths, strict=True))]
        for line in lines
    ]
    rule = ["-" * w if i < n_left else "-" * (w - 1) + ":" for i, w in enumerate(widths)]
    return "\n".join(f"| {' | '.join(line)} |" for line in [padded[0], rule, *padded[1:]])
