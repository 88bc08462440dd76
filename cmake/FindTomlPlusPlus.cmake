# snug::toml: toml++ where its headers are found (fetched by ./dev into .deps, or the system's), with SNUG_TOML=1.
# Without them it is empty: the build goes on, and code that wants TOML says that it was built without.
find_path(TOMLPLUSPLUS_INCLUDE toml++/toml.h HINTS ${PROJECT_SOURCE_DIR}/.deps/tomlplusplus/include)
add_library(snug_toml INTERFACE)
add_library(snug::toml ALIAS snug_toml)
if(TOMLPLUSPLUS_INCLUDE)
  target_include_directories(snug_toml SYSTEM INTERFACE ${TOMLPLUSPLUS_INCLUDE})
  target_compile_definitions(snug_toml INTERFACE SNUG_TOML=1)
else()
  message(STATUS "no toml++: configuration files are not read")
endif()
