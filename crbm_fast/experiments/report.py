"""The report: one list of blocks, as Markdown with pictures beside it and as one HTML page that needs nothing else."""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from crbm_fast import _files
from crbm_fast.experiments import claims, figures
from crbm_fast.experiments.claims import CELLS, CLAIMS, ERRORS, OCCLUSION_CLAIMS, cell, paper, paper_cell, sentence
from crbm_fast.experiments.methods import METHODS, hyperparameters
from crbm_fast.experiments.results import Result, read_all
from crbm_fast.experiments.runs import CONVERGENCE, TARGETS, plan
from crbm_fast.experiments.tasks import IN_TABLES, SCALES, TABLES, TASKS


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
    document = blocks(found, pictures)
    files = {f"{name}.png": png for name, png in pictures.items()}
    files["report.md"] = (markdown(document) + "\n").encode()
    files["report.html"] = page(document).encode()
    for name, contents in files.items():
        with _files.replacing(folder / name) as file:
            file.write(contents)
    return [folder / name for name in files]


# --- blocks -----------------------------------------------------------------------------------------------------------
# Texts may have **bold** and `code`; nothing else is markup.


@dataclass(frozen=True)
class Heading:
    level: int
    text: str


@dataclass(frozen=True)
class Text:
    text: str


@dataclass(frozen=True)
class Bullets:
    items: Sequence[str]


@dataclass(frozen=True)
class Table:
    """Rows of cells; `groups` are (title, number of columns) above the header, `muted` are columns in grey."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    groups: Sequence[tuple[str, int]] = ()
    muted: frozenset[int] = frozenset()
    words: int = 1  # columns of words, on the left


@dataclass(frozen=True)
class Picture:
    name: str
    png: bytes
    caption: str


@dataclass(frozen=True)
class Fold:
    """Details, closed at first where that is possible."""

    title: str
    blocks: Sequence[Block] = field(default_factory=list)


Block = Heading | Text | Bullets | Table | Picture | Fold


# --- what it says -----------------------------------------------------------------------------------------------------


def blocks(found: Mapping[str, Result], pictures: Mapping[str, bytes]) -> list[Block]:
    """The whole report."""
    out: list[Block] = [
        Heading(1, "Belief propagation in conditional RBMs: the paper's experiments, run again"),
        *_introduction(found),
    ]
    for table in TABLES:
        out += _table(found, table)
    out += _figures(found, pictures)
    out += _runs(found)
    out += _hyperparameters(_small(found))
    return out


def _introduction(found: Mapping[str, Result]) -> list[Block]:
    done = [result for result in found.values() if result["error"] is None]
    failed = len(found) - len(done)
    small = _small(found)
    out: list[Block] = [
        Text(
            f"Our numbers are runs of crbm_fast; beside them are the paper's: {paper()['source']}. **All** is the "
            "percentage of wrong pixels among all pixels of the test set, **Changed** that among the pixels that the "
            "corruption changed. The epoch is chosen on the validation set. Predictions are by mean field for the CD "
            "methods, which train by Gibbs sampling, and by the inference of training for the others: mean field for "
            "MLE-MF, sum-product BP for MLE-BP, mixed-product BP for MSSVM, max-product BP for LSSVM. The best of a "
            "column is bold."
        )
    ]
    if small:
        scale = next(result["scale"] for result in found.values() if result["scale"]["name"] != "full")
        out.append(
            Text(
                f"**This is a small run**: {scale['train']} digits that come with the package stand in for MNIST and, "
                f"inverted, for Caltech; {scale['nh']} hidden units, {_words(scale['keywords'])}. It shows that every "
                "method runs, not how good it is: the paper's numbers are for another problem, and none of its claims "
                "are judged."
            )
        )
    counts = claims.tally(found)
    items = []
    compared = counts["holds"] + counts["fails"] + counts["close"]
    if compared and not small:
        items.append(
            f"Of the {compared} comparisons between methods that the paper's text makes, **{counts['holds']} hold**, "
            f"**{counts['fails']} fail** and {counts['close']} are too close to tell (at most two standard errors over "
            "the test images apart)." + (f" {counts['missing']} were not run." if counts["missing"] else "")
        )
    ratios = claims.ratio_to_paper(found)
    if ratios and not small:
        below = sum(ratio < 1 for ratio in ratios)
        items.append(
            f"All is below the paper's in {below} of {len(ratios)} cells; ours / paper's is "
            f"{claims.median(ratios):.3f} in the median, {ratios[0]:.3f} to {ratios[-1]:.3f} in all."
        )
    seconds = sum(result["made"]["seconds"]["total"] for result in found.values())
    made = [result["made"] for result in found.values()]
    machines = "; ".join(sorted({f"{m['cpu']}, {m['config']['instruction set']}" for m in made}))
    items.append(
        f"{count(len(done), 'run')}; one after another, {time_text(seconds)} ({machines})."
        + (f" **{failed} failed**; the reasons are below." if failed else "")
    )
    stale = _stale(found)
    if stale:
        items.append(
            f"**Older than the hyperparameters or the experiment's code**, and to be done again: {', '.join(stale)}."
        )
    out.append(Bullets(items))
    return out if small else [*out, *_best(found)]


def _time(result: Result) -> str:
    """Of a run; with + where it was resumed, as what is not in the epochs, the logistic start, is lost then."""
    made = result["made"]
    return time_text(made["seconds"]["total"]) + ("+" if made.get("resumed_after") else "")


def _small(found: Mapping[str, Result]) -> bool:
    """Whether there are runs of another size than the paper's."""
    return any(result["scale"]["name"] != "full" for result in found.values())


def _best(found: Mapping[str, Result]) -> list[Block]:
    """MLE-BP beside the best that the paper has in each column."""
    rows = []
    for task in IN_TABLES:
        ours = cell(found, task.name, "MLE-BP", "all")
        theirs = {method: paper_cell(task.name, method, "all") or 0 for method in METHODS}
        best = min(theirs, key=theirs.__getitem__)
        if ours is not None:
            text = f"{ours:.3f}"
            rows.append(
                [
                    f"`{task.name}`",
                    f"**{text}**" if ours < theirs[best] else text,
                    f"{theirs['MLE-BP']:.3f}",
                    f"{theirs[best]:.3f} ({best})",
                    _time(found[f"{task.name}/MLE-BP"]),
                ]
            )
    head = ["All, %", "MLE-BP", "the paper's MLE-BP", "the paper's best", "time of ours"]
    return [Table(head, rows)] if rows else []


def _stale(found: Mapping[str, Result]) -> list[str]:
    """Names of results that `reproduce` would not keep."""
    now = {scale.name: {run.name: run.hash for run in plan(TARGETS, scale)} for scale in SCALES.values()}
    scales = {name: now.get(result["scale"]["name"]) for name, result in found.items()}
    return [name for name, runs in scales.items() if runs is not None and runs.get(name) != found[name]["hash"]]


def _table(found: Mapping[str, Result], table: str) -> list[Block]:
    """A table of the paper, its cells beside ours, and what the paper says about it; nothing if nothing was run."""
    tasks = TABLES[table]
    if not any(f"{task.name}/{method}" in found for task in tasks for method in METHODS):
        return []
    columns: list[list[str]] = []
    for task in tasks:
        for error in ERRORS:
            failed = [m for m in METHODS if f"{task.name}/{m}" in found]  # there, but without a number
            columns.append(_cells({m: cell(found, task.name, m, error) for m in METHODS}, failed))
            columns.append(_cells({m: paper_cell(task.name, m, error) for m in METHODS}))
    number = table.removeprefix("table")
    out: list[Block] = [
        Heading(2, f"Table {number}. {paper()['tables'][table]['title']}"),
        Table(
            ["", *["All", "paper", "Changed", "paper"] * len(tasks)],
            [[method, *row] for method, row in zip(METHODS, zip(*columns, strict=True), strict=True)],
            [("", 1), *((task.title, 4) for task in tasks)],
            frozenset(range(2, 2 + 4 * len(tasks), 2)),
        ),
    ]
    said, in_cells = (
        [text for claim in group if claim.task in tasks for text in [sentence(found, claim)] if text]
        for group in (CLAIMS, CELLS)
    )
    notes = said + [f"(By the paper's cells alone) {text}" for text in in_cells]
    for task in tasks:
        ours = [cell(found, task.name, method, "all") for method in ("MLE-BP", "CD-PercLoss")]
        theirs = [paper_cell(task.name, method, "all") for method in ("MLE-BP", "CD-PercLoss")]
        if None not in ours and None not in theirs:
            a, b = (claims.improvement(*pair) for pair in (ours, theirs))  # type: ignore[arg-type]
            notes.append(f"MLE-BP has {a} error than CD-PercLoss, {task.title}; by the paper's cells {b}.")
    errors = [
        claims.standard_error(result)
        for task in tasks
        for method in METHODS
        for result in [found.get(f"{task.name}/{method}")]
        if result is not None and result["error"] is None and result["test"] is not None
    ]
    if errors:
        out.append(Text(f"Standard error of All over the test images: {min(errors):.3f} to {max(errors):.3f}."))
    return [*out, Bullets(notes)] if notes and not _small(found) else out


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


_CAPTIONS = {
    "fig-occlusion": "Error on occluded MNIST against the size of the missing patch; at 28x28 nothing is left to see, "
    "and the model is a plain RBM.",
    "fig-convergence": "Share of the training instances on which BP converged within its iterations, by epoch: MLE-BP "
    "on occluded (8x8) MNIST. The paper's figure has up to 50 epochs of smaller steps.",
    "fig-demo": "The first images of the test set, corrupted and predicted by MLE-BP.",
}


def _figures(found: Mapping[str, Result], pictures: Mapping[str, bytes]) -> list[Block]:
    out: list[Block] = [Heading(2, "Figures")]
    if not figures.available():
        return [*out, Text(f"None here: {figures.HINT}.")]
    for name, png in pictures.items():
        out.append(Picture(name, png, _CAPTIONS[name]))
        notes = _notes(found, name)
        if notes and not _small(found):
            out.append(Bullets(notes))
    missing = [name for name in _CAPTIONS if name not in pictures]
    if missing:
        out.append(Text(f"Not run: {', '.join(missing)}."))
    return out


def _notes(found: Mapping[str, Result], figure: str) -> list[str]:
    """What the paper says about a figure, and the runs."""
    if figure == "fig-occlusion":
        return [text for claim in OCCLUSION_CLAIMS for text in [sentence(found, claim)] if text]
    if figure == "fig-convergence":
        task, method = CONVERGENCE
        shares = found[f"{task.name}/{method}"]["history"]["converged"]
        verdict = "**holds**" if min(shares) > 0.5 else "**fails**"
        return [
            f"BP converges on the majority of instances in every epoch: {verdict}; least "
            f"{100 * min(shares):.1f} % in epoch {1 + shares.index(min(shares))}, in the last {100 * shares[-1]:.1f} %."
        ]
    return []


def _runs(found: Mapping[str, Result]) -> list[Block]:
    """Every run: how it went, and with what."""
    rows, failures, warned = [], [], []
    order = {name: i for i, name in enumerate(f"{task}/{method}" for task in TASKS for method in METHODS)}
    for name in sorted(found, key=lambda name: order.get(name, len(order))):
        result = found[name]
        seconds = _time(result)
        task = name.split("/")[0]
        if result["error"] is not None:
            failures.append(f"`{name}`: {result['error']['type']}: {result['error']['message']}")
            rows.append([task, result["method"], "failed", "", "", "", seconds])
            continue
        warned += [f"`{name}`: {text}" for text in result["warnings"]]
        test = result["test"]
        rows.append(
            [
                task,
                result["method"],
                f"{len(result['history']['epoch'])}",
                f"{result['best_epoch']}",
                f"{100 * result['validation']['all']:.3f}",
                "-" if test is None else f"{100 * test['all']:.3f}",
                seconds,
            ]
        )
    head = ["task", "method", "epochs", "best", "validation, %", "test, %", "time"]
    out: list[Block] = [Heading(2, "Runs"), Fold(count(len(rows), "run"), [Table(head, rows, words=2)])]
    if failures:
        out += [Text("Failed:"), Bullets(failures)]
    if warned:
        out.append(Fold(count(len(warned), "warning"), [Bullets(warned)]))
    return out


def _hyperparameters(small: bool) -> list[Block]:
    contents = hyperparameters()
    trials = [len(tried) for methods in contents["search"].get("trials", {}).values() for tried in methods.values()]
    if not trials:
        budget = "There were no trials."
    elif len(set(trials)) == 1:
        budget = f"Every method had the same budget on every task searched: {count(trials[0], 'trial')}."
    else:
        budget = f"**The budgets differ**: {min(trials)} to {max(trials)} trials."
    rows = [
        [task, method, ", ".join(_words(group) for group in recipe.values() if group)]
        for task, methods in contents["recipes"].items()
        for method, recipe in methods.items()
    ]
    shared: dict[str, list[str]] = {}
    for task, other in contents["as"].items():
        shared.setdefault(other, []).append(f"`{task}`")
    out: list[Block] = [
        Heading(2, "Hyperparameters"),
        Text(
            ("Those of the runs at full scale; a small run replaces some, see above. " if small else "")
            + f"{contents['how']} {budget}"
        ),
        Text(
            "The paper chooses a fixed learning rate of stochastic gradient ascent from 0.05, 0.02, 0.01 and 0.005 and "
            "a batch size from 10, 20, 40, 80 and 160 on the validation set, and trains the CD methods for 200 epochs "
            "and MLE-MF, MLE-BP, LSSVM and MSSVM for 50, with early stopping, which it found better than a penalty on "
            "the weights; of initial weights it says nothing. Ours differ for all methods alike: Adam, rates that fall "
            "linearly to zero, batches of 40, weight decay, centred features, averages of the parameters, a logistic "
            "start for W_vx and b_v, W_hx that starts like the transpose of W_vh, and so fewer epochs."
        ),
    ]
    if shared:
        sentences = [f"Those of `{other}` are also used for {', '.join(tasks)}" for other, tasks in shared.items()]
        out.append(Text("; ".join(sentences) + ": where these have none of their own."))
    return [*out, Fold("All of them", [Table(["task", "method", "hyperparameters"], rows, words=3)])]


def _words(keywords: Mapping[str, Any]) -> str:
    """epochs 8, learning_rate 0.01, rates (W_vx 0.05)."""

    def text(value: Any) -> str:
        if isinstance(value, Mapping):
            return f"({_words(value)})"
        return f"{value:g}" if isinstance(value, float) else str(value)

    return ", ".join(f"{key} {text(value)}" for key, value in keywords.items())


def count(n: int, what: str) -> str:
    """1 run, 2 runs."""
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


def time_text(seconds: float) -> str:
    """12 s, 3 min 05 s, 2 h 10 min."""
    if seconds < 60:
        return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


# --- Markdown ---------------------------------------------------------------------------------------------------------


def markdown(document: Iterable[Block]) -> str:
    """Blocks as Markdown, tables aligned; pictures are files beside it."""
    return "\n\n".join(_markdown(block) for block in document)


def _markdown(block: Block) -> str:
    match block:
        case Heading(level, text):
            return f"{'#' * level} {text}"
        case Text(text):
            return text
        case Bullets(items):
            return "\n".join(f"- {item}" for item in items)
        case Picture(name, _, caption):
            return f"![{caption}]({name}.png)\n\n{caption}"
        case Fold(title, inner):
            return f"<details>\n<summary>{title}</summary>\n\n{markdown(inner)}\n\n</details>"
        case Table():
            return _markdown_table(block)


def _markdown_table(table: Table) -> str:
    titles = [title for title, span in table.groups for _ in range(span)] or [""] * len(table.header)
    # Markdown has one header row: the group goes before the first of its columns
    header = [
        f"{title}: {name}" if title and (i == 0 or titles[i - 1] != title) else name
        for i, (title, name) in enumerate(zip(titles, table.header, strict=True))
    ]
    rows = [[text.replace("|", "\\|") for text in row] for row in table.rows]
    widths = [max(3, *(len(row[i]) for row in [header, *rows])) for i in range(len(header))]
    rule = ["-" * w if i < table.words else "-" * (w - 1) + ":" for i, w in enumerate(widths)]
    sides = [str.ljust if i < table.words else str.rjust for i in range(len(widths))]
    return "\n".join(
        "| " + " | ".join(side(text, width) for side, text, width in zip(sides, row, widths, strict=True)) + " |"
        for row in [header, rule, *rows]
    )


# --- HTML -------------------------------------------------------------------------------------------------------------

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #222; background: #fff; max-width: 60rem; margin: 2rem auto;
       padding: 0 1rem; }
h1 { font-size: 1.6rem; line-height: 1.25; } h2 { font-size: 1.25rem; margin-top: 2.2rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; margin: 1rem 0; font-size: 0.92rem; }
th, td { padding: 0.2rem 0.7rem; text-align: right; white-space: nowrap; vertical-align: top; }
th { font-weight: 600; border-bottom: 1px solid #888; } thead tr.groups th { border-bottom: 1px solid #ccc;
     text-align: center; }
tbody tr:nth-child(even) { background: #f6f7f9; } .word { text-align: left; } .wide { white-space: normal; }
.first { padding-left: 2rem; }
td.muted, th.muted { color: #777; font-weight: 400; } td.muted b { font-weight: 600; }
figure { margin: 1.5rem 0; } img { max-width: min(100%, 42rem); height: auto; }
figcaption { color: #555; font-size: 0.9rem; }
details { margin: 0.7rem 0; overflow-x: auto; } summary { cursor: pointer; }
code { background: #f0f1f3; padding: 0 0.25em; border-radius: 3px; font-size: 0.9em; }
.scroll { overflow-x: auto; }
""".strip()


def page(document: Sequence[Block]) -> str:
    """Blocks as a page of HTML with everything in it: no other file, no network."""
    title = next(block.text for block in document if isinstance(block, Heading))
    body = "\n".join(_html(block) for block in document)
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{html.escape(title)}</title>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<style>\n{_STYLE}\n</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def _html(block: Block) -> str:
    match block:
        case Heading(level, text):
            return f"<h{level}>{_inline(text)}</h{level}>"
        case Text(text):
            return f"<p>{_inline(text)}</p>"
        case Bullets(items):
            return "<ul>\n" + "\n".join(f"<li>{_inline(item)}</li>" for item in items) + "\n</ul>"
        case Picture(_, png, caption):
            data = base64.b64encode(png).decode()
            alt = html.escape(caption, quote=True)
            return (
                f'<figure><img src="data:image/png;base64,{data}" alt="{alt}">\n'
                f"<figcaption>{_inline(caption)}</figcaption></figure>"
            )
        case Fold(title, inner):
            contents = "\n".join(_html(b) for b in inner)
            return f"<details>\n<summary>{_inline(title)}</summary>\n{contents}\n</details>"
        case Table():
            return _html_table(block)


def _html_table(table: Table) -> str:
    starts = {sum(span for _, span in table.groups[:g]) for g in range(2, len(table.groups))}

    def kind(i: int) -> str:
        names = [*(["word"] if i < table.words else []), *(["muted"] if i in table.muted else [])]
        names += ["wide"] if i == table.words - 1 > 1 else []
        names += ["first"] if i in starts else []
        return f' class="{" ".join(names)}"' if names else ""

    def line(tag: str, row: Sequence[str]) -> str:
        return "<tr>" + "".join(f"<{tag}{kind(i)}>{_inline(t)}</{tag}>" for i, t in enumerate(row)) + "</tr>"

    rows = []
    if table.groups:
        spans = "".join(f'<th colspan="{span}">{_inline(title)}</th>' for title, span in table.groups)
        rows.append(f'<tr class="groups">{spans}</tr>')
    rows.append(line("th", table.header))
    head, tail = "\n".join(rows), "\n".join(line("td", row) for row in table.rows)
    return f'<div class="scroll"><table>\n<thead>\n{head}\n</thead>\n<tbody>\n{tail}\n</tbody>\n</table></div>'


def _inline(text: str) -> str:
    """Escaped, with **bold** and `code`."""
    text = html.escape(text, quote=False)
    text = re.sub(r"`([^`]+)`", r"<code>\1</code>", text)
    return re.sub(r"\*\*(.+?)\*\*", r"<b>\1</b>", text)
