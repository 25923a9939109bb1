"""CRBM and RBM: predictions, samples, files."""

from __future__ import annotations

import os
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from crbm_fast import _files
from crbm_fast import _validation as check
from crbm_fast._data import chunks
from crbm_fast.assessment import Assessment, assess, draw_instances
from crbm_fast.inference import Inference
from crbm_fast.model.energies import Energies, check_keywords
from crbm_fast.model.parameters import PARAMETERS, check_fields, random_parameters

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import ArrayLike, DTypeLike, NDArray


class CRBM(Energies):
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
        The largest number of threads used.  Default: the cores this process may use.  Results have the same bits for
        any number.

    Attributes
    ----------
    W_vh : (nv, nh), W_vx : (nv, nx), W_hx : (nh, nx), b_v : (nv,), b_h : (nh,)
        The parameters.  Assigning an array copies it in, after checking its shape.
    inference : Inference
        What `predict` and `predict_proba` use unless their keywords say otherwise; set by `train`.
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
        super().__init__(random_parameters(nv, nh, nx, scale, seed, dtype), n_threads, Inference())

    def predict_proba(self, X: Any = None, **inference: Any) -> NDArray[Any]:
        """Beliefs P(v_i = 1 | x), (N, nv); for mixed-product and max-product normalised max-marginals.

        Parameters
        ----------
        X : (N, nx) array-like or CSR matrix
            Features.  None for a model without features: then the result has one row.
        method, max_iter, tol, damping, init, fallback, optional
            In place of those in `self.inference`.  With another method, `init` and `fallback` are None unless given.
        evidence : (mask, values), optional
            Outputs that are known, clamped to 0 or 1; both broadcast to (N, nv).
        """
        N, beliefs = self._visible_beliefs(X, inference)
        out = np.empty((N, self.nv), self.dtype)
        for at, tau_v in beliefs:
            out[at] = tau_v
        return out

    def predict(self, X: Any = None, **inference: Any) -> NDArray[np.uint8]:
        """The most likely outputs, 0 or 1, (N, nv) uint8: beliefs above 1/2.

        By `method`: sum-product, mean-field, tap and exact take the most likely state of each unit; mixed-product the
        v that is best with h summed out (marginal MAP); max-product the best v and h together (MAP).  The keywords are
        those of `predict_proba`.
        """
        N, beliefs = self._visible_beliefs(X, inference)
        out = np.empty((N, self.nv), np.uint8)
        for at, tau_v in beliefs:
            np.greater(tau_v, 0.5, out=out[at].view(np.bool_))
        return out

    def _visible_beliefs(self, X: Any, options: dict[str, Any]) -> tuple[int, Iterator[tuple[slice, NDArray[Any]]]]:
        """The number of instances; slices that cover them, each with its tau_v."""
        check_keywords(options, ("method", "max_iter", "tol", "damping", "init", "fallback", "evidence"))
        evidence = options.pop("evidence", None)
        if "method" in options:
            options.setdefault("init", None)
            options.setdefault("fallback", None)
        keywords = asdict(replace(self.inference, **options).concrete())
        features = self.check_features(X)
        N = 1 if features is None else len(features)
        if features is None and isinstance(evidence, tuple | list):  # a row of evidence is an instance
            N = max([1, *(np.shape(a)[0] for a in evidence if np.ndim(a) == 2)])
        clamped = None if evidence is None else check.check_evidence(evidence, (N, self.nv))

        def beliefs() -> Iterator[tuple[slice, NDArray[Any]]]:
            engine = self.engine()
            for at in chunks(N):
                b1, b2 = self.checked_biases(features, at)
                pair = None if clamped is None else (clamped[0][at], clamped[1][at])
                yield at, engine.run(b1, b2, evidence=pair, **keywords).tau_v

        return N, beliefs()

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
            Features; None for a model without features: then give `n_samples`, or `v`.
        n_samples : int, optional
            Number of chains for a model without features.
        n_steps : int
            Steps of each chain.
        v : (N, nv) array-like of 0 and 1, optional
            The initial states of the chains.  Default: fair coins.
        seed : int
            The random numbers depend on (seed, instance) alone.
        evidence : (mask, values), optional
            Outputs that are known, as in `predict_proba`.
        """
        features = self.check_features(X)
        initial = None if v is None else self.check_units("v", v)
        if features is not None:
            N = len(features)
            if n_samples is not None:
                raise ValueError("n_samples is for a model without features; here there is one chain per row of X")
        elif initial is not None:
            N = len(initial)
        else:
            N = check.check_int("n_samples", 1 if n_samples is None else n_samples, 0)
        if initial is not None and (len(initial) != N or n_samples not in (None, N)):
            raise ValueError(f"v has {len(initial)} rows; expected {N if features is not None else n_samples}")
        clamped = None if evidence is None else check.check_evidence(evidence, (N, self.nv))
        engine, out = self.engine(), np.empty((N, self.nv), np.uint8)
        for at in chunks(N):
            b1, b2 = self.checked_biases(features, at)
            out[at] = engine.gibbs(
                b1,
                b2,
                v=None if initial is None else np.asarray(initial.rows(at)),
                n_steps=n_steps,
                seed=seed,
                first_instance=at.start,
                evidence=None if clamped is None else (clamped[0][at], clamped[1][at]),
            ).v
        return out

    def assess(self, X: Any = None, *, n_instances: int = 10, seed: int = 0, **options: Any) -> Assessment:
        """How far to trust inference given features: log Z and marginals by every method, and a verdict in words.

        Parameters
        ----------
        X : (N, nx) array-like or CSR matrix
            Features; None for a model without features.
        n_instances, seed, **options
            Those of `crbm_fast.assess`: `n_instances` rows of X are drawn.
        """
        features = self.check_features(X)
        if features is not None and len(features) == 0:
            raise ValueError("X has no instances; expected at least one")
        N = 1 if features is None else len(features)
        rows = draw_instances(N, n_instances, seed)
        b1, b2 = self.biases_of(None if features is None else features.rows(rows), len(rows))
        check_fields(b1, "b_v + W_vx x"), check_fields(b2, "b_h + W_hx x")
        found = assess(self.W_vh, b1, b2, n_instances=len(rows), seed=seed, n_threads=self.n_threads, **options)
        return replace(found, instances=rows, n_instances=N)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the parameters and `inference` to `path`, atomically: an .npz of arrays and JSON, no pickle.

        The format is described in `crbm_fast/_files.py`; `numpy.load` opens it too.
        """
        for name, p in self.parameters().items():
            check.check_finite(name, p, p)
        meta = {"model": "CRBM" if self.has_features else "RBM", "inference": asdict(self.inference)}
        _files.write(path, "crbm_fast model", meta, self.parameters())

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, n_threads: int | None = None) -> Self:
        """The model that `save` wrote.  It never runs code from the file; a corrupted file raises ValueError."""
        if n_threads is not None:
            check.check_threads(n_threads)
        meta, arrays = _files.read(path, "crbm_fast model")
        kinds: dict[str, type[CRBM]] = {"CRBM": CRBM, "RBM": RBM}
        with _files.corrupted_file_errors(path):
            kind = kinds[meta["model"]]
        if kind.has_features and not cls.has_features:
            raise TypeError(f"{os.fspath(path)} holds a CRBM; load it with crbm_fast.CRBM.load")
        with _files.corrupted_file_errors(path):
            if sorted(arrays) != sorted(PARAMETERS):
                raise ValueError(f"it holds {sorted(arrays)}")
            model = (cls if issubclass(cls, kind) else kind).from_parameters(**arrays, n_threads=n_threads)
            model.inference = Inference(**meta["inference"])
        return model  # type: ignore[return-value]


class RBM(CRBM):
    """Restricted Boltzmann machine: a `CRBM` without features.

    Parameters
    ----------
    nv, nh : int
        Numbers of visible and hidden units.
    scale, seed, dtype, n_threads
        As for `CRBM`.
    """

    has_features: ClassVar[bool] = False

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
