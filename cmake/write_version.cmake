# Run while building: writes OUT from VERSION and the commit of the checkout at SOURCE, where git finds one.
set(commit "")
if(GIT)
  execute_process(COMMAND ${GIT} -C ${SOURCE} rev-parse --short HEAD
                  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
if(commit)
  set(commit " (${commit})")
endif()
file(WRITE ${OUT} "#include \"version.h\"\n\nstd::string_view snug::cli::version() { return \"${VERSION}${commit}\"; }\n")
