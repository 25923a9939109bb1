/* naive.c: see naive.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "naive.h"

typedef struct message message;
typedef struct variable variable;

struct message {
    double *value;                /* (states of `to`), the largest is 1 */
    const variable *to;
    const double *table;          /* table(x, y) = table[x * stride_x + y * stride_y]; x of the sender, y of `to` */
    ptrdiff_t stride_x, stride_y;
};

struct variable {
    int states;
    double potential[CRBM_GRAPH_STATES];
    message **sent, **received;   /* (degree,) both; k counts the factors */
    ptrdiff_t degree, room;       /* room: length of the two lists as allocated */
};

typedef struct factor {           /* all factors are chained, so that they can be found again */
    struct factor *next;
    message forth, back;
    double numbers[];             /* the table, and the values of both messages */
} factor;

struct crbm_graph {
    ptrdiff_t n;
    factor *factors;
    variable variables[];
};

/* p := p / max(p) */
static void scale(double *p, int states)
{
    double most = p[0];
    for (int x = 1; x < states; x++)
        most = p[x] > most ? p[x] : most;
    for (int x = 0; x < states; x++)
        p[x] /= most;
}

/* p 2^exponent stays as it is, p comes into [0.5, 1) */
static void split(double *p, ptrdiff_t *exponent, int states)
{
    for (int x = 0; x < states; x++) {
        int e;
        p[x] = frexp(p[x], &e);
        exponent[x] += e;
    }
}

/* p := potential times what is received, but for the message `except` (which may be NULL); the largest is about 1.
 * Each state has an exponent of its own: it may fall far behind the others before the last messages bring it back. */
static void product(double *p, const variable *v, const message *except)
{
    const int states = v->states;
    ptrdiff_t exponent[CRBM_GRAPH_STATES] = {0}, most = 0;
    memcpy(p, v->potential, (size_t)states * sizeof *p);
    for (ptrdiff_t k = 0; k < v->degree; k++) {
        const message *m = v->received[k];
        if (k % 32 == 0)          /* 32 factors of at least 1 / CRBM_GRAPH_RATIO: 1e-288 is no underflow yet */
            split(p, exponent, states);
        if (m != except)
            for (int x = 0; x < states; x++)
                p[x] *= m->value[x];
    }
    split(p, exponent, states);
    for (int x = 0; x < states; x++)
        most = x == 0 || exponent[x] > most ? exponent[x] : most;
    for (int x = 0; x < states; x++)
        p[x] = exponent[x] - most < -2000 ? 0 : ldexp(p[x], (int)(exponent[x] - most));
}

/* m(y) := sum_x table(x, y) p(x), the largest scaled to 1 */
static void send(message *m, const double *p, int states)
{
    for (int y = 0; y < m->to->states; y++) {
        double sum = 0;
        for (int x = 0; x < states; x++)
            sum += m->table[x * m->stride_x + y * m->stride_y] * p[x];
        m->value[y] = sum;
    }
    scale(m->value, m->to->states);
}

void crbm_graph_iterate(crbm_graph *g, enum crbm_cavity cavity)
{
    double all[CRBM_GRAPH_STATES], p[CRBM_GRAPH_STATES];
    for (ptrdiff_t i = 0; i < g->n; i++) {
        const variable *v = &g->variables[i];
        if (cavity == CRBM_CACHE)
            product(all, v, NULL);
        for (ptrdiff_t k = 0; k < v->degree; k++) {
            if (cavity == CRBM_CACHE)
                for (int x = 0; x < v->states; x++)
                    p[x] = all[x] / v->received[k]->value[x];
            else
                product(p, v, v->received[k]);
            send(v->sent[k], p, v->states);
        }
    }
}

void crbm_graph_belief(double *belief, const crbm_graph *g, ptrdiff_t i)
{
    const variable *v = &g->variables[i];
    double sum = 0;
    product(belief, v, NULL);
    for (int x = 0; x < v->states; x++)
        sum += belief[x];
    for (int x = 0; x < v->states; x++)
        belief[x] /= sum;
}

void crbm_graph_beliefs(double *beliefs, const crbm_graph *g)
{
    for (ptrdiff_t i = 0; i < g->n; beliefs += g->variables[i++].states)
        crbm_graph_belief(beliefs, g, i);
}

/* --- building ---------------------------------------------------------------------------------------------- */

static void fill(double *p, double value, int n)
{
    for (int x = 0; x < n; x++)
        p[x] = value;
}

crbm_graph *crbm_graph_new(const int *states, ptrdiff_t n)
{
    for (ptrdiff_t i = 0; i < n; i++)
        if (states[i] < 1 || states[i] > CRBM_GRAPH_STATES)
            return NULL;
    crbm_graph *g = calloc(1, sizeof *g + (size_t)n * sizeof(variable));
    if (g == NULL)
        return NULL;
    g->n = n;
    for (ptrdiff_t i = 0; i < n; i++) {
        g->variables[i].states = states[i];
        fill(g->variables[i].potential, 1, states[i]);
    }
    return g;
}

void crbm_graph_free(crbm_graph *g)
{
    if (g == NULL)
        return;
    for (factor *f = g->factors; f != NULL;) {
        factor *next = f->next;
        free(f);
        f = next;
    }
    for (ptrdiff_t i = 0; i < g->n; i++) {
        free(g->variables[i].sent);
        free(g->variables[i].received);
    }
    free(g);
}

void crbm_graph_set_potential(crbm_graph *g, ptrdiff_t i, const double *potential)
{
    variable *v = &g->variables[i];
    memcpy(v->potential, potential, (size_t)v->states * sizeof *potential);
    scale(v->potential, v->states);
}

/* Room for one more neighbour; returns 0 or -1. */
static int grow(variable *v)
{
    if (v->degree < v->room)
        return 0;
    const ptrdiff_t room = v->room ? 2 * v->room : 4;
    message **sent = realloc(v->sent, (size_t)room * sizeof *sent);
    if (sent == NULL)
        return -1;
    v->sent = sent;
    message **received = realloc(v->received, (size_t)room * sizeof *received);
    if (received == NULL)
        return -1;
    v->received = received;
    v->room = room;
    return 0;
}

int crbm_graph_add_factor(crbm_graph *g, ptrdiff_t i, ptrdiff_t j, const double *table)
{
    variable *a = &g->variables[i], *b = &g->variables[j];
    const int size = a->states * b->states;
    if (grow(a) || grow(b))
        return -1;
    factor *f = malloc(sizeof *f + (size_t)(size + a->states + b->states) * sizeof *table);
    if (f == NULL)
        return -1;
    double *t = memcpy(f->numbers, table, (size_t)size * sizeof *table);
    scale(t, size);
    f->forth = (message){.value = t + size, .to = b, .table = t, .stride_x = b->states, .stride_y = 1};
    f->back = (message){.value = t + size + b->states, .to = a, .table = t, .stride_x = 1, .stride_y = b->states};
    fill(f->forth.value, 1, b->states);
    fill(f->back.value, 1, a->states);
    f->next = g->factors;
    g->factors = f;
    a->sent[a->degree] = b->received[b->degree] = &f->forth;
    a->received[a->degree++] = b->sent[b->degree++] = &f->back;
    return 0;
}

crbm_graph *crbm_graph_new_rbm(const double *exp_W, const double *exp_b_h, const double *exp_b_v, ptrdiff_t nv,
                               ptrdiff_t nh)
{
    double table[4] = {1, 1, 1, 1};            /* its end, {1, x}, serves as a potential */
    int *states = malloc((size_t)(nh + nv + 1) * sizeof *states);
    for (ptrdiff_t i = 0; states != NULL && i < nh + nv; i++)
        states[i] = 2;
    crbm_graph *g = states == NULL ? NULL : crbm_graph_new(states, nh + nv);
    free(states);
    for (ptrdiff_t i = 0; g != NULL && i < nh + nv; i++) {
        table[3] = i < nh ? exp_b_h[i] : exp_b_v[i - nh];
        crbm_graph_set_potential(g, i, &table[2]);
    }
    for (ptrdiff_t edge = 0; g != NULL && edge < nv * nh; edge++) {
        table[3] = exp_W[edge];
        if (crbm_graph_add_factor(g, nh + edge / nh, edge % nh, table) != 0) {
            crbm_graph_free(g);
            g = NULL;
        }
    }
    return g;
}

void crbm_graph_reset(crbm_graph *g)
{
    for (factor *f = g->factors; f != NULL; f = f->next) {
        fill(f->forth.value, 1, f->forth.to->states);
        fill(f->back.value, 1, f->back.to->states);
    }
}
