/* naive.h: sum-product BP on any pairwise factor graph, message by message, as a general library does it.
 *
 * The yardstick of the benchmark and a second opinion on the engine.  It knows variables with a few states each,
 * factors over two variables as tables of positive numbers, and one object per message, reached through the lists
 * of what a variable receives.  It does not know that an RBM is bipartite, binary or dense.
 *
 *   psi(x) = prod_i potential_i(x_i) prod_(i,j) table_ij(x_i, x_j)
 *
 * An iteration lets the variables send one after another in the order of their numbers, each to all neighbours, from
 * the messages that are there at that moment (Eqs. 8 and 9 of the paper, in place):
 *
 *   m_{i->j}(y) = sum_x table_ij(x, y) potential_i(x) prod_{k != j} m_{k->i}(x)
 *
 * With all hidden units before all visible ones this is the paper's Algorithm 1.  Doubles throughout.
 */
#ifndef CRBM_NAIVE_H
#define CRBM_NAIVE_H

#include <stddef.h>

#define CRBM_GRAPH_STATES 16      /* states of a variable at most */
#define CRBM_GRAPH_RATIO 1e9      /* largest entry of a factor's table over the smallest, at most */

enum crbm_cavity {                /* how the product over k != j is found */
    CRBM_RECOMPUTE = 0,           /* multiplied anew for each j: deg^2 products for a variable, what libDAI does */
    CRBM_CACHE = 1                /* all k multiplied once, then m_{j->i} divided out: deg products */
};

typedef struct crbm_graph crbm_graph;

/* A graph of n variables with uniform potentials and no factor.
 *   states   (n,) numbers of states, each from 1 to CRBM_GRAPH_STATES
 * returns NULL without memory or with a number out of range. */
crbm_graph *crbm_graph_new(const int *states, ptrdiff_t n);
void crbm_graph_free(crbm_graph *g);

/* potential (states_i,), positive and finite. */
void crbm_graph_set_potential(crbm_graph *g, ptrdiff_t i, const double *potential);

/* A factor over variables i != j.
 *   table   (states_i, states_j) row by row, positive, within CRBM_GRAPH_RATIO: then so is each message, its
 *           products do not underflow, and dividing one out is safe
 * returns 0, or -1 without memory (the graph is as before). */
int crbm_graph_add_factor(crbm_graph *g, ptrdiff_t i, ptrdiff_t j, const double *table);

/* The graph of an RBM, one variable per unit, hidden units before visible ones.
 *   exp_W     (nv, nh) row by row, positive, within CRBM_GRAPH_RATIO of 1
 *   exp_b_h   (nh,), exp_b_v (nv,): positive and finite
 * returns NULL without memory. */
crbm_graph *crbm_graph_new_rbm(const double *exp_W, const double *exp_b_h, const double *exp_b_v, ptrdiff_t nv,
                               ptrdiff_t nh);

/* All messages := uniform. */
void crbm_graph_reset(crbm_graph *g);

/* One iteration. */
void crbm_graph_iterate(crbm_graph *g, enum crbm_cavity cavity);

/* belief (states_i,) := the normalised product of what variable i has and receives. */
void crbm_graph_belief(double *belief, const crbm_graph *g, ptrdiff_t i);

/* beliefs (states_0 + states_1 + ...,) := those of all variables, one after another. */
void crbm_graph_beliefs(double *beliefs, const crbm_graph *g);

#endif /* CRBM_NAIVE_H */
