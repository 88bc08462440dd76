# Of ctest's LastTest.log: how many tests passed and failed, "N N". A section is one process; what GoogleTest says there
# counts, else the process as one test.
function close_section() {
  if (!open) return
  if (!ended_well && failed_here == 0) failed_here = 1  # it crashed, or is no GoogleTest program
  if (ended_well && !counted) passed_here = 1
  passed += passed_here
  failed += failed_here
}
/^[0-9]+\/[0-9]+ Testing: / { close_section(); open = 1; ended_well = counted = passed_here = failed_here = 0 }
/^\[  PASSED  \] [0-9]+ test/ { counted = 1; passed_here += $4 }
/^\[  FAILED  \] [0-9]+ test/ { counted = 1; failed_here += $4 }
/^\[  SKIPPED \] [0-9]+ test/ { counted = 1 }
/^Test Passed\.$|^Test Pass Reason:$|^Test Skipped\.$|^Skip/ { ended_well = 1 }
END { close_section(); print passed + 0, failed + 0 }
