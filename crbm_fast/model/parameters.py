"""The five parameter arrays of a model, its settings, and what the rest of the package computes with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from crbm_fast import _algebra
from crbm_fast import _validation as check
from crbm_fast._data import Matrix, Rows, affine
from crbm_fast.inference import Engine, Inference

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, DTypeLike, NDArray

PARAMETERS = ("W_vh", "W_vx", "W_hx", "b_v", "b_h")


def _shapes(nv: int, nh: int, nx: int) -> dict[str, tuple[int, ...]]:
    return {"W_vh": (nv, nh), "W_vx": (nv, nx), "W_hx": (nh, nx), "b_v": (nv,), "b_h": (nh,)}


def _parameter(name: str, doc: str) -> Any:
    return property(lambda self: self._parameters[name], lambda self, value: self._assign(name, value), doc=doc)


class Parameters:
    """Parameters and settings of a model; `CRBM` describes them.

    The methods of the second part, from `threads` on, are for the rest of the package: they check nothing unless their
    name says so.
    """

    # Whether the model may have features; an RBM has none.
    has_features: ClassVar[bool] = True

    def __init__(self, arrays: dict[str, NDArray[Any]], n_threads: int | None, inference: Inference) -> None:
        self._parameters = arrays
        self.n_threads = n_threads
        self.inference = inference

    @classmethod
    def from_parameters(
        cls,
        W_vh: ArrayLike,
        *,
        b_v: ArrayLike | None = None,
        b_h: ArrayLike | None = None,
        W_vx: ArrayLike | None = None,
        W_hx: ArrayLike | None = None,
        dtype: DTypeLike | None = None,
        n_threads: int | None = None,
    ) -> Self:
        """A model with copies of the given parameters; those left out are 0.  `dtype` defaults to that of `W_vh`."""
        given = {"W_vh": W_vh, "W_vx": W_vx, "W_hx": W_hx, "b_v": b_v, "b_h": b_h}
        first = check.as_numeric("W_vh", W_vh)
        if first.ndim != 2:
            raise ValueError(f"W_vh has shape {first.shape}; expected (nv, nh)")
        kind = check.check_dtype(dtype, first)
        arrays = {name: check.as_float(name, a, kind, once=True) for name, a in given.items() if a is not None}
        nv, nh = first.shape
        nx = next((arrays[name].shape[-1] for name in ("W_vx", "W_hx") if name in arrays and arrays[name].ndim), 0)
        if nx > 0 and not cls.has_features:
            raise ValueError(f"an RBM has no features, but W_vx or W_hx has {nx} columns; use CRBM.from_parameters")
        shapes = _shapes(nv, nh, nx)
        for name, array in arrays.items():
            if array.shape != shapes[name]:
                raise ValueError(f"{name} has shape {array.shape}; expected {shapes[name]}, as W_vh has {first.shape}")
        copies = {
            name: arrays[name].copy() if name in arrays else np.zeros(shape, kind) for name, shape in shapes.items()
        }
        return cls._made_of(copies, n_threads, Inference())

    @classmethod
    def _made_of(cls, arrays: dict[str, NDArray[Any]], n_threads: int | None, inference: Inference) -> Self:
        """A model of these very arrays."""
        model = cls.__new__(cls)
        Parameters.__init__(model, arrays, n_threads, inference)
        return model

    @property
    def nv(self) -> int:
        """Number of visible units."""
        return int(self.W_vh.shape[0])

    @property
    def nh(self) -> int:
        """Number of hidden units."""
        return int(self.W_vh.shape[1])

    @property
    def nx(self) -> int:
        """Number of features."""
        return int(self.W_vx.shape[1])

    @property
    def dtype(self) -> np.dtype[Any]:
        """float32 or float64."""
        kind: np.dtype[Any] = self.W_vh.dtype
        return kind

    @property
    def n_threads(self) -> int | None:
        """The largest number of threads used; None means the cores this process may use."""
        return self._n_threads

    @n_threads.setter
    def n_threads(self, value: int | None) -> None:
        if value is not None:
            check.check_threads(value)
        self._n_threads = value

    @property
    def inference(self) -> Inference:
        """What `predict` and `predict_proba` use unless their keywords say otherwise."""
        return self._inference

    @inference.setter
    def inference(self, value: Inference) -> None:
        if not isinstance(value, Inference):
            raise TypeError(f"inference={value!r} must be an Inference")
        self._inference = value

    def parameters(self) -> dict[str, NDArray[Any]]:
        """The five arrays themselves, by name."""
        return dict(self._parameters)

    def _assign(self, name: str, value: Any) -> None:
        mine = self._parameters[name]
        array = check.as_float(name, value, mine.dtype, once=True)
        if array.shape != mine.shape:
            raise ValueError(f"{name} has shape {array.shape}; expected {mine.shape}")
        mine[...] = array

    W_vh = _parameter("W_vh", "(nv, nh): between visible and hidden units")
    W_vx = _parameter("W_vx", "(nv, nx): from features to visible units")
    W_hx = _parameter("W_hx", "(nh, nx): from features to hidden units")
    b_v = _parameter("b_v", "(nv,): visible biases")
    b_h = _parameter("b_h", "(nh,): hidden biases")

    def copy(self) -> Self:
        """A model with copies of the parameters and the same settings."""
        return self._made_of({name: a.copy() for name, a in self._parameters.items()}, self.n_threads, self.inference)

    def __repr__(self) -> str:
        nx = f", nx={self.nx}" if self.has_features else ""
        return f"{type(self).__name__}(nv={self.nv}, nh={self.nh}{nx}, dtype={self.dtype})"

    # --- for the rest of the package ----------------------------------------------------------------------------

    def threads(self) -> int:
        """The number of threads to use now."""
        return check.check_threads(self._n_threads)

    def engine(self) -> Engine:
        """A new engine on W_vh itself; after W_vh has changed, it needs `update_checked`."""
        return Engine(self.W_vh, n_threads=self._n_threads)

    def biases_of(
        self, X: Rows | None, n: int = 1, out: tuple[NDArray[Any], NDArray[Any]] | None = None
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """b1 (N, nv) and b2 (N, nh) of converted rows X; without features, `n` equal rows.  Unchecked.

        They are written into the two arrays of `out`, and may have overflowed.
        """
        b1, b2 = out or (None, None)
        if X is None:
            b1 = np.empty((n, self.nv), self.dtype) if b1 is None else b1
            b2 = np.empty((n, self.nh), self.dtype) if b2 is None else b2
            b1[...], b2[...] = self.b_v, self.b_h
            return b1, b2
        threads = self.threads()
        return affine(X, self.W_vx, self.b_v, threads, b1), affine(X, self.W_hx, self.b_h, threads, b2)

    def fields_h(self, V: NDArray[Any], b2: NDArray[Any], out: NDArray[Any] | None = None) -> NDArray[Any]:
        """The fields of the hidden units given V (N, nv), b2 + V W_vh, (N, nh).  Unchecked.

        V is C-contiguous and of the model's dtype, b2 broadcasts to (N, nh), and the result is written into `out`.
        """
        theta = np.empty((len(V), self.nh), self.dtype) if out is None else out
        theta[...] = b2
        # theta = V W_vh + theta
        # (N, nh) = (N, nv) (nv, nh) + (N, nh)
        _algebra.product(theta, V, self.W_vh, beta=1, n_threads=self.threads())
        return theta

    def fields_v(self, H: NDArray[Any], b1: NDArray[Any], out: NDArray[Any] | None = None) -> NDArray[Any]:
        """The fields of the visible units given H (N, nh), b1 + H W_vh', (N, nv).  Unchecked, as `fields_h`."""
        theta = np.empty((len(H), self.nv), self.dtype) if out is None else out
        theta[...] = b1
        # theta = H W_vh' + theta
        # (N, nv) = (N, nh) (nh, nv) + (N, nv)
        _algebra.product(theta, H, self.W_vh, transpose_b=True, beta=1, n_threads=self.threads())
        return theta

    def check_features(self, X: Any, N: int | None = None, name: str = "X") -> Matrix | None:
        """The features that a user passed, after their checks; None, and only None, for a model without features."""
        if self.nx == 0:
            if X is not None:
                raise ValueError(f"{name} is given, but this model has no features (nx=0); pass None")
            return None
        if X is None:
            raise ValueError(f"{name} is missing; this model has nx={self.nx} features")
        features = Matrix(name, X, self.nx, self.dtype, "nx")
        if N is not None and len(features) != N:
            raise ValueError(f"{name} has {len(features)} instances; expected {N}")
        features.check_finite()
        return features

    def check_units(self, name: str, values: Any) -> Matrix:
        """Finite values of the visible units, or of the hidden ones if `name` is "H", that a user passed."""
        width, size_name = (self.nh, "nh") if name == "H" else (self.nv, "nv")
        units = Matrix(name, values, width, self.dtype, size_name)
        units.check_dense()
        units.check_finite()
        return units

    def checked_biases(self, features: Matrix | None, at: slice) -> tuple[NDArray[Any], NDArray[Any]]:
        """b1 and b2 of the rows `at`, or ValueError where they overflow."""
        b1, b2 = self.biases_of(None if features is None else features.rows(at), at.stop - at.start)
        return check_fields(b1, "b_v + W_vx x"), check_fields(b2, "b_h + W_hx x")


def check_fields(theta: NDArray[Any], formula: str) -> NDArray[Any]:
    """theta, or ValueError where finite numbers have added up to more than inference can take."""
    if check.beyond(theta) >= 0:
        limit = f"{check.LIMITS[theta.dtype]:g} in {theta.dtype}"
        raise ValueError(f"{formula} is not finite, or beyond {limit}; scale the features or the weights")
    return theta


def random_parameters(nv: int, nh: int, nx: int, scale: float, seed: int, dtype: DTypeLike) -> dict[str, NDArray[Any]]:
    """Normal W_vh and W_hx with the standard deviation `scale`, and zeros for the other parameters."""
    nv, nh, nx = (check.check_int(n, v, low) for n, v, low in (("nv", nv, 1), ("nh", nh, 0), ("nx", nx, 0)))
    scale = check.check_real("scale", scale, 0, 1e6)
    rng = np.random.default_rng(check.check_int("seed", seed, 0, 2**64 - 1))
    kind = check.check_dtype(dtype)
    return {
        name: rng.normal(0, scale, shape).astype(kind) if name in ("W_vh", "W_hx") else np.zeros(shape, kind)
        for name, shape in _shapes(nv, nh, nx).items()
    }
