// Ranks of a test that are threads.
//
//   on_ranks(3, [](Communicator& end) { end.barrier(); });
#pragma once

#include <thread>
#include <vector>

#include "comm/threads.h"

namespace snug {

// Runs work(end) of every rank at once.
template <typename Work>
void on_ranks(int ranks, const Work& work) {
  ThreadGroup group(ranks);
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r) threads.emplace_back([&, r] { work(group.end(r)); });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace snug
