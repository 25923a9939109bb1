/* crbm.h: what the C kernels offer.
 *
 * kernels/kernels.c is compiled once per instruction set and per real type and exports one crbm_kernels table;
 * dispatch.c chooses a table from the CPU; the methods of inference (methods/) are written in terms of them.  README.md
 * has the map.
 *
 * Kernels do arithmetic. They do not allocate, print, start threads, or know Python or BLAS.
 *
 * Arrays are `void *` to elements of `itemsize` bytes (float or double), so that callers hold one table
 * type for both; each kernel's contract gives the shapes.  "padded" means rows of `ld` elements, ld =
 * crbm_padded(nh, itemsize) >= nh, aligned to CRBM_ALIGN bytes, whose tail columns hold a weight of 0
 * (they contribute log 1 to every sum).
 */
#ifndef CRBM_H
#define CRBM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CRBM_ALIGN 64

/* Rows handled by one call of a group kernel, always starting at a multiple of CRBM_GROUP.  Groups are
 * what threads share out, and partial sums are added in the order of groups, so results have the same
 * bits for any number of threads.  64 rows: up to 64 factors share a logarithm down a column, 3 % faster than 32. */
#define CRBM_GROUP 64

/* Above this max|W| the product form is left for the log domain.  At the limit a product of 4 factors (K = 4),
 * 2^+-115 (float) or 2^+-866 (double), and one factor times the clamped odds, 2^+-109 or 2^+-916, are still
 * normal numbers. */
#define CRBM_MAX_WEIGHT_F32 20.0
#define CRBM_MAX_WEIGHT_F64 150.0

enum crbm_form {          /* what a padded nv x nh matrix holds */
    CRBM_PLAIN = 0,       /* the number itself;  padding 0 */
    CRBM_EXP = 1,         /* its exponential;    padding 1 */
    CRBM_ODDS = 2         /* sign(W) (exp|W| - 1) / 2;  padding 0 */
};

/* One group of rows of one RBM: the arguments of sum_group and log_group, and of descend_group.
 *
 * Notation (paper, Section 5; `log` is the natural logarithm)
 *   m_ij   message v_i -> h_j:  m(h_j = 1) / m(h_j = 0)      "vh message", the state kept between iterations
 *   q_ij   message h_j -> v_i:  m(v_i = 1) / m(v_i = 0)
 */
typedef struct crbm_rows {
    void *msg;            /* IN OUT (rows, ld) m_ij, in the form of `weight`: m or log m                    */
    const void *weight;   /* IN     (rows, ld) exp(W) for sum_*, the odds for descend_*, W in logs          */
    void *cond;           /* OUT    (rows, ld) P(v_i = 1 | h_j = 1), or NULL; may be `msg`: then m is lost   */
    const void *theta_h;  /* IN     (ld,) logit of tau_h                                                     */
    const void *tau_h0;   /* IN     (ld,) 1 - tau_h, from the logit                                          */
    const void *tau_h1;   /* IN     (ld,) tau_h                                                              */
    const void *b1;       /* IN     (rows,) visible biases; +-inf clamps the unit                            */
    void *field_v;        /* OUT    (rows,) sum_j log q_ij                                                   */
    void *tau_v;          /* IN OUT (rows,) tau_v before -> after                                            */
    void *part;           /* OUT    (ld,) sum over these rows of log m_ij; descend_*: (2, ld), and of t_ij   */
    void *scratch;        /*        (ld,) column products; descend_*: (2, ld)                                */
    void *theta_v;        /* IN OUT (rows,) descend_* alone: logit of tau_v, in place of msg, cond and tau_v */
    double kappa;         /* descend_* alone: cosh(max|W| / 4)^2, or 0 where that is too large               */
    double relax;         /* descend_* alone: 0 <= relax < 1, how much longer a step may be                  */
    ptrdiff_t rows;       /* 1 <= rows <= CRBM_GROUP                                                         */
    ptrdiff_t nh, ld;
    double max_weight;    /* max |W_ij|, for sum_* at most the table's; how many factors share one logarithm   */
    double damping;       /* m <- (1 - damping) m_new + damping m_old (log m in log_group)                   */
    int track;            /* measure message_change even without damping                                     */
    double belief_change;   /* OUT max_i |tau_v after - before|; descend_*: of the odds, see descent.h */
    double message_change;  /* OUT with damping or `track`: max_ij |m_new - m_old| / max(m_new, m_old), undamped */
} crbm_rows;

/* One sweep of coordinate ascent over the visible units of n RBMs that share their weights: the arguments of
 * mixed_ascend, mixed_ascend_log and max_ascend. */
typedef struct crbm_ascent {
    void *v;              /* IN OUT (n, nv) states, 0 or 1                                                   */
    void *theta_v;        /* OUT    (n, nv) what v_i = 1 is worth more than v_i = 0, given the others         */
    void *theta_h;        /* IN OUT (n, ld) b2 + v W                                                         */
    void *tau_h0;         /* IN OUT (n, ld) 1 - tau_h and                                                    */
    void *tau_h1;         /* IN OUT (n, ld) tau_h; mixed_ascend only                                         */
    double *change;       /* OUT    (n,) the largest gain of a flip that was met, whether it was made or not   */
    const void *b1;       /* IN     (n, nv) +-inf clamps the unit                                            */
    const void *weight;   /* IN     (nv, ld) exp(W) for mixed_ascend, else W                                 */
    const void *row_sum;  /* IN     (nv,) sum_j W_ij; mixed_ascend only                                      */
    const void *W;        /* IN     (nv, ldw)                                                                */
    ptrdiff_t ldw;
    ptrdiff_t n, nv, nh, ld;
    double max_weight;    /* max |W_ij|, for mixed_ascend at most the table's                                */
    double tol;           /* a flip is made where it gains more                                              */
} crbm_ascent;

typedef struct crbm_kernels {
    const char *isa;          /* "baseline", "avx2", "avx512", "neon"                                       */
    int itemsize;             /* 4 or 8                                                                     */
    double max_weight;        /* CRBM_MAX_WEIGHT_F32 or _F64                                                */

    /* One iteration of BP on a group of rows: sum_product.h, log_domain.h. */
    void (*sum_group)(crbm_rows *r);
    void (*log_group)(crbm_rows *r);      /* sum-product in logs */
    void (*max_group)(crbm_rows *r);      /* max-product         */

    /* theta_h := b2 + sum_g part_g (Eq. 17), tau_h1, tau_h0 := logistic(+-theta_h).
     *   theta_h, tau_h0, tau_h1 (ld,)   b2 (nh,)   part (groups, ld)
     * returns max_j |tau_h after - before|.  groups == 0 starts from theta_h = b2. */
    double (*close_h)(void *theta_h, void *tau_h0, void *tau_h1, const void *b2, const void *part,
                      ptrdiff_t groups, ptrdiff_t nh, ptrdiff_t ld);

    /* part := sum over rows of log m; what close_h needs to continue from stored messages. */
    void (*sum_messages)(crbm_rows *r);
    void (*log_messages)(crbm_rows *r);

    /* Gamma (rows, nh) := or += P(v=1 | h=1) tau_h (Eq. 18 without damping), from `cond`.  `add` chooses. */
    void (*gamma_cond)(void *gamma, const crbm_rows *r, int add);
    /* The same from the messages: tau_v P(h=1 | v=1), equal to it at a fixed point. */
    void (*sum_gamma)(void *gamma, const crbm_rows *r, int add);
    void (*log_gamma)(void *gamma, const crbm_rows *r, int add);

    /* For the Bethe log Z: returns the edge term sum_ij log sum_h rho(h) m(h), in double, and leaves in field_v
     * the sum_j log q_ij that the messages m would send back.  Both from m alone: see sum_product.h. */
    double (*sum_edges)(const crbm_rows *r);
    double (*log_edges)(const crbm_rows *r);

    /* field_v of mixed-product BP, see mixed_product.h. */
    void (*mixed_field)(void *field_v, const void *weight, const void *row_sum, const void *v_map,
                        const void *tau_h0, const void *tau_h1, ptrdiff_t n, ptrdiff_t nv, ptrdiff_t ld,
                        double max_weight);
    void (*mixed_field_log)(void *field_v, const void *weight, const void *v_map, const void *theta_h,
                            ptrdiff_t n, ptrdiff_t nv, ptrdiff_t ld);
    /* Gamma of mixed-product BP (Eq. 18), likewise; `add` chooses between := and +=. */
    void (*mixed_gamma)(void *gamma, const void *W, ptrdiff_t ldw, const void *theta_v, const void *sent,
                        const void *sent_before, const void *theta_h, const void *theta_h_before, ptrdiff_t rows,
                        ptrdiff_t nh, int add);

    /* Coordinate ascent on what mixed-product and max-product seek the best v for: ascent.h. */
    void (*mixed_ascend)(crbm_ascent *a);
    void (*mixed_ascend_log)(crbm_ascent *a);
    void (*max_ascend)(crbm_ascent *a);

    /* One alternation of descent on the Bethe free energy on a group of rows: descent.h.  theta_h, tau_h0 and tau_h1 are
     * those before; descend_close makes the step of the hidden units from part (groups, 2, ld). */
    void (*descend_group)(crbm_rows *r);
    void (*descend_log_group)(crbm_rows *r);
    double (*descend_close)(void *theta_h, void *tau_h0, void *tau_h1, const void *b2, const void *part,
                            ptrdiff_t groups, ptrdiff_t nh, ptrdiff_t ld, double kappa, double relax);
    /* Gamma (rows, nh) := or += the pairwise beliefs that theta_v and theta_h imply. */
    void (*descend_gamma)(void *gamma, const crbm_rows *r, int add);
    void (*descend_log_gamma)(void *gamma, const crbm_rows *r, int add);
    /* What the edges of these rows contribute to the Bethe free energy. */
    double (*descend_energy)(const crbm_rows *r);
    double (*descend_log_energy)(const crbm_rows *r);

    /* Element by element: elementwise.h. */
    void (*logit)(void *theta, const void *tau, ptrdiff_t n);
    void (*pad)(void *out, const void *in, ptrdiff_t rows, ptrdiff_t nh, ptrdiff_t ld, int form);
    void (*unpad)(void *out, const void *in, ptrdiff_t rows, ptrdiff_t nh, ptrdiff_t ld, int form);
    void (*fill)(void *out, double value, ptrdiff_t n);
    void (*add)(void *out, const void *x, const void *y, ptrdiff_t n);
    void (*multiply)(void *out, const void *x, const void *y, ptrdiff_t n);
    double (*max_abs)(const void *x, ptrdiff_t n);
    ptrdiff_t (*first_beyond)(const void *x, double limit, ptrdiff_t n);
    void (*squares)(void *out, const void *x, ptrdiff_t n);
    void (*row_sums)(void *out, const void *W, ptrdiff_t rows, ptrdiff_t nh);
    double (*logistic_step)(void *tau, const void *theta, double sign, double damping, ptrdiff_t n);
    void (*variance)(void *out, const void *tau, ptrdiff_t n);
    void (*onsager)(void *theta, const void *reaction, const void *tau, ptrdiff_t n);
    void (*blend)(void *x, const void *old, double damping, ptrdiff_t n);
    double (*max_change)(const void *x, const void *y, ptrdiff_t n);
    void (*decode)(void *out, const void *x, double threshold, ptrdiff_t n);
    double (*softplus_sum)(const void *theta, ptrdiff_t n);
    double (*node_sum)(const void *b1, const void *field, ptrdiff_t n);
    double (*relu_sum)(const void *theta, ptrdiff_t n);
    double (*mean_sum)(const void *b1, const void *field, ptrdiff_t n);
    double (*entropy_sum)(const void *tau, ptrdiff_t n);
    double (*dot_free)(const void *b1, const void *tau, ptrdiff_t n);
    double (*sum_squares)(const void *x, ptrdiff_t n);
    void (*bernoulli)(void *out, const void *theta, uint64_t seed, uint64_t instance, uint32_t draw,
                      ptrdiff_t n);

    /* One vector times a matrix, and matrices that are mostly zeros: products.h. */
    ptrdiff_t (*nonzeros)(const void *x, ptrdiff_t n);
    void (*combine_rows)(void *out, const void *a, ptrdiff_t stride, const void *B, ptrdiff_t ldb, double beta,
                         void *values, int32_t *index, ptrdiff_t k, ptrdiff_t n);
    void (*dot_rows)(void *out, const void *B, const void *x, ptrdiff_t rows, ptrdiff_t ld);

    /* Steps of gradient ascent: optimizers.h. */
    double (*momentum_step)(void *p, void *velocity, const void *g, double rate, double momentum, double decay,
                            double *squares, ptrdiff_t n);
    double (*adam_step)(void *p, void *m, void *s, const void *g, double rate, double beta1, double beta2,
                        double epsilon, double decay, double *squares, ptrdiff_t n);
} crbm_kernels;

/* The best tables this CPU can run, or those of the named instruction set.
 *   itemsize  4 or 8      isa  NULL for the best
 * returns NULL when `isa` is unknown, was not built, or cannot run here. */
const crbm_kernels *crbm_select(const char *isa, int itemsize);

/* The i-th instruction set of this build that this CPU can run, best first; NULL past the end. */
const char *crbm_isa_name(int i);

/* Elements in a padded row: whole lines of CRBM_ALIGN bytes, but no multiple of 4096 bytes, because rows so
 * far apart fall into the same cache sets (1024 columns of float: 0.50 -> 0.38 ns per edge). */
static inline ptrdiff_t crbm_padded(ptrdiff_t nh, ptrdiff_t itemsize)
{
    const ptrdiff_t per_line = CRBM_ALIGN / itemsize;
    const ptrdiff_t lines = (nh + per_line - 1) / per_line;
    return (lines + (lines > 0 && lines % 64 == 0)) * per_line;
}

#ifdef __cplusplus
}
#endif

#endif /* CRBM_H */
