# libsnug_mpi.so, where an MPI is found: the only part that is compiled and linked with it. comm/mpi.cpp opens it from
# the program's folder, so that snug starts on machines without MPI.
set(MPI_CXX_SKIP_MPICXX ON)
find_package(MPI QUIET COMPONENTS CXX)
if(NOT MPI_CXX_FOUND)
  message(STATUS "no MPI: ranks on CPUs use sockets")
  return()
endif()
add_library(snug_mpi MODULE src/comm/mpi_module/mpi_module.cpp)
snug_compile_options(snug_mpi)
target_include_directories(snug_mpi PRIVATE ${PROJECT_SOURCE_DIR}/src)
target_link_libraries(snug_mpi PRIVATE MPI::MPI_CXX)
set_target_properties(snug_mpi PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR} CXX_VISIBILITY_PRESET hidden)
