"""Digests of what the package computes: the same bits before and after a change that should not change results.

    python tests/package/bits.py            compare with bits.json, case by case
    python tests/package/bits.py --write    make bits.json anew, after a change that is meant to change results
    ... --file OTHER.json                   the same with another file

Results depend on the instruction sets, the C library, NumPy and SciPy's BLAS, so a file says what it was made with.
Where these differ from those of bits.json there is nothing to compare with: write a file of the code before a change,
then compare the code after it with that.  Every case runs with one thread and with two and must give one digest.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import itertools
import json
import platform
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_info

import crbm_fast as cf
from crbm_fast import _ckernels, ctypes_api
from crbm_fast.estimators import CRBMClassifier, RBMTransformer
from crbm_fast.learners import CD, LSSVM, MLE, MSSVM, PCD, PercLoss

FILE = Path(__file__).with_name("bits.json")

EVERYTHING = {"log_z": True, "messages": True}
METHODS = ("sum-product", "mixed-product", "max-product", "mixed-ascent", "max-ascent", "mean-field", "tap")


def environment():
    """What bits may depend on beside the package's own code: not which processor it is, but what is used of it."""
    config = cf.show_config("dicts")
    return {
        "libc": " ".join(platform.libc_ver()),
        **{name: config[name] for name in ("machine", "numpy", "scipy", "BLAS", "available here")},
        "BLAS kernels": ", ".join(
            sorted({pool.get("architecture", "") for pool in threadpool_info() if pool["user_api"] == "blas"})
        ),
    }


def digest(*values):
    """A short hash of arrays and numbers, their types and shapes included."""
    sha = hashlib.sha256()
    for value in values:
        array = np.ascontiguousarray(value)
        sha.update(f"{array.dtype.str}{array.shape}".encode())
        sha.update(array.tobytes())
    return sha.hexdigest()[:16]


def beliefs(b):
    """Everything in Beliefs."""
    fields = (b.tau_v, b.tau_h, b.n_iter, b.converged, b.residual, b.gamma, b.log_z, b.messages)
    return digest(*(field for field in fields if field is not None))


def problem(nv, nh, N, dtype, scale=0.3, seed=0):
    rng = np.random.default_rng((nv, nh, N, seed))
    return tuple(
        a.astype(dtype) for a in (rng.normal(0, scale, (nv, nh)), rng.normal(size=(N, nv)), rng.normal(size=(N, nh)))
    )


# --- cases: (name, function of the number of threads that returns a digest) ------------------------------------------


def inference_cases():
    for dtype, method, isa in itertools.product(("float32", "float64"), METHODS, _ckernels.available_isas()):
        head = f"{method} {dtype} {isa}"
        gammas = (False,) if method == "mixed-product" else (True, "sum")  # mixed-product: Eq. 18 since 14

        def run(n_threads, *shape, dtype=dtype, method=method, isa=isa, scale=0.3, fixed=None, **options):
            before = _ckernels.active_isa()
            _ckernels.use_isa(isa)
            try:
                W, b1, b2 = problem(*shape, dtype, scale)
                if fixed is not None:
                    rng = np.random.default_rng(fixed)
                    options["evidence"] = (rng.random(b1.shape) < 0.4, rng.random(b1.shape) < 0.5)
                if shape[2] == 1:
                    b1, b2 = b1[0], b2[0]
                return beliefs(cf.infer(W, b1, b2, method=method, n_threads=n_threads, **options))
            finally:
                _ckernels.use_isa(before)

        for gamma in gammas:
            yield (
                f"{head} 130x37x70 gamma={gamma}",
                lambda n, g=gamma, r=run: r(n, 130, 37, 70, max_iter=12, tol=1e-4, gamma=g, **EVERYTHING),
            )
            yield (
                f"{head} fixed iterations gamma={gamma}",
                lambda n, g=gamma, r=run: r(n, 65, 33, 30, max_iter=5, tol=0, gamma=g),
            )
        if cf.inference.METHODS[method].damped:
            yield (
                f"{head} damped",
                lambda n, r=run, g=gammas[-1]: r(n, 65, 33, 30, max_iter=9, damping=0.4, gamma=g, **EVERYTHING),
            )
        yield (
            f"{head} evidence",
            lambda n, r=run, g=gammas[-1]: r(n, 65, 33, 30, fixed=3, max_iter=9, gamma=g, **EVERYTHING),
        )
        yield (
            f"{head} strong weights",
            lambda n, r=run, g=gammas[-1]: r(n, 65, 33, 30, scale=60, max_iter=9, gamma=g, **EVERYTHING),
        )
        yield (
            f"{head} one RBM",
            lambda n, r=run, g=gammas[0]: r(n, 40, 20, 1, max_iter=9, tol=1e-3, gamma=g, **EVERYTHING),
        )
        if isa == _ckernels.available_isas()[0]:
            yield (
                f"{head} threads over instances",
                lambda n, r=run, g=gammas[-1]: r(n, 300, 200, 45, max_iter=6, tol=1e-3, gamma=g, **EVERYTHING),
            )
            yield (
                f"{head} threads over rows",
                lambda n, r=run, g=gammas[0]: r(n, 1100, 500, 1, max_iter=4, tol=0, gamma=g, log_z=True),
            )
    for dtype, method in itertools.product(("float32", "float64"), METHODS):

        def warm(n_threads, dtype=dtype, method=method):
            W, b1, b2 = problem(65, 33, 30, dtype)
            engine = cf.Engine(W, n_threads=n_threads)
            first = beliefs(engine.run(b1, b2, method=method, max_iter=3, tol=0, warm_start=True))
            second = beliefs(engine.run(b1, b2, method=method, max_iter=3, tol=0, warm_start=True))
            kept = engine.run(b1, b2, method=method, max_iter=3, tol=0, messages=True)
            third = beliefs(engine.run(b1, b2, method=method, max_iter=3, tol=1e-9, init=kept))
            return f"{first} {second} {third}"

        yield f"{method} {dtype} warm start", warm
    for dtype, method in itertools.product(("float32", "float64"), ("mean-field", "tap")):
        yield (
            f"{method} {dtype} visible first",
            lambda n, d=dtype, m=method: beliefs(
                cf.infer(*problem(65, 33, 30, d), method=m, init="visible", max_iter=7, tol=0, n_threads=n)
            ),
        )
    for dtype in ("float32", "float64"):
        yield (
            f"exact {dtype}",
            lambda n, d=dtype: beliefs(
                cf.infer(*problem(30, 9, 4, d), method="exact", gamma=True, log_z=True, n_threads=n)
            ),
        )


def sampling_cases():
    for dtype in ("float32", "float64"):
        W, b1, b2 = problem(300, 200, 45, dtype)

        def chains(n_threads, W=W, b1=b1, b2=b2):
            s = cf.gibbs(W, b1, b2, n_steps=4, seed=7, n_threads=n_threads)
            return digest(s.v, s.h)

        def ais(n_threads, dtype=dtype):
            estimate = cf.ais(*problem(20, 10, 3, dtype), n_chains=20, n_betas=30, n_threads=n_threads)
            return digest(estimate.log_z, estimate.std_error)

        yield f"gibbs {dtype}", chains
        yield f"ais {dtype}", ais
        for kind in ("BlockedGibbs", "ParallelTempering", "BPMixture"):

            def walk(n_threads, kind=kind, dtype=dtype):
                W, b1, b2 = problem(24, 12, 1, dtype, scale=1.0)
                sampler = getattr(cf.samplers, kind)(W, b1[0], b2[0], n_threads=n_threads)
                state = sampler.init(40, seed=3)
                for _ in range(5):
                    state = sampler.step(state)
                return digest(state.v, state.accepted)

            yield f"{kind} {dtype}", walk


def embedding_cases():
    for dtype, number in itertools.product(("float32", "float64"), (0, 1, 2)):

        def run(n_threads, dtype=dtype, number=number):
            W, b1, b2 = problem(65, 33, 1, dtype)
            workspace, found = ctypes_api.workspace(W), []
            for damping, flags in ((0.0, 2), (0.3, 2), (0.0, 3)):
                tau_v, tau_h, info = np.empty(65, dtype), np.empty(33, dtype), np.empty(3)
                gamma = None if number == 2 else np.empty((65, 33), dtype)
                arrays = (workspace, tau_v, tau_h, gamma, info, b1, b2)
                addresses = [None if a is None else a.ctypes.data for a in arrays]
                ctypes_api.check(ctypes_api.run(*addresses, number, 6, 0.0, damping, flags))
                found.append(digest(*(a for a in (tau_v, tau_h, gamma, info) if a is not None)))
            return " ".join(found)

        yield f"embedding {dtype} method {number}", run


def images(N=240, nv=60, nx=50):
    rng = np.random.default_rng(1)
    P = rng.random((12, nv)) < 0.5
    V = P[rng.integers(12, size=N)]
    return (V[:, :nx] ^ (rng.random((N, nx)) < 0.1)).astype(np.uint8), V.astype(np.uint8)


def learners():
    """{name: learner}; an inference that is not the default is given in the form that the installed version takes."""

    def with_inference(kind, method, *arguments, **options):
        try:
            return kind(*arguments, inference=cf.Inference(method, **options))
        except TypeError:
            keywords = {} if kind in (MSSVM, LSSVM) else {"method": method}
            return kind(*arguments, **keywords, **options)

    made = {name: name for name in ("mle", "cd", "pcd", "percloss", "mssvm", "lssvm", "logistic")}
    for method in ("mean-field", "tap"):
        made[f"mle {method}"] = with_inference(MLE, method)
    made["mle damped"] = with_inference(MLE, "sum-product", damping=0.5, max_iter=9)
    made["mle visible"] = with_inference(MLE, "mean-field", init="visible")
    made["mssvm damped"] = with_inference(MSSVM, "mixed-product", damping=0.5)
    made["cd random"] = with_inference(CD, "sum-product", 3, "random", tol=1e-5)
    made["cd logistic"] = CD(2, "logistic")
    made["pcd bp"] = with_inference(PCD, "sum-product", 2)
    made["percloss mf"] = with_inference(PercLoss, "mean-field", 4)
    return made


def learning_cases():
    X, V = images()
    options = {
        "adam": {},
        "sgd": {"optimizer": "sgd", "schedule": "cosine", "weight_decay": 0.01},
        "all": {
            "start": "logistic",
            "centering": "all",
            "averaging": 0.9,
            "rates": {"W_vx": 0.5},
            "schedule": "linear",
            "validation": 0.2,
        },
    }
    for (name, learner), dtype, (kind, more) in itertools.product(
        learners().items(), ("float32", "float64"), options.items()
    ):

        def fit(n_threads, learner=learner, dtype=dtype, more=more):
            model = cf.CRBM(60, 24, 50, dtype=dtype, n_threads=n_threads, seed=2)
            history = cf.train(model, X, V, learner, epochs=3, batch_size=32, seed=5, progress=False, **more)
            numbers = [
                [e.train_error, e.gradient_norm, e.weight_norm, e.n_iter or 0, e.converged or 0] for e in history
            ]
            return digest(*model.parameters().values(), numbers, model.predict(X), model.predict_proba(X))

        yield f"train {name} {dtype} {kind}", fit
    for name in ("mle", "cd", "pcd"):

        def fit_plain(n_threads, name=name):
            model = cf.RBM(60, 24, n_threads=n_threads)
            cf.train(model, None, V, name, epochs=2, progress=False)
            return digest(*model.parameters().values())

        yield f"train plain RBM {name}", fit_plain

    def large(n_threads):
        rng = np.random.default_rng(0)
        V = rng.random((80, 300)) < 0.5
        model = cf.CRBM(300, 200, 300, n_threads=n_threads)
        cf.train(model, V, V, epochs=1, progress=False)
        return digest(*model.parameters().values())

    yield "train with threads", large

    def likelihoods(n_threads):
        model = cf.CRBM(60, 8, 50, dtype="float64", n_threads=n_threads)
        cf.train(model, X, V, epochs=2, progress=False)
        found = [model.log_likelihood(V[:9], X[:9], method=m) for m in ("exact", "bethe", "mean-field", "tap")]
        found.append(model.log_likelihood(V[:3], X[:3], method="ais", n_chains=10, n_betas=20))
        found += [model.energy(V, model.sample(X, n_steps=3)[:, :8], X), model.free_energy(V, X)]
        found += [model.conditional_h(V, X), model.sample(X, n_steps=5, seed=4)]
        return digest(*found)

    yield "likelihoods", likelihoods


def estimator_cases():
    X, V = images()
    for learner in (None, "mle", "pcd"):

        def classify(n_threads, learner=learner):
            chosen = CRBMClassifier(n_hidden=8, learner=learner, epochs=3, random_state=0, n_jobs=n_threads)
            whole = chosen.fit(X, V[:, :6]).predict_proba(X)
            for _ in range(2):
                chosen.partial_fit(X, V[:, :6])
            return digest(whole, chosen.predict_proba(X))

        yield f"CRBMClassifier {learner}", classify

    def transform(n_threads):
        rbm = RBMTransformer(n_components=8, n_iter=3, random_state=0, n_jobs=n_threads).fit(V)
        return digest(rbm.transform(V), rbm.partial_fit(V).transform(V), rbm.score_samples(V))

    yield "RBMTransformer", transform


def command_cases():
    def command(n_threads):
        try:
            from crbm_fast.cli import main
        except ImportError:
            from crbm_fast._cli import main
        X, V = images()
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
            data, model, out = (str(Path(folder, name)) for name in ("data.npz", "model.npz", "out.npz"))
            np.savez(data, X=X, V=V)
            with contextlib.redirect_stderr(io.StringIO()):
                assert (
                    main(
                        [
                            "train",
                            data,
                            "--out",
                            model,
                            "--hidden",
                            "16",
                            "--epochs",
                            "3",
                            "--validation",
                            "0.2",
                            "--start",
                            "logistic",
                            "--averaging",
                            "0.9",
                            "--threads",
                            str(n_threads),
                        ]
                    )
                    == 0
                )
                assert main(["predict", model, data, "--out", out, "--threads", str(n_threads)]) == 0
            with np.load(out) as found:
                return digest(found["V"], *cf.CRBM.load(model).parameters().values())

    yield "crbm-fast train, predict", command


def cases():
    """All of them."""
    yield from inference_cases()
    yield from sampling_cases()
    yield from embedding_cases()
    yield from learning_cases()
    yield from estimator_cases()
    yield from command_cases()


def compute():
    """{case: digest}; an error where threads change a result."""
    found = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, function in cases():
            assert name not in found, name
            one, two = function(1), function(2)
            if one != two:
                raise AssertionError(f"{name}: {one} with one thread, {two} with two")
            found[name] = one
    return found


def differences(found, kept):
    """Names of the cases whose digests differ, or that only one side has."""
    return sorted(name for name in found.keys() | kept.keys() if found.get(name) != kept.get(name))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="make the file anew")
    parser.add_argument("--file", type=Path, default=FILE, help="another file than bits.json")
    arguments = parser.parse_args()
    if arguments.write:
        found = compute()
        arguments.file.write_text(json.dumps({"environment": environment(), "digests": found}, indent=1) + "\n")
        print(f"wrote {len(found)} digests")
        return 0
    kept = json.loads(arguments.file.read_text())
    if kept["environment"] != environment():
        print(f"nothing to compare with: {arguments.file.name} was made with {kept['environment']}")
        return 0
    found = compute()
    different = differences(found, kept["digests"])
    print("\n".join(different) or f"{len(found)} digests, all the same")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
