// Nothing is allocated on the executor's path from step 1 on: every operator new of the process is
// counted.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "support/small_run.h"

namespace {

std::atomic<bool> counting{false};
std::atomic<int64_t> allocations{0};

void* counted(std::size_t bytes) noexcept {
  if (counting) ++allocations;
  return std::malloc(bytes == 0 ? 1 : bytes);
}

void* counted_or_throw(std::size_t bytes) {
  if (void* p = counted(bytes)) return p;
  throw std::bad_alloc();
}

}  // namespace

// Every form, so that none of them mixes with the library's own.
void* operator new(std::size_t bytes) { return counted_or_throw(bytes); }
void* operator new[](std::size_t bytes) { return counted_or_throw(bytes); }
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return counted(bytes); }
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept { return counted(bytes); }
void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t) noexcept { std::free(p); }
void operator delete(void* p, const std::nothrow_t&) noexcept { std::free(p); }
void operator delete[](void* p, const std::nothrow_t&) noexcept { std::free(p); }

namespace snug {
namespace {

TEST(Allocation, NoneFromStepOneOn) {
  SmallRun run("snug-tiny", {.batch = 2, .seq = 64}, {.accum = 2});
  run.executor().run("micro_first");  // step 0: libraries set themselves up
  run.executor().run("micro_next");
  run.executor().run("update");
  run.executor().run("eval");
  allocations = 0;
  counting = true;
  for (int i = 0; i < 3; ++i) {
    run.executor().run("micro_first");
    run.executor().run("micro_next");
    run.executor().run("update");
    run.executor().run("eval");
  }
  counting = false;
  EXPECT_EQ(allocations, 0);

  counting = true;
  int* volatile one = new int(1);  // volatile: an unread pair may be left out
  delete one;
  counting = false;
  EXPECT_EQ(allocations, 1) << "the counter itself works";
}

}  // namespace
}  // namespace snug
