# snug::openblas: OpenBLAS in its OpenMP build, so that products and our own loops share one pool of threads.
# The static archive is preferred: only then can blas.cpp choose the core type before OpenBLAS looks at the machine.
find_path(OPENBLAS_INCLUDE cblas.h PATH_SUFFIXES openblas-openmp openblas
          HINTS /usr/include/${CMAKE_LIBRARY_ARCHITECTURE}/openblas-openmp REQUIRED)
find_library(OPENBLAS_LIBRARY NAMES libopenblas.a openblas PATH_SUFFIXES openblas-openmp REQUIRED
             HINTS /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/openblas-openmp)
add_library(snug::openblas UNKNOWN IMPORTED)
set_target_properties(snug::openblas PROPERTIES IMPORTED_LOCATION ${OPENBLAS_LIBRARY}
                      INTERFACE_INCLUDE_DIRECTORIES ${OPENBLAS_INCLUDE})
target_link_libraries(snug::openblas INTERFACE OpenMP::OpenMP_CXX)
