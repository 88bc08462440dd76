#include "ops/attention/attention_reference.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/attention/packed_heads.h"
#include "ops/packed_rows.h"
#include "ops/random.h"

namespace snug::ops {
namespace {

double dot(const double* a, const double* b, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

// Query i of head h of sample b: what it sees, and what each of its probabilities is multiplied by.
struct Row {
  int64_t b, h, i;
  int64_t kv;           // its kv head
  int64_t first, seen;  // keys [first, seen)
  int64_t at;           // index in [B,H,T]
  const double* q;
};

class Problem {
 public:
  // `random`: the port of seed, followed by step, sample and starts.
  Problem(const RefArgs& a, size_t random)
      : p(packed_heads(a.in(0).shape(), a.attrs)),
        a_(a),
        random_(random),
        dropout_(a.attrs.f("p", 0)) {}

  template <typename Fn>
  void for_each_row(Fn&& fn) const {
    const SeenKeys sees = seen_keys(a_.attrs);
    for (int64_t b = 0; b < p.B; ++b) {
      for (int64_t h = 0; h < p.H; ++h) {
        for (int64_t i = 0; i < p.T; ++i) {
          const int64_t sample = i - position_in_sample(a_, starts_port(random_), b * p.T + i, p.T);
          fn(Row{b, h, i, h / p.group(), std::max(sees.first(i), sample), sees.end(i, p.T),
                 (b * p.H + h) * p.T + i, qkv() + p.q(b, i, h)});
        }
      }
    }
  }

  const double* qkv() const { return a_.in(0).v.data(); }
  const double* k(const Row& r, int64_t j) const { return qkv() + p.k(r.b, j, r.kv); }
  const double* v(const Row& r, int64_t j) const { return qkv() + p.v(r.b, j, r.kv); }
  double scale() const { return a_.attrs.f("scale", 1 / std::sqrt(static_cast<double>(p.D))); }
  double score(const Row& r, int64_t j) const { return dot(r.q, k(r, j), p.D) * scale(); }

  double dropout_factor(const Row& r, int64_t j) const {
    if (dropout_ == 0) return 1;
    const auto scalar = [&](size_t port) { return static_cast<int64_t>(a_.in(port).v[0]); };
    const Key key = op_key(scalar(random_), scalar(random_ + 1), a_.attrs);
    const int64_t head = a_.attrs.i("first_head", 0) + r.h;
    const int64_t element = (head * p.T + r.i) * p.T + j;
    const bool kept = keeps(key, scalar(random_ + 2) + r.b, element, drop_threshold(dropout_));
    return kept ? drop_scale(dropout_) : 0;
  }

  const PackedHeads p;

 private:
  const RefArgs& a_;
  size_t random_;
  double dropout_;
};

// Writes y and hands (row, probabilities, log-sum-exp) to `keep`.
template <typename Keep>
void forward(const RefArgs& a, Keep&& keep) {
  const Problem problem(a, 1);
  const PackedHeads& p = problem.p;
  std::vector<double> probs(static_cast<size_t>(p.T));
  problem.for_each_row([&](const Row& r) {
    for (int64_t j = r.first; j < r.seen; ++j) probs[static_cast<size_t>(j)] = problem.score(r, j);
    const double max = *std::max_element(probs.begin() + r.first, probs.begin() + r.seen);
    double sum = 0;
    for (int64_t j = r.first; j < r.seen; ++j) sum += std::exp(probs[static_cast<size_t>(j)] - max);
    double* y = a.out(0).v.data() + p.y(r.b, r.i, r.h);
    for (int64_t j = r.first; j < r.seen; ++j) {
      double& prob = probs[static_cast<size_t>(j)];
      prob = std::exp(prob - max) / sum;
      const double weight = prob * problem.dropout_factor(r, j);
      for (int64_t d = 0; d < p.D; ++d) y[d] += weight * problem.v(r, j)[d];
    }
    keep(r, probs, max + std::log(sum));
  });
}

// The cotangents of y, read from port `dy` of a backward op, which seed, step, sample and starts
// follow.
class Backward : public Problem {
 public:
  Backward(const RefArgs& a, size_t dy) : Problem(a, dy + 1), dy_(a.in(dy).v.data()) {}

  const double* dy(const Row& r) const { return dy_ + p.y(r.b, r.i, r.h); }
  double dprob(const Row& r, int64_t j) const {
    return dot(dy(r), v(r, j), p.D) * dropout_factor(r, j);
  }

 private:
  const double* dy_;
};

// Adds every row's part of dqkv. probability(row, j) is P_ij; delta(row) is sum_j P_ij dP_ij.
template <typename Probability, typename Delta>
void backward(const Backward& b, RefTensor& dqkv, Probability&& probability, Delta&& delta) {
  const PackedHeads& p = b.p;
  double* out = dqkv.v.data();
  b.for_each_row([&](const Row& r) {
    const double shift = delta(r);
    for (int64_t j = r.first; j < r.seen; ++j) {
      const double prob = probability(r, j);
      const double dscore = prob * (b.dprob(r, j) - shift) * b.scale();
      const double weight = prob * b.dropout_factor(r, j);
      for (int64_t d = 0; d < p.D; ++d) {
        out[p.q(r.b, r.i, r.h) + d] += dscore * b.k(r, j)[d];
        out[p.k(r.b, j, r.kv) + d] += dscore * r.q[d];
        out[p.v(r.b, j, r.kv) + d] += weight * b.dy(r)[d];
      }
    }
  });
}

}  // namespace

void attention_reference(const RefArgs& a) {
  forward(a, [&](const Row& r, const std::vector<double>& probs, double) {
    const auto T = static_cast<int64_t>(probs.size());
    std::copy(probs.begin() + r.first, probs.begin() + r.seen,
              a.out(1).v.begin() + r.at * T + r.first);
  });
}

void flash_attention_reference(const RefArgs& a) {
  forward(a, [&](const Row& r, const std::vector<double>&, double lse) {
    a.out(1).v[static_cast<size_t>(r.at)] = lse;
  });
}

void attention_grad_reference(const RefArgs& a) {
  const Backward b(a, 2);
  const auto probability = [&](const Row& r, int64_t j) {
    return a.in(1).v[static_cast<size_t>(r.at * b.p.T + j)];
  };
  backward(b, a.out(0), probability, [&](const Row& r) {
    double delta = 0;
    for (int64_t j = r.first; j < r.seen; ++j) delta += probability(r, j) * b.dprob(r, j);
    return delta;
  });
}

void flash_attention_grad_reference(const RefArgs& a) {
  const Backward b(a, 3);
  const auto probability = [&](const Row& r, int64_t j) {
    return std::exp(b.score(r, j) - a.in(2).v[static_cast<size_t>(r.at)]);
  };
  backward(b, a.out(0), probability, [&](const Row& r) {
    return dot(b.dy(r), a.in(1).v.data() + b.p.y(r.b, r.i, r.h), b.p.D);
  });
}

}  // namespace snug::ops
