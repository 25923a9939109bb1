/* check_naive.c: building, running and freeing graphs of bench/naive.c, for the sanitizers. */
#include <math.h>
#include <stdio.h>

#include "naive.h"

int main(void)
{
    int passed = 0, failed = 0;
    const int wrong[] = {1, CRBM_GRAPH_STATES + 1};
    crbm_graph_new(wrong, 2) == NULL ? passed++ : failed++;
    crbm_graph_free(NULL);
    for (int n = 0; n < 71; n += n < 12 ? 1 : 29) {          /* past two scalings of a product */
        int states[71];
        double table[CRBM_GRAPH_STATES * CRBM_GRAPH_STATES], belief[CRBM_GRAPH_STATES];
        for (int i = 0; i < n; i++)
            states[i] = 1 + 5 * i % CRBM_GRAPH_STATES;
        for (int x = 0; x < CRBM_GRAPH_STATES * CRBM_GRAPH_STATES; x++)
            table[x] = 1 + x % 7;
        crbm_graph *g = crbm_graph_new(states, n);
        for (int i = 0; i < n; i++) {
            crbm_graph_set_potential(g, i, table);
            for (int j = 0; j < i; j++)             /* every pair: many loops */
                crbm_graph_add_factor(g, i, j, table) == 0 ? passed++ : failed++;
        }
        for (int t = 0; t < 6; t++) {
            if (t == 3)
                crbm_graph_reset(g);
            crbm_graph_iterate(g, t % 2 ? CRBM_CACHE : CRBM_RECOMPUTE);
        }
        for (int i = 0; i < n; i++) {
            double sum = 0;
            crbm_graph_belief(belief, g, i);
            for (int x = 0; x < states[i]; x++)
                sum += belief[x];
            fabs(sum - 1) < 1e-12 ? passed++ : failed++;
        }
        double all[71 * CRBM_GRAPH_STATES];
        crbm_graph_beliefs(all, g);
        n == 0 || all[0] == 1 ? passed++ : failed++;           /* variable 0 has one state */
        crbm_graph_free(g);
    }
    for (int nv = 0; nv < 4; nv++) {
        const double ones[] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
        double beliefs[12];
        crbm_graph *g = crbm_graph_new_rbm(ones, ones, ones, nv, 3);
        crbm_graph_iterate(g, CRBM_CACHE);
        crbm_graph_beliefs(beliefs, g);
        for (int i = 0; i < 2 * (nv + 3); i++)
            beliefs[i] == 0.5 ? passed++ : failed++;
        crbm_graph_free(g);
    }
    printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}
