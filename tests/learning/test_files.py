"""Model files: round trips, atomic writes, and everything a hostile or damaged file can try."""

import io
import json
import os
import pickle
import stat
import zipfile

import numpy as np
import pytest
from helpers import make_crbm

import crbm_fast as cf
from crbm_fast import _files
from crbm_fast._errors import CorruptedFileError, FileVersionError


@pytest.fixture
def saved(rng, tmp_path, dtype):
    model = make_crbm(rng, 5, 4, 3, dtype=dtype)
    model.inference = cf.Inference("mean-field", 12, 1e-4, 0.1)
    path = tmp_path / "model.npz"
    model.save(path)
    return model, path


def test_round_trip(saved):
    model, path = saved
    loaded = cf.CRBM.load(path)
    for name, p in model.parameters().items():
        assert loaded.parameters()[name].dtype == p.dtype
        np.testing.assert_array_equal(loaded.parameters()[name], p)
    assert loaded.inference == model.inference
    assert type(loaded) is cf.CRBM


def test_an_rbm_stays_one(tmp_path):
    path = tmp_path / "rbm.npz"
    cf.RBM(5, 4).save(path)
    assert type(cf.RBM.load(path)) is cf.RBM
    assert type(cf.CRBM.load(path)) is cf.RBM
    cf.CRBM(5, 4, 3).save(path)
    with pytest.raises(TypeError, match=r"holds a CRBM; load it with crbm_fast\.CRBM\.load"):
        cf.RBM.load(path)


def test_numpy_opens_it_and_the_same_model_gives_the_same_bytes(saved, tmp_path):
    model, path = saved
    with np.load(path, allow_pickle=False) as file:
        np.testing.assert_array_equal(file["W_vh"], model.W_vh)
        meta = json.loads(file["meta"].tobytes())
    assert meta["format"] == "crbm_fast model"
    assert meta["version"] == 1
    model.save(tmp_path / "again.npz")
    assert (tmp_path / "again.npz").read_bytes() == path.read_bytes()


def test_writing_is_atomic(saved, monkeypatch):
    """A write that fails leaves the old file and nothing else."""
    model, path = saved
    before = path.read_bytes()
    for name in ("fsync", "replace"):
        with monkeypatch.context() as m:
            m.setattr(_files.os, name, lambda *a: (_ for _ in ()).throw(OSError("no space left")))
            with pytest.raises(OSError, match="no space left"):
                model.save(path)
        assert path.read_bytes() == before
        assert os.listdir(path.parent) == [path.name]


def test_mode_of_the_file_follows_the_umask(saved):
    model, path = saved
    old = os.umask(0o027)
    try:
        model.save(path)
    finally:
        os.umask(old)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_every_truncation_is_refused(saved):
    _, path = saved
    whole = path.read_bytes()
    for size in [*range(0, len(whole), 37), len(whole) - 1]:
        path.write_bytes(whole[:size])
        with pytest.raises(CorruptedFileError) as error:
            cf.CRBM.load(path)
        assert error.value.path == str(path)


def test_flipped_bits_are_noticed_or_harmless(saved):
    """A flipped bit gives an error, or (in zip's own bookkeeping) the same parameters; never another model."""
    model, path = saved
    whole = path.read_bytes()
    noticed = 0
    for at in range(0, len(whole), 11):
        damaged = bytearray(whole)
        damaged[at] ^= 0x10
        path.write_bytes(damaged)
        try:
            loaded = cf.CRBM.load(path)
        except ValueError:
            noticed += 1
        else:
            for name, p in model.parameters().items():
                np.testing.assert_array_equal(loaded.parameters()[name], p)
    assert noticed > len(whole) / 11 / 2


class Bomb:
    def __reduce__(self):
        return os.mkdir, (Bomb.path,)


def members(saved, **changes):
    """The members of a good file as {name: bytes}, some replaced by arrays or bytes, or left out (None)."""
    _, path = saved
    with zipfile.ZipFile(path) as archive:
        out = {name: archive.read(name) for name in archive.namelist()}
    for name, value in changes.items():
        if value is None:
            del out[f"{name}.npy"]
        elif isinstance(value, bytes):
            out[f"{name}.npy"] = value
        else:
            buffer = io.BytesIO()
            np.save(buffer, value, allow_pickle=True)
            out[f"{name}.npy"] = buffer.getvalue()
    return out


def pack(path, contents, compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in contents.items():
            archive.writestr(name, data)


def meta(**changes):
    good = {
        "format": "crbm_fast model",
        "version": 1,
        "model": "CRBM",
        "inference": {"method": "sum-product", "max_iter": 5, "tol": 0.001, "damping": 0.0},
    }
    return np.frombuffer(json.dumps(good | changes).encode(), np.uint8)


HEADER = b"\x93NUMPY\x01\x00v\x00"


@pytest.mark.parametrize(
    "changes",
    [
        {"W_vh": None},
        {"meta": None},
        {"extra": np.zeros(3)},
        {"W_vh": np.zeros((5, 4, 1))},
        {"W_vh": np.zeros((6, 4))},
        {"b_v": np.zeros(4)},
        {"b_v": np.full(5, np.nan)},
        {"b_v": np.zeros(5, complex)},
        {"b_v": np.array(["a"] * 5)},
        {"b_v": b"not an array"},
        {"b_v": HEADER + b"{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999999,), }".ljust(117) + b"\n"},
        {"b_v": HEADER + b"{'descr': '<f8', 'fortran_order': False, 'shape': (-1,), }".ljust(117) + b"\n"},
        {"b_v": HEADER + b"{'descr': '|O', 'fortran_order': False, 'shape': (5,), }".ljust(117) + b"\n"},
        {"b_v": HEADER + b"{'descr': ('<f8',".ljust(117) + b"\n"},
        {"b_v": b"\x93NUMPY\x01\x00\xb0\x26" + b"-" * 9903 + b"1"},
        {"b_v": HEADER + b"{'descr': '<f8', 'fortran_order': False, 'shape': (5L,), }".ljust(117) + b"\n" + bytes(40)},
        {"b_v": HEADER + b"__import__('os').mkdir('pwned')".ljust(117) + b"\n"},
        {"meta": np.frombuffer(b"{", np.uint8)},
        {"meta": np.frombuffer(b"[" * 100_000, np.uint8)},
        {"meta": np.frombuffer(b"[1, 2]", np.uint8)},
        {"meta": meta(format="something else")},
        {"meta": meta(version=0)},
        {"meta": meta(version="1")},
        {"meta": meta(model="os.system")},
        {"meta": meta(inference={"method": "sum-product", "max_iter": 0})},
        {"meta": meta(inference={"command": "rm"})},
        {"meta": meta(inference=7)},
    ],
)
def test_hostile_members(saved, tmp_path, changes, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "hostile.npz"
    pack(path, members(saved, **changes))
    with pytest.raises(CorruptedFileError) as error:
        cf.CRBM.load(path)
    assert error.value.path == str(path)
    assert error.value.reason
    assert sorted(os.listdir(tmp_path)) == ["hostile.npz", "model.npz"]


def test_a_file_of_a_later_version_is_refused(saved, tmp_path):
    path = tmp_path / "later.npz"
    pack(path, members(saved, meta=meta(version=2)))
    with pytest.raises(FileVersionError, match="upgrade crbm_fast") as error:
        cf.CRBM.load(path)
    assert (error.value.kind, error.value.version, error.value.readable) == ("crbm_fast model", 2, 1)


def test_no_pickle_is_ever_run(saved, tmp_path):
    Bomb.path = str(tmp_path / "pwned")
    path = tmp_path / "hostile.npz"
    pack(path, members(saved, b_v=np.array([Bomb()] * 5, object)))
    with pytest.raises(ValueError, match="an array with the header"):
        cf.CRBM.load(path)
    path.write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(ValueError, match="not a file of crbm_fast"):
        cf.CRBM.load(path)
    assert not os.path.exists(Bomb.path)


def test_compressed_members_are_refused_unread(saved, tmp_path):
    path = tmp_path / "bomb.npz"
    pack(path, members(saved, b_v=np.zeros(10_000_000)), zipfile.ZIP_DEFLATED)
    with pytest.raises(ValueError, match="compressed members"):
        cf.CRBM.load(path)


def test_two_members_of_one_name_are_refused(saved, tmp_path):
    path = tmp_path / "twice.npz"
    contents = members(saved)
    pack(path, contents)
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("b_v.npy", contents["b_v.npy"])
    with pytest.raises(ValueError, match="two members of one name"):
        cf.CRBM.load(path)


@pytest.mark.parametrize("contents", [b"", b"hello", b"PK\x05\x06" + 18 * b"\0", b"\x93NUMPY" + 100 * b"\0"])
def test_foreign_files(tmp_path, contents):
    path = tmp_path / "foreign"
    path.write_bytes(contents)
    with pytest.raises(CorruptedFileError):
        cf.CRBM.load(path)


def test_a_checkpoint_is_not_a_model_and_a_model_no_checkpoint(saved, rng):
    _, path = saved
    X, V = rng.random((20, 3)), rng.random((20, 5)) < 0.5
    with pytest.raises(ValueError, match="expected a 'crbm_fast checkpoint'"):
        cf.train(cf.CRBM(5, 4, 3), X, V, checkpoint=path, resume=True)
    cf.train(cf.CRBM(5, 4, 3), X, V, epochs=1, checkpoint=path)
    with pytest.raises(ValueError, match="expected a 'crbm_fast model'"):
        cf.CRBM.load(path)


def test_a_small_file_does_not_ask_for_much_memory(saved, tmp_path):
    """Shapes are compared before anything of the size they multiply to is made: 10^6 x 10^6 here."""
    path, n = tmp_path / "hostile.npz", 10**6
    wide = np.zeros((1, n), np.float32)
    pack(path, members(saved, W_vh=wide, W_vx=wide, b_v=np.zeros(1), b_h=np.zeros(n), W_hx=np.zeros((0, 0))))
    with pytest.raises(ValueError, match="W_hx has shape"):
        cf.CRBM.load(path)


def test_what_cannot_be_loaded_is_not_saved(saved, tmp_path):
    model, path = saved
    before = path.read_bytes()
    model.b_v[2] = np.nan
    with pytest.raises(ValueError, match=r"b_v\[2\] = nan"):
        model.save(path)
    assert path.read_bytes() == before

    class Mine(cf.RBM):
        pass

    Mine(3, 2).save(path)
    assert type(Mine.load(path)) is Mine
    with pytest.raises(ValueError, match="no features"):
        Mine.from_parameters(np.ones((3, 2)), W_vx=np.ones((3, 4)))


def test_a_bad_argument_is_not_blamed_on_the_file(saved):
    with pytest.raises(ValueError, match=r"^n_threads=0 is outside"):
        cf.CRBM.load(saved[1], n_threads=0)


def test_a_missing_file_is_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        cf.CRBM.load(tmp_path / "nothing.npz")
    with pytest.raises(IsADirectoryError):
        cf.CRBM.load(tmp_path)
