// Just enough of libDAI's interface for the driver: parallel updates with libDAI's messages from factors to variables.
#pragma once
#include <cmath>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <vector>
namespace dai {
struct Exception : std::runtime_error { using std::runtime_error::runtime_error; };
struct Var { std::size_t label; Var(std::size_t l, std::size_t) : label(l) {} };
struct VarSet {
    std::vector<std::size_t> labels;
    VarSet(const Var &a) : labels{a.label} {}
    VarSet(const Var &a, const Var &b) : labels{a.label, b.label} {}
};
struct Factor {
    VarSet vars; std::vector<double> p;
    Factor(const VarSet &v, double x) : vars(v), p(1u << v.labels.size(), x) {}
    void set(std::size_t i, double x) { p[i] = x; }
    double operator[](std::size_t i) const { return p[i]; }
};
struct FactorGraph { std::vector<Factor> factors; FactorGraph(const std::vector<Factor> &f) : factors(f) {} };
struct PropertySet { std::string text; PropertySet(const std::string &s) : text(s) {} };
struct BP {
    FactorGraph g; int maxiter; bool logdomain; std::size_t n = 0;
    std::vector<double> m;                   // (factor, end): log of m(1) / m(0)
    BP(const FactorGraph &graph, const PropertySet &p) : g(graph) {
        for (auto key : {"tol=0", "updates=PARALL", "verbose=0"})
            if (p.text.find(key) == std::string::npos) throw Exception(key);
        maxiter = std::stoi(p.text.substr(p.text.find("maxiter=") + 8));
        logdomain = p.text.find("logdomain=1") != std::string::npos;
        for (auto &f : g.factors) for (auto l : f.vars.labels) n = std::max(n, l + 1);
    }
    void init() { m.assign(2 * g.factors.size(), 0); }
    std::vector<double> totals() const {
        std::vector<double> t(n, 0);
        for (std::size_t f = 0; f < g.factors.size(); f++)
            for (std::size_t e = 0; e < g.factors[f].vars.labels.size(); e++)
                t[g.factors[f].vars.labels[e]] += m[2 * f + e];
        return t;
    }
    double run() {
        if (!logdomain && n > 40) throw Exception("Quantity not normalizable");
        for (int it = 0; it < maxiter; it++) {
            auto t = totals(), old = m;
            for (std::size_t f = 0; f < g.factors.size(); f++) {
                auto &F = g.factors[f]; auto &l = F.vars.labels;
                if (l.size() == 1) m[2 * f] = std::log(F.p[1] / F.p[0]);
                else for (int e = 0; e < 2; e++) {
                    double o = std::exp(t[l[1 - e]] - old[2 * f + 1 - e]);
                    m[2 * f + e] = std::log((F.p[e ? 2 : 1] + F.p[3] * o) / (F.p[0] + F.p[e ? 1 : 2] * o));
                }
            }
        }
        return 0;
    }
    Factor beliefV(std::size_t i) const {
        Factor b(Var(i, 2), 0); double o = std::exp(totals()[i]);
        b.set(0, 1 / (1 + o)); b.set(1, o / (1 + o)); return b;
    }
};
}
