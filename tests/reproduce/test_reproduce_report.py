"""The report: every cell, every claim, one page that needs nothing else, figures from the results alone."""

import base64
import html.parser
import re

import numpy as np
import pytest
from helpers import ROOT
from helpers.reproduce import fake_result, run_command, some_runs, with_train_keywords

from reproduce import claims, figures, report, results, tasks
from reproduce.methods import METHODS
from reproduce.runner import perform


def test_the_report_begins_with_mle_bp_and_the_papers_best():
    found = {}
    for task, error in (("mnist-noisy-10", 1.6), ("caltech-occluded-12", 4.54)):
        found[f"{task}/MLE-BP"] = fake_result(task, "MLE-BP", error, 10) | {"made": {"seconds": {"total": 60}}}
    assert report._best(found) == [
        ["`mnist-noisy-10`", "**1.600**", "1.688", "1.688 (MLE-BP)", "1 min 00 s"],
        ["`caltech-occluded-12`", "4.540", "4.548", "4.534 (MSSVM)", "1 min 00 s"],
    ]
    assert report._best({}) == []


def test_the_report_has_every_cell(whole):
    text = (whole / "report.md").read_text()
    found = results.read_all(whole)
    for table in tasks.TABLES:
        section = text.split(f"## Table {table[-1]}. ")[1].split("\n## ")[0]
        rows = {
            row[0]: row[1:]
            for row in (
                re.findall(r"\| +(\S.*?)(?= +\|)", "| " + line[2:])
                for line in section.splitlines()
                if line.startswith("| ")
            )
            if row and row[0] in METHODS
        }
        assert list(rows) == list(METHODS)
        for method, cells in rows.items():
            expected = []
            for task in tasks.TABLES[table]:
                for error in ("all", "changed"):
                    expected.append(100 * found[f"{task.name}/{method}"]["test"][error])
                    expected.append(claims.paper_cell(task.name, method, error))
            assert [float(c.strip("*")) for c in cells] == [float(f"{x:.3f}") for x in expected]
        lines = [line for line in section.splitlines() if line.startswith("|")]
        assert len({len(line) for line in lines}) == 1  # aligned
    assert "This is a small run" in text
    assert "**holds**" not in text
    full = {name: {**result, "scale": {**result["scale"], "name": "full"}} for name, result in found.items()}
    text = report.markdown(full, {})
    for claim in (*claims.CLAIMS, *claims.CELLS):
        assert claims.sentence(found, claim) in text


class Page(html.parser.HTMLParser):
    """Tags that are open, and whatever could reach for another file."""

    def __init__(self):
        super().__init__()
        self.open, self.links, self.tags, self.text = [], [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag not in ("meta", "img"):
            self.open.append(tag)
        self.links += [value for name, value in attrs if name in ("src", "href", "srcset", "data", "action", "poster")]

    def handle_startendtag(self, tag, attrs):
        assert tag == "img"
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def test_the_page_needs_nothing_else(whole):
    contents = (whole / "report.html").read_text()
    page = Page()
    page.feed(contents)
    page.close()
    assert page.open == []
    assert {"script", "link", "iframe", "object", "a"}.isdisjoint(page.tags)
    assert len(page.links) == page.tags.count("img") == 3
    for link in page.links:
        assert link.startswith("data:image/png;base64,")
        assert base64.b64decode(link.split(",")[1]).startswith(b"\x89PNG\r\n")
    assert "://" not in contents
    assert "url(" not in contents
    assert "@import" not in contents
    text = "".join(page.text)
    assert "**" not in text
    assert "`" not in text
    found = results.read_all(whole)
    for name in ("mnist-noisy-10/MLE-BP", "caltech-occluded-12/MSSVM"):
        assert f"{100 * found[name]['test']['all']:.3f}" in text


def test_messages_are_not_markup():
    text = "a < b & **c** `d<e` <script>x</script> [y](z) learning_rate _f_\n| g"
    page = report.page(f"# Title <b>\n\n- {report.plain(text)}\n", {})
    assert "<li>a &lt; b &amp; **c** `d&lt;e` &lt;script&gt;x&lt;/script&gt; [y](z) learning_rate _f_ | g</li>" in page
    assert "<title>Title &lt;b&gt;</title>" in page


def test_tables_are_aligned_and_their_bars_escaped():
    text = report.table([["a", "1.5"], ["b|c", "**10**"]], ["name", "x"])
    assert text == "| name |      x |\n| ---- | -----: |\n| a    |    1.5 |\n| b\\|c | **10** |"


def test_figures_are_drawn_from_the_results_alone(whole):
    from matplotlib.image import imread

    for name, least in {"fig-occlusion": 2, "fig-convergence": 2, "fig-demo": 2}.items():
        image = imread(whole / f"{name}.png")
        assert image.shape[1] > 600
        assert len(np.unique(image[..., :3].reshape(-1, 3), axis=0)) > least


def test_a_part_of_the_runs_makes_a_part_of_the_report(tmp_path, tiny, capsys):
    assert run_command("fig-convergence", "--jobs", "1", out=tmp_path) == 0
    text = (tmp_path / "report.md").read_text()
    assert "## Table 2." in text
    assert "## Table 1." not in text
    assert re.search(r"\| LR +\| +- \| +1\.468 \|", text)
    assert (tmp_path / "fig-convergence.png").is_file()
    capsys.readouterr()
    assert run_command("table1", "--methods", "lr", "--list", out=tmp_path) == 0
    assert re.fullmatch(r"mnist-noisy-10/LR +to do\nmnist-noisy-20/LR +to do\n", capsys.readouterr().out)
    (tmp_path / "report.html").unlink()
    assert run_command("--report-only", out=tmp_path) == 0
    assert (tmp_path / "report.html").is_file()


def test_old_runs_are_told(tmp_path, tiny):
    perform([with_train_keywords(some_runs("mnist-noisy-10/LR")[0], learning_rate=0.5)], tmp_path)
    report.write_report(tmp_path)
    text = (tmp_path / "report.md").read_text()
    assert "**Older than the hyperparameters or the experiment's code**" in text
    assert "to be done again: mnist-noisy-10/LR." in text


def test_without_matplotlib(tmp_path, tiny, monkeypatch, capsys):
    monkeypatch.setattr(figures, "available", lambda: False)
    assert run_command("fig-demo", out=tmp_path / "a") == 2
    assert 'figures need matplotlib: pip install "crbm_fast[plots]"' in capsys.readouterr().err
    assert run_command("table1", "--methods", "LR", "--jobs", "1", out=tmp_path / "b") == 0
    assert "the report will have no pictures" in capsys.readouterr().err
    assert "None here: figures need matplotlib" in (tmp_path / "b" / "report.md").read_text()
    assert not list(tmp_path.rglob("*.png"))


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.34, "0.3 s"), (12.3, "12 s"), (185, "3 min 05 s"), (7830, "2 h 10 min")]
)
def test_times_are_readable(seconds, text):
    assert report.time_text(seconds) == text


def test_the_committed_report_is_that_of_the_committed_results():
    """Nothing in it was written by hand."""
    folder = ROOT / "reproduce" / "results"
    found = results.read_all(folder)
    pictures = {
        name: (folder / f"{name}.png").read_bytes() for name in ("fig-occlusion", "fig-convergence", "fig-demo")
    }
    text = report.markdown(found, pictures)
    assert text == (folder / "report.md").read_text()
    page = (folder / "report.html").read_text()
    assert [base64.b64encode(png).decode() in page for png in pictures.values()] == [True] * 3
