"""Markov chains with the stationary distribution p(v | x): many at once, for one RBM (a CRBM given x is one).

    sampler = BPMixture(W, b_v, b_h)        BlockedGibbs        h given v, v given h; stays in a mode
    state = sampler.init(1000, seed=1)      ParallelTempering   replicas with weaker coupling carry it to others
    for _ in range(100):                    BPMixture           jumps to where belief propagation leads
        state = sampler.step(state)

`step` is a pure function.  Each sampler leaves p invariant and continues from `state.v` (tempering also from its
replicas), so the steps of several can be mixed on one state, in any order that is fixed beforehand; with tempering
among them, begin with its `init`.

Random numbers depend on (seed, chain, step, unit) alone: results have the same bits for any number of threads.  Where
chains are run in parts (`first_chain`), sums may differ in their last bit, and so may a draw that close to its
threshold.  A sampler, like an `Engine`, serves one thread at a time.

References
----------
[1] Ping & Ihler, "Belief Propagation in Conditional RBMs for Structured Prediction", AISTATS 2017.
[2] Geyer, "Markov chain Monte Carlo maximum likelihood", Computing Science and Statistics 23, 1991.
[3] Tierney, "Markov chains for exploring posterior distributions", Annals of Statistics 22, 1994.
"""

from crbm_fast.samplers.base import State
from crbm_fast.samplers.bp_mixture import BPMixture
from crbm_fast.samplers.gibbs import BlockedGibbs
from crbm_fast.samplers.tempering import ParallelTempering, TemperedState

__all__ = ["BPMixture", "BlockedGibbs", "ParallelTempering", "State", "TemperedState"]
