"""NumPy, PyTorch (eager and compiled) and JAX (jitted), each in the paper's form and in ours (forms.py)."""

from functools import cache, partial

import numpy as np

from bench.peers import Peer, each, forms


def loop(xp, step, form, E, T, b1, b2):
    state = xp.full_like(E, forms.START[form]), b1, forms.logistic(xp, b2)
    for _ in range(T):
        state = step(E, b1, b2, *state)
    return state[1:]


def prepare_numpy(form, dtype, W, b1, b2, T):
    E, b1, b2 = np.exp(W.astype(dtype)), b1.astype(dtype), b2.astype(dtype)
    return each(partial(loop, np, partial(forms.STEPS[form], np), form, E, T), b1, b2)


@cache
def compiled(form):
    import torch

    torch._dynamo.config.recompile_limit = 64  # once per size; beyond 8 it would continue uncompiled
    return torch.compile(partial(forms.STEPS[form], torch), dynamic=False)


def prepare_torch(form, compile_it, W, b1, b2, T):
    import torch

    torch.set_num_threads(1)
    E, b1, b2 = (torch.from_numpy(a) for a in (np.exp(W), b1, b2))
    step = compiled(form) if compile_it else partial(forms.STEPS[form], torch)

    def one(b1, b2):
        with torch.inference_mode():
            return tuple(t.numpy() for t in loop(torch, step, form, E, T, b1, b2))

    return each(one, b1, b2)


@cache
def jitted(form):
    import jax

    def run(E, b1, b2, T):
        step = partial(forms.STEPS[form], jax.numpy, E, b1, b2)
        start = jax.numpy.full_like(E, forms.START[form]), b1, forms.logistic(jax.numpy, b2)
        return jax.lax.fori_loop(0, T, lambda _, state: step(*state), start)[1:]

    return jax.jit(run, static_argnums=3)


def prepare_jax(form, W, b1, b2, T):
    import jax

    E, b1, b2 = (jax.numpy.asarray(a) for a in (np.exp(W), b1, b2))
    run = jitted(form)
    return each(lambda b1, b2: tuple(np.asarray(t) for t in run(E, b1, b2, T)), b1, b2)


TORCH = {"modules": ("torch",), "install": "pip install torch==2.13.0"}
JAX = {"modules": ("jax",), "install": 'pip install "jax<0.7"'}  # below 0.7 for PGMax's sake

# The matrices that exist at once are 9 in the paper's form and 7 in ours; fewer where operations are fused.
PEERS = [
    Peer(
        f"NumPy {dtype}, {form}",
        partial(prepare_numpy, form, dtype),
        dtype,
        takes_batches=True,
        bytes_per_edge=np.dtype(dtype).itemsize * matrices,
    )
    for form, matrices in (("paper's form", 9), ("our form", 7))
    for dtype in ("float64", "float32")
] + [
    peer
    for form, matrices in (("paper's form", 9), ("our form", 7))
    for peer in (
        Peer(
            f"PyTorch eager, {form}",
            partial(prepare_torch, form, False),
            bytes_per_edge=4 * matrices,
            takes_batches=True,
            **TORCH,
        ),
        Peer(
            f"PyTorch compiled, {form}",
            partial(prepare_torch, form, True),
            bytes_per_edge=16,
            takes_batches=True,
            slow=True,
            **TORCH,
        ),
        Peer(f"JAX jitted, {form}", partial(prepare_jax, form), bytes_per_edge=20, takes_batches=True, **JAX),
    )
]
