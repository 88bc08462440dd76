#include "search/largest.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace snug {
namespace {

struct Known {
  int64_t n = 0;
  SpaceBytes need;
};

class Search {
 public:
  Search(const LargestQuestion& question, const std::function<SpaceBytes(int64_t)>& need)
      : question_(question), need_(need) {}

  Largest run() {
    for (int64_t asked = 0; first_above() - last_inside() > 1; ++asked) {
      // Guesses along a line can creep towards the answer from one side; halving cannot.
      const int64_t guess = asked % 3 == 2 ? halfway() : along_the_line();
      ask(std::clamp(guess, last_inside() + 1, first_above() - 1));
    }
    Largest found;
    if (inside_) found = {.n = inside_->n, .need = inside_->need};
    if (above_) found.next_need = above_->need;
    return found;
  }

 private:
  int64_t last_inside() const { return inside_ ? inside_->n : 0; }
  int64_t first_above() const { return above_ ? above_->n : question_.limit + 1; }

  void ask(int64_t n) {
    before_ = latest_;
    latest_ = Known{n, need_(n)};
    (latest_->need.fits_in(question_.bytes) ? inside_ : above_) = latest_;
  }

  // Twice as many as long as everything fits.
  int64_t halfway() const {
    return above_ ? std::midpoint(last_inside(), above_->n) : doubled(last_inside());
  }
  int64_t doubled(int64_t n) const { return n > question_.limit / 2 ? question_.limit : 2 * n; }

  // Of the spaces that are used, the one nearest to its limit or furthest beyond it.
  Space tightest(const SpaceBytes& need) const {
    return std::ranges::max(kAllSpaces, {}, [&](Space space) {
      return need[space] == 0 ? -kUnlimited : need[space] - question_.bytes[space];
    });
  }

  // Where the line through the nearest two that are known meets the limit.
  int64_t along_the_line() const {
    if (!latest_) return question_.start;
    if (!before_) return halfway();
    const Known a = inside_ && above_ ? *inside_ : *before_;
    const Known b = inside_ && above_ ? *above_ : *latest_;
    const Space space = tightest(b.need);
    const double per_unit =
        static_cast<double>(b.need[space] - a.need[space]) / (scale(b.n) - scale(a.n));
    if (!(per_unit > 0)) return halfway();
    const double at =
        scale(a.n) + static_cast<double>(question_.bytes[space] - a.need[space]) / per_unit;
    const double n = std::pow(std::max(at, 1.0), 1 / question_.power);
    return static_cast<int64_t>(std::min(n, static_cast<double>(question_.limit)));
  }
  double scale(int64_t n) const { return std::pow(static_cast<double>(n), question_.power); }

  const LargestQuestion& question_;
  const std::function<SpaceBytes(int64_t)>& need_;
  std::optional<Known> inside_, above_;   // the nearest on either side
  std::optional<Known> latest_, before_;  // the last two asked
};

}  // namespace

Largest find_largest(const LargestQuestion& question,
                     const std::function<SpaceBytes(int64_t)>& need) {
  return Search(question, need).run();
}

}  // namespace snug
