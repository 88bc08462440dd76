# Of ctest's LastTest.log: the seconds of each test and its name, a line each. A section is one process; where GoogleTest
# ran several tests in it, those are the tests.
function close_section() {
  if (open && !timed) printf "%8.1f  %s\n", elapsed, name
}
/^[0-9]+\/[0-9]+ Testing: / {
  close_section()
  open = 1; timed = elapsed = 0
  name = $0; sub(/^[^:]*: /, "", name)
}
/^\[ +(OK|FAILED) +\] .*\([0-9]+ ms\)$/ {
  test = $0; sub(/^\[[^]]*\] /, "", test); sub(/(, where .*)? \([0-9]+ ms\)$/, "", test)
  match($0, /\([0-9]+ ms\)$/)
  printf "%8.1f  %s\n", substr($0, RSTART + 1) / 1000, test
  timed = 1
}
/^Test time = / { elapsed = $4 }
END { close_section() }
