# Tests, and where `./dev test` runs them. Nearly all run in the sanitized build; a label says what else:
#   release        in release too: what is counted or timed, and the kernels, which are vectorised only there
#   release_only   in release and not under sanitizers: they would take long, and say nothing that others do not
#   gpu            in release; skipped where no GPU is
# The target release_checks is all of these with the programs that no test needs.
set(SNUG_TEST_CACHE ${CMAKE_BINARY_DIR}/test-cache)
add_custom_target(release_checks DEPENDS snug)

# snug_test(target SOURCES ... USES ... [RUNS release | release_only] [IN_RELEASE filter [ONLY_RELEASE filter]])
# RUNS: of all its tests; IN_RELEASE and ONLY_RELEASE: the suites of these two labels, in GoogleTest's form, and each test
# of this target has a process of its own.
function(snug_test target)
  cmake_parse_arguments(ARG "" "RUNS;IN_RELEASE;ONLY_RELEASE" "SOURCES;USES" ${ARGN})
  if(SNUG_SANITIZE AND ARG_RUNS STREQUAL "release_only")
    return()
  endif()
  add_executable(${target} ${ARG_SOURCES})
  snug_compile_options(${target})
  snug_test_options(${target})
  snug_link(${target} PRIVATE ${ARG_USES} GTest::gmock GTest::gtest_main)
  snug_precompile(${target} TEST)
  if(ARG_IN_RELEASE)
    snug_discover_tests(${target} "-Cuda*:${ARG_IN_RELEASE}:${ARG_ONLY_RELEASE}")
    snug_discover_tests(${target} "${ARG_IN_RELEASE}" release)
    if(ARG_ONLY_RELEASE AND NOT SNUG_SANITIZE)
      snug_discover_tests(${target} "${ARG_ONLY_RELEASE}" release_only)
    endif()
  elseif(SNUG_SANITIZE)
    # Every process ends with a search for leaks, which takes 4 s on 64-bit ARM: one process for all of them.
    snug_leak_test(${target} ${target} "--gtest_filter=-Cuda*")
    set_property(TEST ${target} PROPERTY LABELS ${ARG_RUNS})
  else()
    snug_discover_tests(${target} "-Cuda*" ${ARG_RUNS})
  endif()
  if(ARG_IN_RELEASE OR ARG_RUNS)
    add_dependencies(release_checks ${target})
  endif()

  if(NOT SNUG_CUDA_ON)
    return()
  endif()
  foreach(source ${ARG_SOURCES}) # suites that need a GPU are called Cuda*
    file(STRINGS ${source} suites REGEX "^(TEST|TEST_F|TEST_P)\\(Cuda")
    if(suites)
      snug_gpu_test(gpu.${target} ${target} --gtest_filter=Cuda*)
      return()
    endif()
  endforeach()
endfunction()

# snug_leak_test(name command...): a test of the sanitized build whose process looks for leaks; others do not.
function(snug_leak_test name)
  add_test(NAME ${name} COMMAND ${ARGN})
  set_tests_properties(${name} PROPERTIES TIMEOUT 900 ENVIRONMENT
                                          "OMP_WAIT_POLICY=passive;XDG_CACHE_HOME=${SNUG_TEST_CACHE};CUDA_VISIBLE_DEVICES=-1")
  if(SNUG_LEAKS)
    set_property(TEST ${name} PROPERTY ENVIRONMENT_MODIFICATION "ASAN_OPTIONS=string_append::detect_leaks=1")
  endif()
endfunction()

# snug_discover_tests(target filter [label])
function(snug_discover_tests target filter)
  include(GoogleTest)
  set(label)
  if(ARGC GREATER 2)
    set(label LABELS ${ARGV2})
  endif()
  # ctest runs as many tests at once as there are cores. Threads that spin while they wait would then take the cores
  # from those that work: measured 464 s instead of 7 for the same tests on two busy cores.
  # A calibration of the developer's machine changes no test, and neither does its GPU: --device auto is cpu here.
  string(REPEAT "\\" 7 and) # two settings in one property: so many are taken off on the way
  gtest_discover_tests(${target} DISCOVERY_MODE PRE_TEST TEST_FILTER "${filter}"
                       PROPERTIES ${label} TIMEOUT 300 ENVIRONMENT "OMP_WAIT_POLICY=passive"
                                  ENVIRONMENT_MODIFICATION "XDG_CACHE_HOME=set:${SNUG_TEST_CACHE}${and};CUDA_VISIBLE_DEVICES=set:-1")
endfunction()

# snug_gpu_test(name target [arguments]): all of it as one test, for a process pays for its CUDA context once. Without a
# GPU it is reported as skipped. `./dev gpu-test` runs these.
function(snug_gpu_test name target)
  add_test(NAME ${name} COMMAND ${target} ${ARGN})
  set_tests_properties(${name} PROPERTIES
    LABELS "gpu;release" TIMEOUT 600 ENVIRONMENT "OMP_WAIT_POLICY=passive;XDG_CACHE_HOME=${SNUG_TEST_CACHE}" SKIP_REGULAR_EXPRESSION "no CUDA device here")
  add_dependencies(release_checks ${target})
endfunction()
