"""Runs that are killed, resumed, done twice or by a cluster end with the same numbers."""

import contextlib
import dataclasses
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import time

import pytest
from helpers import ROOT
from helpers.reproduce import (
    TINY,
    assert_same_results,
    leftovers,
    modified,
    run_command,
    some_runs,
    start_command,
    with_train_keywords,
)

import crbm_fast as cf
from reproduce import execute, report, results, runner
from reproduce.methods import METHODS
from reproduce.runner import perform
from reproduce.runs import plan


def log_lines(folder):
    with contextlib.suppress(FileNotFoundError):
        return (folder / execute.LOG).read_text().splitlines()
    return []


def wait_for_epochs(process, folder, n):
    """Wait until the log has n more lines; False if the process has ended before."""
    before, deadline = len(log_lines(folder)), time.monotonic() + 120
    while process.poll() is None and len(log_lines(folder)) < before + n:
        assert time.monotonic() < deadline
        time.sleep(0.005)
    return process.poll() is None


def kill(process):
    """Kill a command, not its workers."""
    process.kill()
    process.stdout.close()  # workers may have it, too: nobody waits for its end
    process.wait()


# --- what is done again, and what is not ------------------------------------------------------------------------------


def test_only_what_has_changed_is_done_again(tmp_path, tiny):
    runs = some_runs("mnist-noisy-10/LR", "mnist-noisy-10/CD-1")
    ended = []
    perform(runs, tmp_path, on_result=ended.append)
    assert [result["name"] for result in ended] == [run.name for run in runs]
    before = modified(tmp_path)
    runs[0] = with_train_keywords(runs[0], learning_rate=0.1)
    perform(runs, tmp_path)
    assert sum(a != b for a, b in zip(before.values(), modified(tmp_path).values(), strict=True)) == 1
    before = modified(tmp_path)
    perform(runs, tmp_path, resume=False)
    assert not set(before.values()) & set(modified(tmp_path).values())


def test_a_damaged_checkpoint_fails_once(tmp_path):
    (run,) = some_runs("mnist-noisy-10/LR")
    path = results.path_of(tmp_path, run.name)
    path.parent.mkdir(parents=True)
    checkpoint = path.with_name(f"LR.{run.hash}.npz")
    checkpoint.write_text("garbage")
    perform([run], tmp_path)
    assert results.read(path)["error"]["type"] == "CorruptedFileError"
    assert not checkpoint.exists()
    perform([run], tmp_path)
    assert results.read(path)["error"] is None


def test_a_failed_attempt_keeps_its_checkpoint(tmp_path, monkeypatch):
    """A full disk, say, while testing: the training is not lost."""
    (run,) = some_runs("mnist-noisy-10/MLE-BP")

    def broken(*args):
        raise OSError("no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(execute, "_test", broken)
        perform([run], tmp_path)
    result = results.read_all(tmp_path)[run.name]
    assert result["error"] == {"type": "OSError", "message": "no space left on device", "final": False}
    assert len(leftovers(tmp_path)) == 1
    perform([run], tmp_path)
    result = results.read_all(tmp_path)[run.name]
    assert result["error"] is None
    assert result["made"]["resumed_after"] == 2
    assert leftovers(tmp_path) == []


def test_what_killed_processes_left_is_removed(tmp_path):
    """Checkpoints of other recipes, and temporary files that nobody writes any more; not those of a run under way."""
    (run,) = some_runs("mnist-noisy-10/LR")
    folder = results.path_of(tmp_path, run.name).parent
    folder.mkdir(parents=True)
    for name in ("LR.0123.npz", ".LR.json.1-a.tmp", ".LR.json.2-b.tmp", "CD-1.0123.npz"):
        (folder / name).write_text("")
    os.utime(folder / ".LR.json.1-a.tmp", (0, 0))
    perform([run], tmp_path)
    assert sorted(path.name for path in folder.iterdir()) == [".LR.json.2-b.tmp", "CD-1.0123.npz", "LR.json"]


def test_warnings_of_training_are_kept(tmp_path, monkeypatch):
    real = execute.train

    def noisy(*args, **kw):
        execute.warnings.warn("something to know", cf.ConvergenceWarning, stacklevel=1)
        return real(*args, **kw)

    monkeypatch.setattr(execute, "train", noisy)
    perform(some_runs("mnist-noisy-10/LR"), tmp_path)
    assert results.read_all(tmp_path)["mnist-noisy-10/LR"]["warnings"] == ["something to know"]
    report.write_report(tmp_path)
    assert "something to know" in (tmp_path / "report.html").read_text()


def test_what_a_callback_raises_is_no_error_of_the_run(tmp_path):
    def fail(result):
        raise ZeroDivisionError("mine")

    for jobs in (1, 2):
        with pytest.raises(ZeroDivisionError, match="mine"):
            perform(plan(["fig-demo"], TINY), tmp_path, jobs=jobs, on_result=fail)
        assert not any(result["error"] for result in results.read_all(tmp_path).values())


# --- several processes ------------------------------------------------------------------------------------------------


def test_one_process_gives_the_same_as_two(tmp_path, whole):
    runs = plan(["table1"], TINY, ["MLE-BP", "CD-1", "MSSVM"])
    perform(runs, tmp_path)
    expected = results.read_all(whole)
    assert_same_results({run.name: expected[run.name] for run in runs}, results.read_all(tmp_path))


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path):
    path = tmp_path / "a.json"
    results.replace_file(path, b"old")
    with pytest.raises(TypeError):
        results.replace_file(path, "not bytes")
    assert path.read_bytes() == b"old"
    assert leftovers(tmp_path) == []


def test_a_killed_worker_is_reported_and_replaced(tmp_path):
    """The others lose at most what is since their checkpoints."""
    scale = dataclasses.replace(TINY, keywords={**TINY.keywords, "epochs": 4})
    runs = some_runs(*(f"mnist-occluded-8/{m}" for m in METHODS), scale=scale)
    ended, losses = [], []

    def kill_one(result):
        ended.append(result["name"])
        if len(ended) == 1:
            os.kill(children()[0], signal.SIGKILL)

    perform(runs, tmp_path, jobs=2, on_result=kill_one, on_loss=losses.append)
    assert sorted(ended) == sorted(run.name for run in runs)
    assert losses == ["a process was killed; new ones go on with what it has left"]
    assert set(results.read_all(tmp_path)) == {run.name for run in runs}


def children():
    """The processes of joblib's pool."""
    return [process.pid for process in multiprocessing.active_children() if type(process).__name__ == "LokyProcess"]


def test_workers_that_are_killed_again_and_again_are_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "execute", kill_this_process)
    runs, losses = plan(["fig-demo"], TINY), []
    with pytest.raises(runner.WorkersLostError, match=r"killed 3 times in a row .* and left mnist-noisy-10/MLE-BP"):
        perform(runs, tmp_path, jobs=2, on_loss=losses.append)
    assert len(losses) == 2


def kill_this_process(run, where):
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_killed_and_resumed_it_ends_the_same(tmp_path, jobs):
    """SIGKILL the command again and again, at odd moments; orphaned workers end by themselves."""
    wanted = ["fig-demo", "--methods", "MLE-BP", "--jobs", jobs]
    out = tmp_path / "out"
    kills = 0
    while kills < 3:
        process = start_command(*wanted, "--out", str(out))
        if not wait_for_epochs(process, out, 2):  # faster than we look
            process.communicate()
            break
        kill(process)
        kills += 1
    assert kills
    process = start_command(*wanted, "--out", str(out))
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, output
    process = start_command(*wanted, "--out", str(tmp_path / "whole"))
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, output
    found = results.read_all(out)
    assert_same_results(results.read_all(tmp_path / "whole"), found)
    assert max(result["made"]["resumed_after"] for result in found.values()) > 0
    assert [path for path in leftovers(out) if path.suffix == ".npz"] == []
    for name in ("report.md", "report.html"):
        assert (out / name).is_file()


@pytest.mark.slow
def test_orphaned_workers_end(tmp_path):
    """After their epoch: the command that started them was killed."""
    out = tmp_path / "out"
    process = start_command("table1", "table2", "--methods", "MLE-BP", "--jobs", "2", "--out", str(out))
    assert wait_for_epochs(process, out, 2)
    kill(process)
    deadline = time.monotonic() + 60
    while members(process.pid):
        assert time.monotonic() < deadline, members(process.pid)
        time.sleep(0.1)
    assert len(results.read_all(out)) < 4


def members(group):
    """The processes of a process group."""
    listed = subprocess.run(["ps", "-eo", "pgid=,pid=,args="], capture_output=True, text=True).stdout.splitlines()
    return [line for line in listed if line.split()[0] == str(group) and "defunct" not in line]


@pytest.mark.slow
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_ctrl_c_ends_quickly(tmp_path, jobs):
    """In a terminal it reaches the command and its workers alike."""
    out = tmp_path / "out"
    process = start_command("--jobs", jobs, "--out", str(out))
    assert wait_for_epochs(process, out, 2)
    os.killpg(process.pid, signal.SIGINT)
    begin = time.monotonic()
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 130, output
    assert time.monotonic() - begin < 15
    assert "interrupted; the same command goes on from here" in output
    assert "Traceback" not in output
    assert not any(result["error"] for result in results.read_all(out).values())


@pytest.mark.slow
def test_two_commands_on_one_folder(tmp_path):
    """Both end with everything done; a run that both have done has one result, the same as any."""
    out = tmp_path / "out"
    wanted = ["table1", "--methods", "LR", "CD-1", "--jobs", "1"]
    commands = [start_command(*wanted, "--out", str(out)) for _ in range(2)]
    outputs = [process.communicate(timeout=300)[0] for process in commands]
    assert [process.returncode for process in commands] == [0, 0], outputs
    for output in outputs:
        assert "everything is there: 4 runs" in output
    alone = start_command(*wanted, "--out", str(tmp_path / "alone"))
    output, _ = alone.communicate(timeout=300)
    assert alone.returncode == 0, output
    assert_same_results(results.read_all(tmp_path / "alone"), results.read_all(out))
    assert leftovers(out) == []


# --- a cluster --------------------------------------------------------------------------------------------------------


@pytest.fixture
def cluster(tmp_path):
    """The address of a dask scheduler on this machine, and two workers of one thread each."""
    arguments = ["--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(tmp_path / "s.json")]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": tmp_path, "env": environment}
    processes = [subprocess.Popen([sys.executable, "-m", "distributed.cli.dask_scheduler", *arguments], **silent)]
    try:
        deadline = time.monotonic() + 60
        while not (tmp_path / "s.json").is_file():
            assert time.monotonic() < deadline
            time.sleep(0.1)
        for _ in range(2):
            worker = ["--scheduler-file", str(tmp_path / "s.json"), "--nthreads", "1", "--no-nanny", "--no-dashboard"]
            command = [sys.executable, "-m", "distributed.cli.dask_worker", *worker, "--host", "127.0.0.1"]
            processes.append(subprocess.Popen(command, **silent))
        yield address(tmp_path / "s.json", 2), processes[1:]
    finally:
        for process in processes:
            process.kill()
            process.wait()


def address(file, n_workers):
    """The address in a scheduler's file, when that many workers are there."""
    import distributed

    with distributed.Client(scheduler_file=str(file), set_as_default=False) as client:
        client.wait_for_workers(n_workers, timeout=60)
        return client.scheduler.address


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # what distributed warns about is not ours
def test_a_cluster_gives_the_same(cluster, tmp_path, whole, tiny, capsys):
    scheduler, _ = cluster
    assert run_command("fig-demo", "--scheduler", scheduler, out=tmp_path / "out") == 0
    assert f"by the workers of {scheduler}" in capsys.readouterr().out
    found = results.read_all(tmp_path / "out")
    assert len(found) == 2
    expected = results.read_all(whole)
    assert_same_results({name: expected[name] for name in found}, found)


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_a_worker_of_a_cluster_that_is_gone_is_reported(cluster, tmp_path):
    scheduler, workers = cluster
    scale = dataclasses.replace(TINY, keywords={**TINY.keywords, "epochs": 12})
    runs = some_runs(*(f"mnist-occluded-8/{m}" for m in METHODS), scale=scale)
    ended, losses = [], []

    def kill_one(result):
        ended.append(result["name"])
        if len(ended) == 1:
            workers[0].kill()

    perform(runs, tmp_path / "out", scheduler=scheduler, on_result=kill_one, on_loss=losses.append)
    assert sorted(ended) == sorted(run.name for run in runs)
    assert len(losses) == 1
    assert re.fullmatch(r"the worker tcp://\S+ is gone; others do its runs", losses[0])


def test_results_of_workers_without_our_files_are_written_here(tmp_path, whole):
    result = results.read(results.path_of(whole, "mnist-noisy-10/LR"))
    runner._copy_here(result, tmp_path)
    assert results.read_all(tmp_path) == {"mnist-noisy-10/LR": result}
    before = modified(tmp_path)
    runner._copy_here(result, tmp_path)  # it is there
    assert modified(tmp_path) == before


def test_a_scheduler_that_is_not_there(tmp_path, tiny, capsys):
    import dask

    with dask.config.set({"distributed.comm.timeouts.connect": "0.2s"}):
        assert run_command("fig-demo", "--scheduler", "tcp://127.0.0.1:9", out=tmp_path / "out") == 2
    assert "tcp://127.0.0.1:9" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_workers_that_cannot_do_a_run_are_told(cluster, tmp_path, monkeypatch):
    """Here because they cannot import this module, as they could not import reproduce outside of a clone."""
    scheduler, _ = cluster
    monkeypatch.setattr(runner, "execute", kill_this_process)
    losses = []
    with pytest.raises(runner.WorkersLostError, match=r"have left mnist-noisy-10/MLE-BP, .*PYTHONPATH=\. dask worker"):
        perform(plan(["fig-demo"], TINY), tmp_path, scheduler=scheduler, on_loss=losses.append)
    assert len(losses) == 2
    assert all("ModuleNotFoundError" in message for message in losses), losses


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_workers_with_several_threads_are_refused(cluster, tmp_path, monkeypatch):
    scheduler, _ = cluster
    monkeypatch.setattr(runner, "_workers", lambda client: {"tcp://there": {"nthreads": 2}})
    with pytest.raises(ValueError, match="the worker tcp://there does several runs in a process"):
        perform(plan(["fig-demo"], TINY), tmp_path, scheduler=scheduler)


@pytest.mark.slow
def test_ctrl_c_with_a_cluster(cluster, tmp_path):
    scheduler, _ = cluster
    process = start_command("--scheduler", scheduler, "--out", str(tmp_path / "out"))
    assert wait_for_epochs(process, tmp_path / "out", 2)
    process.send_signal(signal.SIGINT)
    begin = time.monotonic()
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 130, output
    assert time.monotonic() - begin < 15
    assert "runs under way on the cluster end by themselves; the same command goes on from here" in output
    assert "Traceback" not in output
