# snug::allocator, for programs that plan: jemalloc in place of the C library's malloc where it is found. A search copies and drops
# thousands of small objects in every trial, on all cores, and takes a sixth less time with it. Nothing else depends on it: what a
# training holds is in arenas that no malloc hands out.
add_library(snug_allocator INTERFACE)
add_library(snug::allocator ALIAS snug_allocator)
find_library(JEMALLOC_LIBRARY jemalloc)
if(JEMALLOC_LIBRARY AND NOT SNUG_SANITIZE) # sanitizers have their own
  # No symbol of it is named anywhere, so the linker would leave it out.
  target_link_libraries(snug_allocator INTERFACE "-Wl,--push-state,--no-as-needed,${JEMALLOC_LIBRARY},--pop-state")
elseif(NOT SNUG_SANITIZE)
  message(STATUS "no jemalloc (libjemalloc-dev): plans take a fifth longer")
endif()
