"""Conditional restricted Boltzmann machines: parameters, and what they say about given features.

    p(v, h | x) ~ exp(v' W_vh h + v' W_vx x + h' W_hx x + v' b_v + h' b_h)          Eq. 2

Given x this is an RBM with the biases b1 = b_v + W_vx x, b2 = b_h + W_hx x (Section 5), which `inference` works on.

References
----------
[1] Ping & Ihler, "Belief Propagation in Conditional RBMs for Structured Prediction", AISTATS 2017.
"""

from __future__ import annotations

import os
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from crbm_fast import _algebra, _files
from crbm_fast import _validation as check
from crbm_fast._ais import ais
from crbm_fast._data import Rows, Table, affine, chunks
from crbm_fast.inference import METHODS, Engine, Inference

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, DTypeLike, NDArray

PARAMETERS = ("W_vh", "W_vx", "W_hx", "b_v", "b_h")

LogZMethod = Literal["exact", "bethe", "mean-field", "tap", "ais"]
# {name of an estimate of log Z: the method of inference that gives it}
_LOG_Z = {row.log_z: row.name for row in METHODS.values() if row.log_z is not None}


def _shapes(nv: int, nh: int, nx: int) -> dict[str, tuple[int, ...]]:
    return {"W_vh": (nv, nh), "W_vx": (nv, nx), "W_hx": (nh, nx), "b_v": (nv,), "b_h": (nh,)}


def _parameter(name: str, doc: str) -> Any:
    return property(lambda self: self._parameters[name], lambda self, value: self._assign(name, value), doc=doc)


class CRBM:
    """Conditional RBM over `nv` outputs and `nh` hidden units given `nx` features.

    Parameters
    ----------
    nv, nh, nx : int
        Numbers of visible units (outputs), hidden units and features.
    scale : float
        Standard deviation of the initial `W_vh` and `W_hx`; the other parameters start at 0.
    seed : int
        Seed of the initial weights.
    dtype : {"float32", "float64"}
        Precision of the parameters and of everything computed with them.
    n_threads : int, optional
        Threads used at most.  Default: the cores this process may use.  Results have the same bits for any number.

    Attributes
    ----------
    W_vh : (nv, nh), W_vx : (nv, nx), W_hx : (nh, nx), b_v : (nv,), b_h : (nh,)
        The parameters.  Assigning an array copies it in, after checking its shape.
    inference : Inference
        What `predict` and `predict_proba` use unless told otherwise; set by `train`.
    n_threads : int or None

    Examples
    --------
    >>> import numpy as np
    >>> import crbm_fast as cf
    >>> rng = np.random.default_rng(0)
    >>> V = rng.random((200, 6)) < 0.5
    >>> X = V ^ (rng.random((200, 6)) < 0.1)
    >>> model = cf.CRBM(nv=6, nh=4, nx=6)
    >>> history = cf.train(model, X, V, epochs=20)
    >>> model.predict(X).shape
    (200, 6)
    """

    def __init__(
        self,
        nv: int,
        nh: int,
        nx: int,
        *,
        scale: float = 0.01,
        seed: int = 0,
        dtype: DTypeLike = "float32",
        n_threads: int | None = None,
    ) -> None:
        nv, nh, nx = (check.check_int(n, v, low) for n, v, low in (("nv", nv, 1), ("nh", nh, 0), ("nx", nx, 0)))
        scale = check.check_real("scale", scale, 0, 1e6)
        rng = np.random.default_rng(check.check_int("seed", seed, 0, 2**64 - 1))
        kind = check.check_dtype(dtype)
        shapes = _shapes(nv, nh, nx)
        self._parameters = {
            name: rng.normal(0, scale, shape).astype(kind) if name in ("W_vh", "W_hx") else np.zeros(shape, kind)
            for name, shape in shapes.items()
        }
        self.inference = Inference()
        self.n_threads = n_threads

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
        """A model with copies of the given parameters; what is left out is 0.  `dtype`: that of `W_vh`."""
        given = {"W_vh": W_vh, "W_vx": W_vx, "W_hx": W_hx, "b_v": b_v, "b_h": b_h}
        first = check.as_numeric("W_vh", W_vh)
        if first.ndim != 2:
            raise ValueError(f"W_vh has shape {first.shape}; expected (nv, nh)")
        kind = check.check_dtype(dtype, first)
        arrays = {name: check.as_float(name, a, kind, once=True) for name, a in given.items() if a is not None}
        nv, nh = first.shape
        nx = next((arrays[name].shape[-1] for name in ("W_vx", "W_hx") if name in arrays and arrays[name].ndim), 0)
        if issubclass(cls, RBM) and nx > 0:
            raise ValueError(f"an RBM has no features, but W_vx or W_hx has {nx} columns; use CRBM.from_parameters")
        shapes = _shapes(nv, nh, nx)
        for name, array in arrays.items():
            if array.shape != shapes[name]:
                raise ValueError(f"{name} has shape {array.shape}; expected {shapes[name]}, as W_vh has {first.shape}")
        model = cls.__new__(cls)
        model._parameters = {
            name: arrays[name].copy() if name in arrays else np.zeros(shape, kind) for name, shape in shapes.items()
        }
        model.inference, model.n_threads = Inference(), n_threads
        return model

    # --- parameters ---------------------------------------------------------------------------------------------

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
        """Threads used at most; None: the cores this process may use."""
        return self._n_threads

    @n_threads.setter
    def n_threads(self, value: int | None) -> None:
        if value is not None:
            check.check_threads(value)
        self._n_threads = value

    @property
    def inference(self) -> Inference:
        """What `predict` and `predict_proba` use unless told otherwise."""
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
        """A model of its own with the same parameters and settings."""
        twin = type(self).__new__(type(self))
        twin._parameters = {name: a.copy() for name, a in self._parameters.items()}
        twin._inference, twin._n_threads = self._inference, self._n_threads
        return twin

    def __repr__(self) -> str:
        nx = "" if isinstance(self, RBM) else f", nx={self.nx}"
        return f"{type(self).__name__}(nv={self.nv}, nh={self.nh}{nx}, dtype={self.dtype})"

    # --- what the model says ------------------------------------------------------------------------------------

    def biases(self, X: Any = None) -> tuple[NDArray[Any], NDArray[Any]]:
        """Biases of the RBM given x, Section 5: b1 = b_v + W_vx x (N, nv) and b2 = b_h + W_hx x (N, nh).

        One product each.  Without features (nx = 0, X None) the one pair (1, nv), (1, nh) that all instances share.
        """
        table = self._features(X)
        return self._biases_at(table, slice(0, 1 if table is None else len(table)))

    def energy(self, V: ArrayLike, H: ArrayLike, X: Any = None) -> NDArray[np.float64]:
        """E(v, h, x) of Eq. 2 for every instance, (N,)."""
        v, h = self._units("V", V), self._units("H", H)
        v.check_states()
        h.check_states()
        features = self._features(X, len(v))
        if len(h) != len(v):
            raise ValueError(f"V has {len(v)} instances and H has {len(h)}; expected the same number")
        E = np.empty(len(v))
        for at in chunks(len(v)):
            b1, b2 = self._biases_at(features, at)
            v_, h_ = (np.asarray(a.rows(at)) for a in (v, h))
            theta_v = _finite(self._field_v(h_, b1), "b1 + W_vh h")
            E[at] = -(v_ * theta_v).sum(axis=1, dtype=np.float64) - (h_ * b2).sum(axis=1, dtype=np.float64)
        return E

    def free_energy(self, V: ArrayLike, X: Any = None) -> NDArray[np.float64]:
        """F(v, x) = -log sum_h exp(-E(v, h, x)), Eq. 4, for every instance, (N,)."""
        v = self._units("V", V)
        v.check_states()
        features = self._features(X, len(v))
        F = np.empty(len(v))
        for at in chunks(len(v)):
            b1, b2 = self._biases_at(features, at)
            v_ = np.asarray(v.rows(at))
            F[at] = free_energy(v_, b1, _finite(self._field_h(v_, b2), "b2 + v W_vh"))
        return F

    def conditional_h(self, V: ArrayLike, X: Any = None) -> NDArray[Any]:
        """P(h_j = 1 | v, x), Eq. 3, (N, nh).  V may hold probabilities in place of states."""
        v = self._units("V", V)
        v.check_probabilities()
        features = self._features(X, len(v))
        out = np.empty((len(v), self.nh), self.dtype)
        for at in chunks(len(v)):
            _, b2 = self._biases_at(features, at)
            theta = _finite(self._field_h(np.asarray(v.rows(at)), b2), "b2 + v W_vh")
            _algebra.logistic(theta)
            out[at] = theta
        return out

    def conditional_v(self, H: ArrayLike, X: Any = None) -> NDArray[Any]:
        """P(v_i = 1 | h, x), Eq. 3, (N, nv).  H may hold probabilities in place of states."""
        h = self._units("H", H)
        h.check_probabilities()
        features = self._features(X, len(h))
        out = np.empty((len(h), self.nv), self.dtype)
        for at in chunks(len(h)):
            b1, _ = self._biases_at(features, at)
            theta = _finite(self._field_v(np.asarray(h.rows(at)), b1), "b1 + W_vh h")
            _algebra.logistic(theta)
            out[at] = theta
        return out

    def predict_proba(self, X: Any = None, **inference: Any) -> NDArray[Any]:
        """Beliefs P(v_i = 1 | x), (N, nv); for mixed-product and max-product normalised max-marginals.

        Parameters
        ----------
        X : (N, nx) array-like or CSR matrix
            Features.  None for a model without: then one row.
        method, max_iter, tol, damping, init, optional
            In place of those in `self.inference`; another method starts afresh.
        evidence : (mask, values), optional
            Outputs that are known, clamped to 0 or 1; both broadcast to (N, nv).
        """
        return self._infer(X, inference, lambda out, b: np.copyto(out, b.tau_v), self.dtype)

    def predict(self, X: Any = None, **inference: Any) -> NDArray[np.uint8]:
        """The most likely outputs, 0 or 1, (N, nv) uint8: beliefs above 1/2.

        By `method`: sum-product, mean-field, tap and exact take the most likely state of each unit; mixed-product the
        v that is best with h summed out (marginal MAP); max-product the best v and h together (MAP).  The keywords are
        those of `predict_proba`.
        """
        return self._infer(X, inference, lambda out, b: np.greater(b.tau_v, 0.5, out=out.view(np.bool_)), np.uint8)

    def sample(
        self,
        X: Any = None,
        *,
        n_samples: int | None = None,
        n_steps: int = 1000,
        v: ArrayLike | None = None,
        seed: int = 0,
        evidence: tuple[ArrayLike, ArrayLike] | None = None,
    ) -> NDArray[np.uint8]:
        """Samples of p(v | x) after `n_steps` of blocked Gibbs sampling, one chain per instance, (N, nv) uint8.

        Parameters
        ----------
        X : (N, nx) array-like or CSR matrix
            Features; None for a model without: then give `n_samples`, or `v`.
        n_samples : int, optional
            Number of chains for a model without features.
        n_steps : int
            Steps of each chain.
        v : (N, nv) array-like of 0 and 1, optional
            Where the chains start.  Default: fair coins.
        seed : int
            The draws depend on (seed, instance) alone.
        evidence : (mask, values), optional
            Outputs that are known, as in `predict_proba`.
        """
        features = self._features(X)
        start = None if v is None else self._units("v", v)
        if features is not None:
            N = len(features)
            if n_samples is not None:
                raise ValueError("n_samples is for a model without features; here there is one chain per row of X")
        elif start is not None:
            N = len(start)
        else:
            N = check.check_int("n_samples", 1 if n_samples is None else n_samples, 0)
        if start is not None and (len(start) != N or n_samples not in (None, N)):
            raise ValueError(f"v has {len(start)} rows; expected {N if features is not None else n_samples}")
        clamped = None if evidence is None else check.check_evidence(evidence, (N, self.nv))
        engine, out = self._engine(), np.empty((N, self.nv), np.uint8)
        for at in chunks(N):
            b1, b2 = self._biases_at(features, at)
            out[at] = engine.gibbs(
                b1,
                b2,
                v=None if start is None else np.asarray(start.rows(at)),
                n_steps=n_steps,
                seed=seed,
                first_instance=at.start,
                evidence=None if clamped is None else (clamped[0][at], clamped[1][at]),
            ).v
        return out

    def log_partition(self, X: Any = None, *, method: LogZMethod = "bethe", **options: Any) -> NDArray[np.float64]:
        """log Z(x) for every instance, (N,); one number for a model without features.

        Parameters
        ----------
        X : (N, nx) array-like or CSR matrix
        method : {"exact", "bethe", "mean-field", "tap", "ais"}
            Enumeration; the estimates of sum-product BP, mean field (a lower bound) and TAP; annealed importance
            sampling.
        **options
            Of `infer` (`max_iter`, `tol`, `damping`; 200 iterations to 1e-6 unless told otherwise) or of `ais`
            (`n_chains`, `n_betas`, `seed`), which also gives error bars when called directly.
        """
        check.check_choice("method", method, (*_LOG_Z, "ais"))
        if method != "ais":
            _check_keywords(options, ("max_iter", "tol", "damping"))
        features = self._features(X)
        out = np.empty(1 if features is None else len(features))
        engine = self._engine()
        for at in chunks(len(out)):
            b1, b2 = self._biases_at(features, at)
            if method == "ais":
                out[at] = ais(self.W_vh, b1, b2, first_instance=at.start, n_threads=engine.n_threads, **options).log_z
            else:
                out[at] = engine.run(
                    b1, b2, method=_LOG_Z[method], log_z=True, **{"max_iter": 200, "tol": 1e-6} | options
                ).log_z
        return out

    def log_likelihood(
        self, V: ArrayLike, X: Any = None, *, method: LogZMethod = "bethe", **options: Any
    ) -> NDArray[np.float64]:
        """log p(v | x) = -F(v, x) - log Z(x) for every instance, (N,); keywords as for `log_partition`.

        -F is exact (Eq. 4); log Z is what the method makes of it.  Mean field's log Z is too small, so its
        log-likelihood is too large.
        """
        return -self.free_energy(V, X) - self.log_partition(X, method=method, **options)

    # --- files ----------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the parameters and `inference` to `path`, atomically: an .npz of arrays and JSON, no pickle.

        The format is described in `crbm_fast/_files.py`; `numpy.load` opens it too.
        """
        for name, p in self._parameters.items():
            check.check_finite(name, p, p)
        meta = {"model": "RBM" if isinstance(self, RBM) else "CRBM", "inference": asdict(self.inference)}
        _files.write(path, "crbm_fast model", meta, self._parameters)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, n_threads: int | None = None) -> Self:
        """The model that `save` wrote.  Never runs code from the file; a bad file gets a ValueError."""
        if n_threads is not None:
            check.check_threads(n_threads)
        meta, arrays = _files.read(path, "crbm_fast model")
        kinds: dict[str, type[CRBM]] = {"CRBM": CRBM, "RBM": RBM}
        with _files.complaint(path):
            kind = kinds[meta["model"]]
        if kind is CRBM and issubclass(cls, RBM):
            raise TypeError(f"{os.fspath(path)} holds a CRBM; load it with crbm_fast.CRBM.load")
        with _files.complaint(path):
            if sorted(arrays) != sorted(PARAMETERS):
                raise ValueError(f"it holds {sorted(arrays)}")
            model = (cls if issubclass(cls, kind) else kind).from_parameters(**arrays, n_threads=n_threads)
            model.inference = Inference(**meta["inference"])
        return model  # type: ignore[return-value]

    # --- shared -----------------------------------------------------------------------------------------------------

    def _threads(self) -> int:
        return check.check_threads(self._n_threads)

    def _engine(self) -> Engine:
        return Engine(self.W_vh, n_threads=self._n_threads)

    def _features(self, X: Any, N: int | None = None, name: str = "X") -> Table | None:
        """X after its checks; None, and only None, for a model without features."""
        if self.nx == 0:
            if X is not None:
                raise ValueError(f"{name} is given, but this model has no features (nx=0); pass None")
            return None
        if X is None:
            raise ValueError(f"{name} is missing; this model has nx={self.nx} features")
        table = Table(name, X, self.nx, self.dtype, "nx")
        if N is not None and len(table) != N:
            raise ValueError(f"{name} has {len(table)} instances; expected {N}")
        table.check_finite()
        return table

    def _units(self, name: str, values: Any) -> Table:
        """States or probabilities of the visible units (V, v) or the hidden ones (H)."""
        hidden = name == "H"
        table = Table(name, values, self.nh if hidden else self.nv, self.dtype, "nh" if hidden else "nv")
        table.check_dense()
        table.check_finite()
        return table

    def _biases(self, X: Rows | None, N: int = 1) -> tuple[NDArray[Any], NDArray[Any]]:
        """b1 and b2 of the rows of X; without features, N times the same."""
        if X is None:
            return np.tile(self.b_v, (N, 1)), np.tile(self.b_h, (N, 1))
        threads = self._threads()
        return affine(X, self.W_vx, self.b_v, threads), affine(X, self.W_hx, self.b_h, threads)

    def _biases_at(self, features: Table | None, at: slice) -> tuple[NDArray[Any], NDArray[Any]]:
        b1, b2 = self._biases(None if features is None else features.rows(at), at.stop - at.start)
        return _finite(b1, "b_v + W_vx x"), _finite(b2, "b_h + W_hx x")

    def _field_h(self, V: NDArray[Any], b2: NDArray[Any]) -> NDArray[Any]:
        """b2 + V W_vh, (N, nh)."""
        theta = np.empty((len(V), self.nh), self.dtype)
        theta[...] = b2
        _algebra.product(theta, V, self.W_vh, beta=1, n_threads=self._threads())
        return theta

    def _field_v(self, H: NDArray[Any], b1: NDArray[Any]) -> NDArray[Any]:
        """b1 + H W_vh', (N, nv)."""
        theta = np.empty((len(H), self.nv), self.dtype)
        theta[...] = b1
        _algebra.product(theta, H, self.W_vh, transpose_b=True, beta=1, n_threads=self._threads())
        return theta

    def _infer(self, X: Any, options: dict[str, Any], write: Any, dtype: Any) -> NDArray[Any]:
        """Run inference chunk by chunk and let `write` put the beliefs into the rows of the result."""
        _check_keywords(options, ("method", "max_iter", "tol", "damping", "init", "evidence"))
        evidence = options.pop("evidence", None)
        if "method" in options:
            options.setdefault("init", None)
        how = replace(self.inference, **options).concrete()
        features = self._features(X)
        N = 1 if features is None else len(features)
        if features is None and isinstance(evidence, tuple | list):  # a row of evidence is an instance
            N = max([1, *(np.shape(a)[0] for a in evidence if np.ndim(a) == 2)])
        clamped = None if evidence is None else check.check_evidence(evidence, (N, self.nv))
        engine, out = self._engine(), np.empty((N, self.nv), dtype)
        for at in chunks(N):
            b1, b2 = self._biases_at(features, at)
            pair = None if clamped is None else (clamped[0][at], clamped[1][at])
            write(out[at], engine.run(b1, b2, evidence=pair, **asdict(how)))
        return out


class RBM(CRBM):
    """Restricted Boltzmann machine: a `CRBM` without features.

    Parameters
    ----------
    nv, nh : int
        Numbers of visible and hidden units.
    scale, seed, dtype, n_threads
        As for `CRBM`.
    """

    def __init__(
        self,
        nv: int,
        nh: int,
        *,
        scale: float = 0.01,
        seed: int = 0,
        dtype: DTypeLike = "float32",
        n_threads: int | None = None,
    ) -> None:
        super().__init__(nv, nh, 0, scale=scale, seed=seed, dtype=dtype, n_threads=n_threads)


def _finite(theta: NDArray[Any], what: str) -> NDArray[Any]:
    """theta, or ValueError where finite numbers have added up to more than inference can take."""
    if check.beyond(theta) >= 0:
        limit = f"{check.LIMITS[theta.dtype]:g} in {theta.dtype}"
        raise ValueError(f"{what} is not finite, or beyond {limit}; scale the features or the weights")
    return theta


def _check_keywords(given: dict[str, Any], known: tuple[str, ...]) -> None:
    for name in given:
        if name not in known:
            raise TypeError(f"unknown keyword {name!r}; expected one of: {', '.join(known)}")


def free_energy(v: NDArray[Any], b1: NDArray[Any], theta_h: NDArray[Any]) -> NDArray[np.float64]:
    """Eq. 4 from the states (N, nv), b1 and the field theta_h = b2 + v W_vh (N, nh)."""
    linear: NDArray[np.float64] = (v * b1).sum(axis=1, dtype=np.float64)
    return -linear - _algebra.softplus_sums(theta_h)
