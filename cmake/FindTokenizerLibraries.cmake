# snug::pcre2 and snug::utf8proc, which tokenizers need for patterns and for Unicode. Each is optional: without it
# SNUG_PCRE2_ON or SNUG_UTF8PROC_ON is off, a stand-in is compiled in its place (no_pcre2_*.cpp, no_utf8proc_*.cpp), and
# a tokenizer.json that needs it is refused.
option(SNUG_PCRE2 "Use PCRE2 where it is found" ON)
option(SNUG_UTF8PROC "Use utf8proc where it is found" ON)

# snug_optional_library(NAME header library package costs)
function(snug_optional_library name header library package costs)
  string(TOLOWER ${name} lower)
  find_path(${name}_INCLUDE ${header})
  find_library(${name}_LIBRARY ${library})
  add_library(snug_${lower} INTERFACE)
  add_library(snug::${lower} ALIAS snug_${lower})
  set(SNUG_${name}_ON OFF PARENT_SCOPE)
  if(SNUG_${name} AND ${name}_INCLUDE AND ${name}_LIBRARY)
    set(SNUG_${name}_ON ON PARENT_SCOPE)
    target_include_directories(snug_${lower} SYSTEM INTERFACE ${${name}_INCLUDE})
    target_link_libraries(snug_${lower} INTERFACE ${${name}_LIBRARY})
  else()
    message(STATUS "no ${lower} (${package}): ${costs}")
  endif()
endfunction()

snug_optional_library(PCRE2 pcre2.h pcre2-8 libpcre2-dev "tokenizers with patterns are refused")
snug_optional_library(UTF8PROC utf8proc.h utf8proc libutf8proc-dev "tokenizers that normalize text are refused")
