// The arithmetic of every update, one text for all backends: where a parameter is updated makes no
// difference in a bit.
//
// Each product, sum, quotient and root is rounded by itself, to nearest, in the order of these
// lines. Nothing is fused into a multiply-add: this folder is compiled with -ffp-contract=off and
// -fmad=false, and only it includes this file. What is the same for all elements of a parameter is
// made in double, once, and rounded to float.
//
// A rule is what one method does with an element:
//
//   Adam rule = Adam::of(attrs);       // its attributes
//   rule.start(lr, step);              // the numbers of this step
//   NoCursor at = rule.cursor(first);  // of a rule that goes by an element's position: where it is
//   param = moved(keep, param, rule(at, grad * scale, m, v));   // and renews its states, if any
#pragma once

#include <cmath>
#include <cstdint>

#include "ir/attrs.h"

namespace snug::ops {

// A rule whose elements do not depend on their position.
struct NoCursor {};

// What weight decay leaves of a parameter.
constexpr float kept(double lr, double weight_decay) {
  return static_cast<float>(1 - lr * weight_decay);
}

constexpr float moved(float keep, float param, float by) { return keep * param - by; }

// x^n by squaring: within 1e-10 of pow for a million steps, in a third of its registers on a GPU.
constexpr double power(double x, int64_t n) {
  double result = 1;
  for (; n > 0; n >>= 1, x *= x)
    if (n & 1) result *= x;
  return result;
}

// Adam's, of which several methods are made.
struct Adam {
  static constexpr int kStates = 2;
  double beta1, beta2;
  float eps, new1, new2, old2;
  float step_size, per_root;  // made by start

  bool operator==(const Adam&) const = default;
  static Adam of(const Attrs& attrs) {
    const double beta1 = attrs.f("beta1"), beta2 = attrs.f("beta2");
    return {.beta1 = beta1,
            .beta2 = beta2,
            .eps = static_cast<float>(attrs.f("eps")),
            .new1 = static_cast<float>(1 - beta1),
            .new2 = static_cast<float>(1 - beta2),
            .old2 = static_cast<float>(beta2)};
  }
  constexpr void start(double lr, int64_t step) {
    step_size = static_cast<float>(lr / (1 - power(beta1, step)));
    per_root = static_cast<float>(1 / std::sqrt(1 - power(beta2, step)));
  }
  constexpr float next_m(float m, float g) const { return m + new1 * (g - m); }
  constexpr float divisor(float v) const { return std::sqrt(v) * per_root + eps; }
  constexpr NoCursor cursor(int64_t) const { return {}; }
  constexpr float operator()(NoCursor&, float g, float& m, float& v) const {
    m = next_m(m, g);
    v = old2 * v + new2 * g * g;
    return step_size * (m / divisor(v));
  }
};

struct Lion {
  static constexpr int kStates = 1;
  float new1, new2;
  float lr;  // made by start

  bool operator==(const Lion&) const = default;
  static Lion of(const Attrs& attrs) {
    return {.new1 = static_cast<float>(1 - attrs.f("beta1")),
            .new2 = static_cast<float>(1 - attrs.f("beta2"))};
  }
  constexpr void start(double rate, int64_t) { lr = static_cast<float>(rate); }
  constexpr NoCursor cursor(int64_t) const { return {}; }
  constexpr float operator()(NoCursor&, float g, float& m, float&) const {
    const float along = m + new1 * (g - m);
    const float sign = static_cast<float>(along > 0) - static_cast<float>(along < 0);
    m = m + new2 * (g - m);
    return lr * sign;
  }
};

struct Sgd {
  static constexpr int kStates = 0;
  float lr;  // made by start

  bool operator==(const Sgd&) const = default;
  static Sgd of(const Attrs&) { return {}; }
  constexpr void start(double rate, int64_t) { lr = static_cast<float>(rate); }
  constexpr NoCursor cursor(int64_t) const { return {}; }
  constexpr float operator()(NoCursor&, float g, float&, float&) const { return lr * g; }
};

struct Momentum {
  static constexpr int kStates = 1;
  float momentum;
  float lr;  // made by start

  bool operator==(const Momentum&) const = default;
  static Momentum of(const Attrs& attrs) {
    return {.momentum = static_cast<float>(attrs.f("momentum"))};
  }
  constexpr void start(double rate, int64_t) { lr = static_cast<float>(rate); }
  constexpr NoCursor cursor(int64_t) const { return {}; }
  constexpr float operator()(NoCursor&, float g, float& sum, float&) const {
    sum = momentum * sum + g;
    return lr * sum;
  }
};

}  // namespace snug::ops
