// What libsnug_mpi.so offers to comm/mpi.cpp: MPI's calls as a table of plain functions, so that
// only that library is compiled and linked with an MPI.
//
// Each returns MPI's error code, 0 for success. Calls that move bytes begin them and return; `test`
// says whether they have ended.
#pragma once

#include <cstdint>

namespace snug {

struct MpiHandle {  // of a communicator or a request; what is in it is the library's
  int64_t bits = 0;
};

// One block of each rank: `bytes` of it, and the way from a rank's block to the next one's.
struct MpiBlocks {
  int bytes = 0;
  int64_t stride = 0;
};

enum MpiTag : int { kMpiData, kMpiFailure };
inline constexpr int kMpiWords = 1024;  // bytes of a text
inline constexpr int kMpiCallsVersion = 1;
inline constexpr const char* kMpiCallsSymbol = "snug_mpi_calls";

struct MpiCalls {
  int version;

  // Before init too: "Open MPI v4.1.4, ..."
  void (*library)(char* text);
  void (*words)(int error, char* text);

  // `serialized`: calls of two threads must not overlap. MPI that allows one thread alone: an error.
  int (*init)(int* serialized, int* rank, int* ranks);
  int (*finalize)();

  // A communicator of these ranks of all, in this order; only they call it.
  int (*make_group)(const int* members, int count, MpiHandle* group);
  int (*free_group)(MpiHandle* group);

  int (*all_gather)(MpiHandle group, const void* mine, void* all, MpiBlocks blocks, bool in_place,
                    MpiHandle* request);
  int (*all_to_all)(MpiHandle group, const void* from, void* to, MpiBlocks blocks,
                    MpiHandle* request);
  int (*broadcast)(MpiHandle group, void* bytes, int count, int root, MpiHandle* request);
  int (*send)(MpiHandle group, const void* bytes, int count, int to, MpiTag tag,
              MpiHandle* request);
  int (*receive)(MpiHandle group, void* bytes, int count, int from, MpiHandle* request);
  int (*barrier)(MpiHandle group, MpiHandle* request);
  int (*test)(MpiHandle* request, int* done);

  // A message with kMpiFailure of at most kMpiWords bytes, where one has come: its bytes, or 0.
  int (*take_failure)(MpiHandle group, char* text, int* bytes);
};

}  // namespace snug
