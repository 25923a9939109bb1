// libdai_driver.cpp: an RBM in libDAI, for bench/peers/libdai.py, which compiles it against an installation.
//
//   libdai_driver FILE T
//
// FILE holds nv and nh as 64-bit integers, then W (nv, nh), b1 (nv,), b2 (nh,) as doubles.  Builds the graph, writes a
// line "ready <domain>" and then, for each line it reads, runs T iterations of BP from uniform messages and writes the
// nv + nh probabilities of state 1 as doubles.  Parallel updates ("PARALL"): on an RBM the only schedule of
// libDAI's whose messages can be said beforehand.  In libDAI's linear domain, which is faster, unless it underflows.
#include <dai/bp.h>
#include <dai/factorgraph.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

static std::unique_ptr<dai::BP> make(const dai::FactorGraph &graph, const std::string &T, bool logdomain)
{
    const std::string rest = std::string("tol=0,verbose=0,updates=PARALL,logdomain=") + (logdomain ? "1" : "0");
    return std::unique_ptr<dai::BP>(new dai::BP(graph, dai::PropertySet("[" + rest + ",maxiter=" + T + "]")));
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    std::ifstream file(argv[1], std::ios::binary);
    int64_t n[2];
    file.read(reinterpret_cast<char *>(n), sizeof n);
    const size_t nv = n[0], nh = n[1];
    std::vector<double> x(nv * nh + nv + nh);
    file.read(reinterpret_cast<char *>(x.data()), x.size() * sizeof(double));
    if (!file) {
        std::cerr << "cannot read " << argv[1] << "\n";
        return 2;
    }

    std::vector<dai::Factor> factors;
    std::vector<dai::Var> units;
    for (size_t i = 0; i < nv + nh; i++) {
        units.push_back(dai::Var(i, 2));
        dai::Factor bias(units[i], 1.0);
        bias.set(1, std::exp(x[nv * nh + i]));
        factors.push_back(bias);
    }
    for (size_t i = 0; i < nv; i++)
        for (size_t j = 0; j < nh; j++) {
            dai::Factor edge(dai::VarSet(units[i], units[nv + j]), 1.0);
            edge.set(3, std::exp(x[i * nh + j]));           // both units on
            factors.push_back(edge);
        }
    const dai::FactorGraph graph(factors);
    bool logdomain = false;
    std::unique_ptr<dai::BP> bp = make(graph, "1", false);
    try {                          // with many neighbours the products of messages underflow, in the first iteration
        bp->init();
        bp->run();
        for (size_t i = 0; i < nv + nh; i++)
            if (!(bp->beliefV(i)[1] >= 0))
                logdomain = true;
    } catch (dai::Exception &) {
        logdomain = true;
    }
    bp = make(graph, argv[2], logdomain);
    std::printf("ready %s\n", logdomain ? "logarithmic" : "linear");
    std::fflush(stdout);

    std::string line;
    std::vector<double> tau(nv + nh);
    while (std::getline(std::cin, line)) {
        try {
            bp->init();
            bp->run();
        } catch (dai::Exception &) {
            if (logdomain)
                throw;
            logdomain = true;      // or later: then from now on in logarithms
            bp = make(graph, argv[2], true);
            bp->init();
            bp->run();
        }
        for (size_t i = 0; i < nv + nh; i++)
            tau[i] = bp->beliefV(i)[1];
        std::fwrite(tau.data(), sizeof(double), tau.size(), stdout);
        std::fflush(stdout);
    }
    return 0;
}
