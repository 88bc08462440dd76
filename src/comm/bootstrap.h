// What an engine needs to form a group: every rank tells the others a few bytes (addresses of
// sockets, NCCL's unique id).
//
//   const std::vector<std::string> addresses = bootstrap.exchange(my_address);
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace snug {

class Communicator;

class Bootstrap {
 public:
  virtual ~Bootstrap() = default;
  virtual int rank() const = 0;
  virtual int ranks() const = 0;
  // Every rank's text, in the order of ranks. All ranks call it, each as often as the others.
  virtual std::vector<std::string> exchange(std::string_view mine) = 0;
};

// Some ranks of another, in the order that is given; this one is among them. All ranks of the other form
// such groups at once: every rank is in one, and makes the same calls.
class PartBootstrap final : public Bootstrap {
 public:
  PartBootstrap(Bootstrap& all, std::vector<int> members);
  int rank() const override { return rank_; }
  int ranks() const override { return static_cast<int>(members_.size()); }
  std::vector<std::string> exchange(std::string_view mine) override;

 private:
  Bootstrap& all_;
  std::vector<int> members_;  // by rank here: the rank there
  int rank_;
};

// Over a group that is there already, of an engine that does not enqueue.
class GroupBootstrap final : public Bootstrap {
 public:
  explicit GroupBootstrap(Communicator& group) : group_(group) {}
  int rank() const override;
  int ranks() const override;
  std::vector<std::string> exchange(std::string_view mine) override;

 private:
  Communicator& group_;
};

}  // namespace snug
