# snug_version: the version and the commit (build/version.cpp). Written anew when HEAD moves, and then only that file is
# compiled. A library of its own: a generated file waits for all that its target links, and the target's others for it.
find_package(Git QUIET)
set(version_file ${PROJECT_BINARY_DIR}/version.cpp)
set(head_log "")
if(GIT_FOUND)
  execute_process(COMMAND ${GIT_EXECUTABLE} -C ${PROJECT_SOURCE_DIR} rev-parse --path-format=absolute --git-path logs/HEAD
                  OUTPUT_VARIABLE head_log OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
if(NOT head_log OR NOT EXISTS ${head_log})
  set(head_log "")
endif()
add_custom_command(
  OUTPUT ${version_file}
  COMMAND ${CMAKE_COMMAND} -D SOURCE=${PROJECT_SOURCE_DIR} -D VERSION=${PROJECT_VERSION} -D GIT=${GIT_EXECUTABLE}
          -D OUT=${version_file} -P ${PROJECT_SOURCE_DIR}/cmake/write_version.cmake
  DEPENDS ${PROJECT_SOURCE_DIR}/cmake/write_version.cmake ${head_log}
  VERBATIM)
add_library(snug_version STATIC ${version_file})
snug_compile_options(snug_version)
target_include_directories(snug_version PRIVATE ${PROJECT_SOURCE_DIR}/cli)
