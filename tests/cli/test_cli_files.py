"""Files that are given to the commands: nothing in them is run, and what is wrong is said in one line."""

import numpy as np
import pytest
from helpers.cli import fails


class Trap:
    """What unpickling would run."""

    def __reduce__(self):
        return exit, ("the file has run code",)


ONES = np.ones((4, 3))


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"X": ONES}, "has no V, the outputs to learn; make it with numpy.savez(FILE, X=X, V=V)"),
        ({"x": ONES, "y": ONES}, "has neither X (features) nor V (outputs), it has x, y; make it with"),
        ({}, "it is empty"),
        ({"V": np.array([[Trap()]], dtype=object)}, "it holds Python objects, which may run code; make it with"),
        ({"V": np.array([["a"]])}, "V has dtype <U1; expected real numbers"),
        ({"V": np.ones((2, 2), complex)}, "V has dtype complex128; expected real numbers"),
        ({"V": np.ones(3)}, "V has shape (3,); expected (instances, columns)"),
        ({"V": np.ones((0, 3))}, "V has shape (0, 3); expected (instances, columns), none of them 0"),
        ({"X": np.ones((4, 0)), "V": ONES}, "X has shape (4, 0); expected"),
        ({"X": np.ones((5, 2)), "V": ONES}, "X has 5 and V has 4 rows; expected an instance in each row of both"),
        ({"V": ONES * 2}, "V[0, 0] = 2.0; expected 0 or 1"),
        ({"X": ONES * np.nan, "V": ONES}, "X[0, 0] = nan; expected finite; remove or impute it"),
    ],
)
def test_bad_data(arrays, message, tmp_path, capsys):
    path = tmp_path / "data.npz"
    np.savez(path, **arrays)
    assert message in fails(capsys, "train", path, "--out", tmp_path / "m.npz")
    assert [p.name for p in tmp_path.iterdir()] == ["data.npz"]


@pytest.mark.parametrize("contents", [b"", b"X,V\n1,0\n", b"PK\x03\x04 and no more", b"\x80\x04N."])
def test_files_that_are_no_npz(contents, tmp_path, capsys):
    path = tmp_path / "data.npz"
    path.write_bytes(contents)
    assert f"{path} is not an .npz of plain arrays, or is damaged: " in fails(
        capsys, "train", path, "--out", tmp_path / "m.npz"
    )


def test_other_files(tmp_path, data, model, capsys):
    out = ["--out", tmp_path / "o.npz"]
    np.save(tmp_path / "v.npy", ONES)
    assert "v.npy holds one array without a name; make it with" in fails(capsys, "train", tmp_path / "v.npy", *out)
    assert f"{tmp_path / 'no.npz'}: No such file or directory" in fails(capsys, "train", tmp_path / "no.npz", *out)
    assert f"{tmp_path}: Is a directory" in fails(capsys, "train", tmp_path, *out)
    whole = data.read_bytes()
    data.write_bytes(whole[: len(whole) // 2])
    assert "or is damaged" in fails(capsys, "train", data, *out)
