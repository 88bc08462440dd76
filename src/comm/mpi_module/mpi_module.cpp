// libsnug_mpi.so: MPI's calls in the table of comm/mpi_calls.h. The only file that sees mpi.h.
#include <mpi.h>

#include <algorithm>
#include <cstring>
#include <span>

#include "comm/mpi_calls.h"

namespace snug {
namespace {

static_assert(sizeof(MPI_Comm) <= sizeof(MpiHandle::bits));
static_assert(sizeof(MPI_Request) <= sizeof(MpiHandle::bits));

template <typename Native>
MpiHandle handle_of(const Native& native) {
  MpiHandle out;
  const auto bytes = std::as_bytes(std::span(&native, 1));  // a pointer, or a number
  std::memcpy(&out.bits, bytes.data(), bytes.size());
  return out;
}
template <typename Native>
Native native_of(const MpiHandle& handle) {
  Native out;
  const auto bytes = std::as_writable_bytes(std::span(&out, 1));
  std::memcpy(bytes.data(), &handle.bits, bytes.size());
  return out;
}
MPI_Comm comm_of(const MpiHandle& handle) { return native_of<MPI_Comm>(handle); }

// begin([](MPI_Request* r) { return MPI_Ibarrier(comm, r); }, request)
template <typename Call>
int begin(const Call& call, MpiHandle* request) {
  MPI_Request native = MPI_REQUEST_NULL;
  const int error = call(&native);
  *request = handle_of(native);
  return error;
}

// The first of a row of codes that is no success.
int first_error(std::initializer_list<int> codes) {
  const auto bad = std::find_if(codes.begin(), codes.end(), [](int c) { return c != MPI_SUCCESS; });
  return bad == codes.end() ? MPI_SUCCESS : *bad;
}

// Calls call(type) with a type of one block: a communicator's next rank has its own `stride` bytes
// further. MPI keeps the type until what uses it has ended.
template <typename Call>
int with_block_type(const MpiBlocks& blocks, const Call& call) {
  MPI_Datatype dense = MPI_DATATYPE_NULL, spaced = MPI_DATATYPE_NULL;
  int error = MPI_Type_contiguous(blocks.bytes, MPI_BYTE, &dense);
  if (error == MPI_SUCCESS) error = MPI_Type_create_resized(dense, 0, blocks.stride, &spaced);
  if (error == MPI_SUCCESS) error = MPI_Type_commit(&spaced);
  if (error == MPI_SUCCESS) error = call(spaced);
  if (spaced != MPI_DATATYPE_NULL) MPI_Type_free(&spaced);
  if (dense != MPI_DATATYPE_NULL) MPI_Type_free(&dense);
  return error;
}

void library(char* text) {
  char version[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int size = 0;
  MPI_Get_library_version(version, &size);
  std::strncpy(text, version, kMpiWords - 1);
}

void words(int error, char* text) {
  char all[MPI_MAX_ERROR_STRING] = {};
  int size = 0;
  MPI_Error_string(error, all, &size);
  std::strncpy(text, all, kMpiWords - 1);
}

int init(int* serialized, int* rank, int* ranks) {
  int began = 0, threads = MPI_THREAD_SINGLE;
  MPI_Initialized(&began);
  const int error = began != 0 ? MPI_Query_thread(&threads)
                               : MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &threads);
  if (error != MPI_SUCCESS) return error;
  if (threads < MPI_THREAD_SERIALIZED) return MPI_ERR_UNSUPPORTED_OPERATION;
  *serialized = threads < MPI_THREAD_MULTIPLE ? 1 : 0;
  return first_error({MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN),
                      MPI_Comm_rank(MPI_COMM_WORLD, rank), MPI_Comm_size(MPI_COMM_WORLD, ranks)});
}

int make_group(const int* members, int count, MpiHandle* group) {
  MPI_Group all = MPI_GROUP_NULL, some = MPI_GROUP_NULL;
  MPI_Comm comm = MPI_COMM_NULL;
  int error = MPI_Comm_group(MPI_COMM_WORLD, &all);
  if (error == MPI_SUCCESS) error = MPI_Group_incl(all, count, members, &some);
  if (error == MPI_SUCCESS) error = MPI_Comm_create_group(MPI_COMM_WORLD, some, 0, &comm);
  if (error == MPI_SUCCESS) error = MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  if (some != MPI_GROUP_NULL) MPI_Group_free(&some);
  if (all != MPI_GROUP_NULL) MPI_Group_free(&all);
  *group = handle_of(comm);
  return error;
}

int free_group(MpiHandle* group) {
  MPI_Comm comm = comm_of(*group);
  const int error = MPI_Comm_free(&comm);
  *group = handle_of(comm);
  return error;
}

int all_gather(MpiHandle group, const void* mine, void* all, MpiBlocks blocks, bool in_place,
               MpiHandle* request) {
  return with_block_type(blocks, [&](MPI_Datatype block) {
    return begin(
        [&](MPI_Request* r) {
          return MPI_Iallgather(in_place ? MPI_IN_PLACE : mine, 1, block, all, 1, block,
                                comm_of(group), r);
        },
        request);
  });
}

int all_to_all(MpiHandle group, const void* from, void* to, MpiBlocks blocks, MpiHandle* request) {
  return with_block_type(blocks, [&](MPI_Datatype block) {
    return begin(
        [&](MPI_Request* r) {
          return MPI_Ialltoall(from, 1, block, to, 1, block, comm_of(group), r);
        },
        request);
  });
}

int broadcast(MpiHandle group, void* bytes, int count, int root, MpiHandle* request) {
  return begin(
      [&](MPI_Request* r) { return MPI_Ibcast(bytes, count, MPI_BYTE, root, comm_of(group), r); },
      request);
}

int send(MpiHandle group, const void* bytes, int count, int to, MpiTag tag, MpiHandle* request) {
  return begin(
      [&](MPI_Request* r) { return MPI_Isend(bytes, count, MPI_BYTE, to, tag, comm_of(group), r); },
      request);
}

int receive(MpiHandle group, void* bytes, int count, int from, MpiHandle* request) {
  return begin(
      [&](MPI_Request* r) {
        return MPI_Irecv(bytes, count, MPI_BYTE, from, kMpiData, comm_of(group), r);
      },
      request);
}

int barrier(MpiHandle group, MpiHandle* request) {
  return begin([&](MPI_Request* r) { return MPI_Ibarrier(comm_of(group), r); }, request);
}

int test(MpiHandle* request, int* done) {
  auto native = native_of<MPI_Request>(*request);
  const int error = MPI_Test(&native, done, MPI_STATUS_IGNORE);
  *request = handle_of(native);
  return error;
}

int take_failure(MpiHandle group, char* text, int* bytes) {
  *bytes = 0;
  int there = 0;
  MPI_Status status;
  const MPI_Comm comm = comm_of(group);
  int error = MPI_Iprobe(MPI_ANY_SOURCE, kMpiFailure, comm, &there, &status);
  if (error != MPI_SUCCESS || there == 0) return error;
  error = MPI_Recv(text, kMpiWords, MPI_BYTE, status.MPI_SOURCE, kMpiFailure, comm, &status);
  if (error == MPI_SUCCESS) error = MPI_Get_count(&status, MPI_BYTE, bytes);
  return error;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const MpiCalls snug_mpi_calls;
const MpiCalls snug_mpi_calls{.version = kMpiCallsVersion,
                              .library = library,
                              .words = words,
                              .init = init,
                              .finalize = MPI_Finalize,
                              .make_group = make_group,
                              .free_group = free_group,
                              .all_gather = all_gather,
                              .all_to_all = all_to_all,
                              .broadcast = broadcast,
                              .send = send,
                              .receive = receive,
                              .barrier = barrier,
                              .test = test,
                              .take_failure = take_failure};

}  // namespace snug
