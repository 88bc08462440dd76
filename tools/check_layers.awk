# The rules of check_layers.sh: reads the table first, then every source file line by line.

function read_table(    line, names, list, n, i) {
  while ((getline line < table) > 0) {
    sub(/#.*/, "", line)
    if (line !~ /:/) continue
    names = line; sub(/:.*/, "", names); gsub(/[ \t]/, "", names)
    sub(/^[^:]*:[ \t]*/, "", line); sub(/[ \t]+$/, "", line)
    n = split(names, list, ",")
    for (i = 1; i <= n; ++i) {
      if (list[i] in may) may[list[i]] = may[list[i]] " " line
      else may[list[i]] = line
      if (list[i] ~ /\.[^\/]*$/) files_of_their_own[list[i]] = 1
    }
  }
  close(table)
}

# Is `path` the entry itself or inside it?
function inside(path, entry) {
  if (entry != "*" && entry ~ /\*/) {  # `a/*/b.*`: of every subfolder of a
    gsub(/\./, "\\.", entry); gsub(/\*/, "[^/]+", entry)
    return path ~ ("^" entry "(/|$)")
  }
  return entry == "*" || path == entry || index(path, entry "/") == 1
}

function inside_any(path, entries,    list, n, i) {
  n = split(entries, list, /[ \t]+/)
  for (i = 1; i <= n; ++i) if (inside(path, list[i])) return 1
  return 0
}

# The table's line for a file: its own, else its folder's, else the parent's `a/*`, else the parent's.
function rule_of(path, folder,    parent, pattern) {
  for (pattern in files_of_their_own) if (inside(path, pattern)) return pattern
  for (; folder != ""; folder = parent) {
    if (folder in may) return folder
    parent = folder
    if (!sub(/\/[^\/]*$/, "", parent)) parent = ""
    if (parent != "" && (parent "/*") in may) return parent "/*"
  }
  return ""
}

function complain(what) { print FILENAME ":" FNR ": " what; ++violations }

BEGIN { read_table() }

FNR == 1 {
  ++files
  path = FILENAME; sub(/^src\//, "", path)
  folder = path; sub(/\/[^\/]*$/, "", folder)
  rule = rule_of(path, folder)
  is_test = path ~ /_test\.cpp$/ || path ~ /(^|\/)testing\//
  no_raw_memory = !is_test && inside_any(path, may["!no-raw-memory"])
  may_allocate = is_test || inside_any(path, may["!allocates"])
  if (rule == "") complain("folder " folder " has no line in tools/layers.txt; add one that says what it may use")
}

is_test { next }

/^[ \t]*#[ \t]*include[ \t]*"/ {
  include = $0; sub(/^[^"]*"/, "", include); sub(/".*/, "", include)
  if (folder == "cli" && include !~ /\//)
    next  # its own headers: cli/ is not an include root
  if (include !~ /\// || include ~ /^\.\.?\//)
    complain("\"" include "\" must be named from src/, for example \"" folder "/" include "\"")
  else if (inside_any(include, may["!test-only"]))
    complain("\"" include "\" is for tests only")
  else if (include == "base/log.h" && !inside_any(path, may["!prints"]))
    complain(folder " may not print; it takes notes: base/notes.h")
  else if (inside_any(include, may["!edge-only"]) && !inside_any(path, may["!edge"]))
    complain("\"" include "\" reads text into settings; only the edge may: " may["!edge"])
  else if (rule != "" && !inside(include, folder) && !inside_any(include, may[rule]))
    complain(folder " may not include \"" include "\"; it may use: " (may[rule] == "" ? "nothing but itself" : may[rule]))
}

# A way to take memory by hand: the C library's functions, CUDA's, and buffers made with `new` or a smart pointer to one.
function allocation_in(code) {
  return match(code, /(^|[^A-Za-z0-9_.>])(mmap|malloc|calloc|realloc|reallocarray|posix_memalign|aligned_alloc|memalign|valloc)[ \t]*\(/) ||
         match(code, /(^|[^A-Za-z0-9_.>])(cudaMalloc[A-Za-z0-9]*|cudaHostAlloc|cuMem[A-Za-z]*Alloc[A-Za-z0-9_]*)[ \t]*[(<]/) ||
         match(code, /(^|[^A-Za-z0-9_])operator[ \t]+new[ \t]*(\[[ \t]*\][ \t]*)?\(/) ||
         match(code, /(^|[^A-Za-z0-9_])new([ \t]+|[ \t]*\([^;]*\)[ \t]*)[A-Za-z_:][A-Za-z0-9_:<>*, \t]*\[/) ||
         match(code, /make_(unique|shared)(_for_overwrite)?[ \t]*<[^;(]*\[[0-9 \t]*\][ \t]*>/)
}

{
  code = $0
  gsub(/"([^"\\]|\\.)*"/, "\"\"", code)
  sub(/\/\/.*/, "", code)
}

# A pointer made of another that has to be aligned more, or bytes copied by address.
function raw_memory_in(code) {
  gsub(/reinterpret_cast<(const )?char ?\*>/, "", code)
  return match(code, /(^|[^A-Za-z0-9_])(reinterpret_cast[ \t]*<|static_cast[ \t]*<[^>]*\*[ \t]*>|memcpy[ \t]*\(|memmove[ \t]*\()/)
}

no_raw_memory && raw_memory_in(code) {
  complain("raw memory; tools/layers.txt says that " folder " has none")
}

!may_allocate {
  if (allocation_in(code)) {
    what = substr(code, RSTART, RLENGTH); gsub(/^[^A-Za-z_]+|[ \t([<]+$/, "", what)
    complain("allocates by hand (" what "); memory is allocated only in " may["!allocates"])
  }
}

END {
  if (violations) { print violations " violation" (violations > 1 ? "s" : "") " of tools/layers.txt"; exit 1 }
  print "layers: " files " files keep to tools/layers.txt"
}
