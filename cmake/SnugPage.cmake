# The page of `snug report`: its HTML, CSS and scripts (src/page/assets) as a source file of the library. Scripts share one
# scope, in this order. A library of its own, so that the page's other files do not wait for what it is generated after.
set(SNUG_PAGE_SCRIPTS format.js data.js theme.js charts.js timeline.js arena.js lanes.js ranks.js history.js tables.js page.js)
set(assets ${PROJECT_SOURCE_DIR}/src/page/assets)
set(depends ${assets}/page.html ${assets}/page.css)
foreach(script ${SNUG_PAGE_SCRIPTS})
  list(APPEND depends ${assets}/${script})
endforeach()
add_custom_command(
  OUTPUT ${PROJECT_BINARY_DIR}/page_assets.cpp
  COMMAND ${CMAKE_COMMAND} -D SOURCE=${assets} "-DSCRIPTS=${SNUG_PAGE_SCRIPTS}" -D OUT=${PROJECT_BINARY_DIR}/page_assets.cpp
          -P ${PROJECT_SOURCE_DIR}/cmake/embed_assets.cmake
  DEPENDS ${PROJECT_SOURCE_DIR}/cmake/embed_assets.cmake ${depends}
  VERBATIM)
add_library(snug_page_assets STATIC ${PROJECT_BINARY_DIR}/page_assets.cpp)
snug_compile_options(snug_page_assets)
target_include_directories(snug_page_assets PRIVATE ${PROJECT_SOURCE_DIR}/src)
target_link_libraries(snug_page PRIVATE snug_page_assets)
