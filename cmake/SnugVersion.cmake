# build/version.cpp: the version and the commit. Written anew when HEAD moves, and then only that file is compiled.
find_package(Git QUIET)
set(SNUG_VERSION_FILE ${PROJECT_BINARY_DIR}/version.cpp)
set(head_log "")
if(GIT_FOUND)
  execute_process(COMMAND ${GIT_EXECUTABLE} -C ${PROJECT_SOURCE_DIR} rev-parse --path-format=absolute --git-path logs/HEAD
                  OUTPUT_VARIABLE head_log OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
if(NOT head_log OR NOT EXISTS ${head_log})
  set(head_log "")
endif()
add_custom_command(
  OUTPUT ${SNUG_VERSION_FILE}
  COMMAND ${CMAKE_COMMAND} -D SOURCE=${PROJECT_SOURCE_DIR} -D VERSION=${PROJECT_VERSION} -D GIT=${GIT_EXECUTABLE}
          -D OUT=${SNUG_VERSION_FILE} -P ${PROJECT_SOURCE_DIR}/cmake/write_version.cmake
  DEPENDS ${PROJECT_SOURCE_DIR}/cmake/write_version.cmake ${head_log}
  VERBATIM)
