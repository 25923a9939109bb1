"""Packages that train plain RBMs by CD-1, for the suite training.

A trainer is a `Peer` whose `prepare(V, nh, batch_size)` returns a function that goes once through V (N, nv) and returns
the parameters W (nv, nh), b_v, b_h it has come to.
"""

from functools import partial

import numpy as np

import crbm_fast as cf
from bench.peers import Peer

RATE = 0.01


def prepare_ours(dtype, V, nh, batch_size):
    V = V.astype(dtype)
    model = cf.RBM(V.shape[1], nh, dtype=dtype, n_threads=1)
    kw = {
        "epochs": 1,
        "batch_size": batch_size,
        "learning_rate": RATE,
        "optimizer": cf.optimizers.SGD(momentum=0.0),
        "progress": False,
    }

    def epoch():
        cf.train(model, None, V, "cd", **kw)
        p = model.parameters()
        return p["W_vh"], p["b_v"], p["b_h"]

    return epoch


def prepare_sklearn(dtype, V, nh, batch_size):
    from sklearn.neural_network import BernoulliRBM

    V = V.astype(dtype)
    model = BernoulliRBM(nh, n_iter=1, random_state=0, learning_rate=RATE, batch_size=batch_size)

    def epoch():
        model.fit(V)
        return model.components_.T, model.intercept_visible_, model.intercept_hidden_

    return epoch


def prepare_rbms(V, nh, batch_size):
    """The body of rbms.training.pcd.train with training_type "cd", without its files."""
    import torch
    from rbms.bernoulli_bernoulli.classes import BBRBM
    from rbms.training.pcd import fit_batch_pcd

    torch.set_num_threads(1)
    nv, data, ones = V.shape[1], torch.from_numpy(V.astype(np.float32)), torch.ones(batch_size)
    model = BBRBM(torch.empty(nv, nh), torch.zeros(nv), torch.zeros(nh))
    for p in model.parameters():
        p.grad = torch.zeros_like(p)
    sgd = torch.optim.SGD(model.parameters(), lr=0.3, maximize=True)  # it scales each gradient to length 1

    @torch.no_grad()
    def epoch():
        # The first one again: after many, a gradient may be 0, and to scale it to length 1 gives NaN.
        torch.manual_seed(0)
        model.weight_matrix.normal_(0, 1e-2)
        model.vbias.zero_(), model.hbias.zero_()
        for indices in torch.randperm(len(data)).split(batch_size):
            batch = data[indices], ones[: len(indices)]
            chains = model.init_chains(len(indices), weights=batch[1], start_v=batch[0])
            sgd.zero_grad(set_to_none=False)
            fit_batch_pcd(batch, chains, model, gibbs_steps=1, beta=1.0, centered=False)
            sgd.step()
        return tuple(p.numpy() for p in (model.weight_matrix, model.vbias, model.hbias))

    return epoch


SKLEARN = {"modules": ("sklearn",), "install": 'pip install ".[sklearn]"'}
TRAINERS = [
    *(Peer(f"RBM {dtype}", partial(prepare_ours, dtype), dtype, ours=True) for dtype in ("float32", "float64")),
    *(Peer(f"BernoulliRBM {d}", partial(prepare_sklearn, d), d, **SKLEARN) for d in ("float32", "float64")),
    Peer(
        "rbms float32", prepare_rbms, modules=("rbms", "torch", "h5py"), install="pip install rbms torch==2.13.0 h5py"
    ),
]


def reconstruction(V, parameters):
    """Mean of |v - P(v = 1 | h)| with h at its mean given v: what CD-1 makes small."""
    W, b_v, b_h = (np.asarray(p, np.float64) for p in parameters)
    h = 1 / (1 + np.exp(-(V @ W + b_h)))
    return float(np.abs(V - 1 / (1 + np.exp(-(h @ W.T + b_v)))).mean())
