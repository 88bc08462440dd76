# Flags shared by everything, and snug_library(): a folder of src/ becomes a library and, from its *_test.cpp, a test.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

function(snug_compile_options target)
  set(cxx "$<COMPILE_LANGUAGE:CXX>")
  target_compile_options(${target} PRIVATE
    "$<${cxx}:-Wall;-Wextra;-Wpedantic;-Wshadow;-Wno-missing-field-initializers;-Wno-psabi;-Werror>" ${SNUG_CUDA_COMPILE_OPTIONS})
  # g++ 12 and 13 report std::string's insert and operator+ as overlapping copies, or as ones past its end (GCC bugs
  # 105651, 105762). The sanitizer build finds real ones at run time.
  target_compile_options(${target} PRIVATE
    "$<$<AND:${cxx},$<CXX_COMPILER_ID:GNU>>:-Wno-restrict;-Wno-array-bounds;-Wno-stringop-overflow;-Wno-stringop-overread>")
  if(CMAKE_UNITY_BUILD) # where a class of one file may hold what is local to it
    target_compile_options(${target} PRIVATE $<${cxx}:-Wno-subobject-linkage>)
  endif()
  # Memory is collected late: 6 % of the time.
  target_compile_options(${target} PRIVATE "$<$<AND:${cxx},$<CXX_COMPILER_ID:GNU>>:--param=ggc-min-heapsize=700000>")
  # Vectorised loops need these two; neither changes a result.
  target_compile_options(${target} PRIVATE "$<${cxx}:-fno-math-errno;-fno-trapping-math>")
  # As some distributions' compilers have it by themselves: results that must be looked at are warned of.
  if(NOT SNUG_SANITIZE AND NOT CMAKE_BUILD_TYPE STREQUAL Debug)
    target_compile_options(${target} PRIVATE "$<${cxx}:-U_FORTIFY_SOURCE;-D_FORTIFY_SOURCE=2>")
  endif()
  if(SNUG_NATIVE)
    target_compile_options(${target} PRIVATE $<${cxx}:-march=native>)
  endif()
  if(SNUG_SANITIZE)
    # A null pointer that is used ends the process in any case; to look for it before each use takes a tenth of the time.
    target_compile_options(${target} PRIVATE -fsanitize=address,undefined -fno-sanitize=null,vptr -fno-sanitize-recover=all
                                             -fno-omit-frame-pointer -g1)
    # g++ 12 takes the sanitizers' own checks for uses of uninitialised values (std::regex, std::function).
    target_compile_options(${target} PRIVATE -Wno-maybe-uninitialized)
    target_link_options(${target} PRIVATE -fsanitize=address,undefined)
  endif()
  if(SNUG_FUZZ) # the warnings are g++'s, whose other builds heed them
    target_compile_options(${target} PRIVATE -fsanitize=fuzzer-no-link -w)
  endif()
endfunction()

# Rooms that hold no raw memory are held to that by tools/layers.txt: no address there can be misaligned or overflow, and
# to look for it before each access takes 40 % of their compiling.
file(STRINGS ${PROJECT_SOURCE_DIR}/tools/layers.txt SNUG_NO_RAW_MEMORY REGEX "^!no-raw-memory:")
string(REGEX REPLACE "^[^:]*: *" "" SNUG_NO_RAW_MEMORY "${SNUG_NO_RAW_MEMORY}")
separate_arguments(SNUG_NO_RAW_MEMORY)
function(snug_room_options target folder)
  string(REGEX REPLACE "/.*" "" room ${folder})
  if(SNUG_SANITIZE AND room IN_LIST SNUG_NO_RAW_MEMORY)
    target_compile_options(${target} PRIVATE -fno-sanitize=alignment,pointer-overflow)
  endif()
endfunction()

# Code of tests is compiled oftener than it is waited for; undefined behaviour, and uses of what is out of scope, are looked
# for in what they test.
function(snug_test_options target)
  set(level "$<IF:$<BOOL:${SNUG_SANITIZE}>,-Og;-fno-sanitize=undefined;-fno-sanitize-address-use-after-scope,-O1>")
  target_compile_options(${target} PRIVATE "$<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:CXX>>:${level}>")
endfunction()

# snug_compile_apart(folder file...): CMAKE_UNITY_BUILD compiles the files of a folder as one, but not these: they have a
# local name that another file has too.
function(snug_compile_apart folder)
  foreach(pattern ${ARGN})
    file(GLOB files ${folder}/${pattern})
    if(NOT files)
      message(WARNING "compiled apart, but not there: ${folder}/${pattern}")
    endif()
    set_source_files_properties(${files} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endforeach()
endfunction()

# A name of ours ("ops/norm") or a foreign target ("fmt::fmt") -> target name.
function(snug_target_name out name)
  if(name MATCHES "::")
    set(${out} ${name} PARENT_SCOPE)
  else()
    string(REPLACE "/" "_" flat ${name})
    set(${out} snug_${flat} PARENT_SCOPE)
  endif()
endfunction()

function(snug_link target visibility)
  foreach(name ${ARGN})
    snug_target_name(used ${name})
    target_link_libraries(${target} ${visibility} ${used})
  endforeach()
endfunction()

# Code that reads and writes text is done in a blink at -O1, and compiles in two thirds of the time. g++ fuses no multiply
# and add at -O1: no number of a plan or a loss may come from it unless g++ fuses none at -O3 either (objdump shows it).
function(snug_text_options target)
  target_compile_options(${target} PRIVATE "$<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:CXX>>:-O1>")
endfunction()

# snug_split(target folder list kernel...): compiles those files of the list that match no kernel pattern with
# snug_text_options, in a target of their own, and takes them out of the list.
function(snug_split target folder list)
  list(TRANSFORM ARGN PREPEND ${folder}/)
  file(GLOB kernels CONFIGURE_DEPENDS ${ARGN})
  set(text ${${list}})
  list(REMOVE_ITEM text ${kernels})
  if(text)
    list(REMOVE_ITEM ${list} ${text})
    set(${list} ${${list}} PARENT_SCOPE)
    add_library(${target}_text OBJECT ${text})
    snug_compile_options(${target}_text)
    snug_room_options(${target}_text ${folder})
    snug_text_options(${target}_text)
    snug_precompile(${target}_text TEXT)
  endif()
endfunction()

# snug_library(folder USES ... [ALSO pattern...] [EXCEPT pattern...] [TEST_USES ...] [TEST_RUNS release | release_only] [TESTONLY] [TEXT] [APART file...]
#              [KERNELS file...])
# TEXT: compiled with snug_text_options. KERNELS: so are all files but these, whose loops are waited for or whose numbers
# reach a loss.
function(snug_library folder)
  cmake_parse_arguments(ARG "TESTONLY;TEXT" "TEST_RUNS" "USES;ALSO;EXCEPT;TEST_USES;APART;KERNELS" ${ARGN})
  if(ARG_TESTONLY AND NOT SNUG_TESTS)
    return()
  endif()
  snug_target_name(target ${folder})
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${folder}/*.cpp ${PROJECT_SOURCE_DIR}/src/${folder}/*.cu)
  foreach(pattern ${ARG_ALSO}) # files of other folders
    file(GLOB also CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${pattern})
    list(APPEND sources ${also})
  endforeach()
  foreach(pattern ${ARG_EXCEPT}) # that another library has
    file(GLOB except ${PROJECT_SOURCE_DIR}/src/${pattern})
    list(REMOVE_ITEM sources ${except})
  endforeach()
  if(SNUG_CUDA_ON)
    list(FILTER sources EXCLUDE REGEX "/no_cuda[a-z_]*\\.cpp$")
  else()
    list(FILTER sources EXCLUDE REGEX "\\.cu$|_cuda\\.cpp$|/cuda/[a-z_]*\\.cpp$")
    file(GLOB stand_ins CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${folder}/no_cuda*.cpp)
    list(APPEND sources ${stand_ins})
    list(REMOVE_DUPLICATES sources)
  endif()
  if(SNUG_CUDNN_ON)
    list(FILTER sources EXCLUDE REGEX "/no_cudnn_[a-z_]*\\.cpp$")
  else()
    list(FILTER sources EXCLUDE REGEX "_cudnn\\.cpp$")
  endif()
  foreach(library PCRE2 UTF8PROC) # a file that calls one of them, or its stand-in
    string(TOLOWER ${library} lower)
    if(SNUG_${library}_ON)
      list(FILTER sources EXCLUDE REGEX "/no_${lower}_[a-z_]*\\.cpp$")
    else()
      list(FILTER sources EXCLUDE REGEX "_${lower}\\.cpp$")
    endif()
  endforeach()
  set(definitions)
  if(SNUG_CUDA_ON AND folder MATCHES "^ops")
    set(definitions SNUG_CUDA=1)
  endif()
  snug_compile_apart(${PROJECT_SOURCE_DIR}/src/${folder} ${ARG_APART})
  set(tests ${sources})
  list(FILTER sources EXCLUDE REGEX "_test\\.cpp$")
  list(FILTER tests INCLUDE REGEX "_test\\.cpp$")
  if(ARG_KERNELS)
    snug_split(${target} ${PROJECT_SOURCE_DIR}/src/${folder} sources ${ARG_KERNELS})
  endif()
  if(sources)
    add_library(${target} STATIC ${sources})
    snug_compile_options(${target})
    snug_room_options(${target} ${folder})
    if(ARG_TEXT)
      snug_text_options(${target})
      snug_precompile(${target} TEXT)
    else()
      snug_precompile(${target})
    endif()
    target_compile_definitions(${target} PRIVATE ${definitions})
    target_include_directories(${target} PUBLIC ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
    snug_link(${target} PUBLIC ${ARG_USES})
    if(TARGET ${target}_text)
      target_compile_definitions(${target}_text PRIVATE ${definitions})
      target_include_directories(${target}_text PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
      snug_link(${target}_text PRIVATE ${ARG_USES})
      target_sources(${target} PRIVATE $<TARGET_OBJECTS:${target}_text>)
    endif()
    if(sources MATCHES "\\.cu(;|$)")
      set_target_properties(${target} PROPERTIES UNITY_BUILD OFF)
    endif()
  else()
    add_library(${target} INTERFACE)
    target_include_directories(${target} INTERFACE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
    snug_link(${target} INTERFACE ${ARG_USES})
  endif()
  if(SNUG_TESTS AND tests)
    snug_test(${target}_test SOURCES ${tests} USES ${folder} ${ARG_TEST_USES} RUNS ${ARG_TEST_RUNS})
    target_compile_definitions(${target}_test PRIVATE ${definitions})
  endif()
endfunction()
