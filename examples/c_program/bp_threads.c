/* bp_threads.c: belief propagation and Gibbs sampling in two threads of a C program.
 *
 *   make && ./bp_threads "$(command -v python3)"
 *
 * The argument is the interpreter of the environment, virtual or not, that has crbm_fast; `make` asks the same python3.
 *
 * Python finds crbm_fast and is out of the way afterwards: the threads know nothing of it.  Each has a workspace of its
 * own and works on p(v | v_0 = 0) or p(v | v_0 = 1) of the same small RBM; the program prints P(v_i = 1) by belief
 * propagation, and the mean of v_i in a Gibbs chain, of every unit:
 *
 *   thread 1 unit 3: BP 0.8624  Gibbs 0.8603
 */
#include <Python.h>
#include <crbm_fast.h>

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NV = 6, NH = 4, THREADS = 2, STEPS = 20000, SEED = 1 };

typedef struct {
    const crbm_fast_api *bp;
    void *workspace;
    int number;               /* and the state of v_0 */
    int status;
    double tau_v[NV], tau_h[NH], mean_v[NV];
} task;

static const double b1[NV] = {0.0, 0.2, -0.4, 0.6, -0.8, 1.0}, b2[NH] = {0.3, -0.3, 0.1, -0.1};

static void *work(void *argument)
{
    task *t = argument;
    const crbm_fast_api *bp = t->bp;
    double clamped[NV], v[NV], h[NH];
    memcpy(clamped, b1, sizeof b1);
    clamped[0] = t->number ? INFINITY : -INFINITY;

    t->status = bp->run(t->workspace, t->tau_v, t->tau_h, NULL, NULL, clamped, b2, CRBM_FAST_SUM_PRODUCT, 100, 1e-9, 0,
                        0);
    if (t->status == CRBM_FAST_NOT_CONVERGED)        /* results are there all the same */
        fprintf(stderr, "thread %d: %s\n", t->number, bp->error_text(t->status));
    for (int i = 0; i < NV; i++) {
        v[i] = t->tau_v[i] > 0.5;
        t->mean_v[i] = 0;
    }
    for (uint64_t step = 0; step < STEPS && t->status >= 0; step++) {
        t->status = bp->sample_h(t->workspace, h, v, b2, SEED, (uint64_t)t->number, step);
        if (t->status >= 0)
            t->status = bp->sample_v(t->workspace, v, h, clamped, SEED, (uint64_t)t->number, step);
        for (int i = 0; i < NV; i++)
            t->mean_v[i] += v[i] / STEPS;
    }
    return NULL;
}

/* Start Python as the interpreter `python` would, so that its site-packages are found, through the pyvenv.cfg beside it
 * if it is one of a virtual environment.  Returns the table of functions, or NULL after an error message. */
static const crbm_fast_api *start_python(const char *python)
{
    PyConfig config;
    PyConfig_InitPythonConfig(&config);
    config.parse_argv = 0;
    PyStatus status = PyConfig_SetBytesString(&config, &config.program_name, python);
    if (!PyStatus_Exception(status))
        status = Py_InitializeFromConfig(&config);
    PyConfig_Clear(&config);
    if (PyStatus_Exception(status)) {
        fprintf(stderr, "Python does not start: %s\n", status.err_msg);
        return NULL;
    }
    const crbm_fast_api *bp = crbm_fast_import();
    if (!bp)
        PyErr_Print();
    return bp;
}

int main(int argc, char **argv)
{
    const crbm_fast_api *bp = start_python(argc > 1 ? argv[1] : "python3");
    if (!bp)
        return 1;
    PyThreadState *python = PyEval_SaveThread();        /* releases the GIL */

    double W[NV * NH];
    for (int k = 0; k < NV * NH; k++)
        W[k] = sin(k + 1.0);
    task tasks[THREADS];
    pthread_t threads[THREADS];
    const ptrdiff_t size = bp->workspace_size(NV, NH, CRBM_FAST_FLOAT64);
    for (int n = 0; n < THREADS; n++) {
        void *workspace = size > 0 ? aligned_alloc(CRBM_FAST_ALIGN, (size_t)size) : NULL;
        const int status = bp->init(workspace, (size_t)size, W, NV, NH, CRBM_FAST_FLOAT64);
        tasks[n] = (task){.bp = bp, .workspace = workspace, .number = n, .status = status};
        if (status < 0 || pthread_create(&threads[n], NULL, work, &tasks[n])) {
            fprintf(stderr, "thread %d does not start: %s\n", n, status < 0 ? bp->error_text(status) : "no thread");
            return 1;
        }
    }
    int failed = 0;
    for (int n = 0; n < THREADS; n++) {
        const task *t = &tasks[n];
        pthread_join(threads[n], NULL);
        free(t->workspace);
        if (t->status < 0)
            fprintf(stderr, "thread %d: %s\n", n, bp->error_text(t->status));
        failed |= t->status < 0;
        for (int i = 0; i < NV && t->status >= 0; i++)
            printf("thread %d unit %d: BP %.4f  Gibbs %.4f\n", n, i, t->tau_v[i], t->mean_v[i]);
    }
    PyEval_RestoreThread(python);
    return Py_FinalizeEx() < 0 || failed;
}
