# Finds what a build, the tests and the checks need, and installs what is missing. ./dev sources this and calls need(),
# install_extra(), fetch_tomlplusplus() and fetch_cudnn_frontend(); say(), die(), phase() and quietly() are its own.
# shellcheck shell=bash

readonly MIN_GXX=12 MIN_CMAKE=3.25

# What is needed for what, how to see that it is there, and the package that provides it.
readonly HEADERS="
core  fmt/format.h                                                  libfmt-dev
core  nlohmann/json.hpp                                             nlohmann-json3-dev
core  CLI/CLI.hpp                                                   libcli11-dev
core  openblas-openmp/cblas.h|openblas/cblas.h|openblas_config.h    libopenblas-openmp-dev
extra pcre2.h                                                       libpcre2-dev
extra utf8proc.h                                                    libutf8proc-dev
plans jemalloc/jemalloc.h                                           libjemalloc-dev
test  gtest/gtest.h                                                 libgtest-dev
test  gmock/gmock.h                                                 libgmock-dev
bench benchmark/benchmark.h                                         libbenchmark-dev"
readonly PROGRAMS="
core  ninja         ninja-build
ranks mpirun        openmpi-bin
ranks mpicxx        libopenmpi-dev
pages chromium      chromium
check clang-format  clang-format
check clang-tidy    clang-tidy"

# The groups that a build uses where they are installed, and otherwise does without.
extra_groups=(extra ranks plans)

# need GROUP...: installs what these groups miss. With nothing missing it takes a few hundredths of a second. extra_groups are
# installed in the same go: a start of apt takes 5 to 10 s.
need() {
  [[ -n $(missing "$@") ]] || return 0
  local packages extras
  extras=$(missing "${extra_groups[@]}")
  for _ in 1 2 3; do # a second look finds a compiler or CMake that is there now, but too old
    packages=$(missing core test bench "$@")
    [[ -n $packages ]] || return 0
    # shellcheck disable=SC2086  # lists of words
    if [[ $packages == *cmake-from-pypi* ]]; then
      phase "installing CMake from PyPI into .deps" install_cmake || break
    elif [[ -n $extras ]] && phase "installing" install_apart $packages $extras; then
      extras=
    else
      extras=
      phase "installing" install $packages || break
    fi
  done
  packages=$(missing "$@" | tr '\n' ' ')
  [[ -z $packages ]] || die "missing and not installable here: $packages
  Needed are g++ $MIN_GXX or newer, CMake $MIN_CMAKE or newer, and the Debian/Ubuntu packages named above."
}

# install_extra GROUP WITHOUT: what the build can do without, and what it means. Where it cannot be installed that is not tried
# again the same day.
install_extra() {
  local packages
  packages=$(missing "$1" | tr '\n' ' ')
  [[ -n $packages && -z $(find ".cache/no-$1" -mtime -1 2>/dev/null) ]] || return 0
  # shellcheck disable=SC2086  # a list of words
  phase "installing" install_apart $packages || { touch ".cache/no-$1" && say "without $packages: $2"; }
}
install_apart() { (install "$@"); } # where it gives up, this shell goes on

# missing GROUP...: prints the packages that are not there, by looking for the things themselves and not for packages.
missing() {
  local gxx group what package
  if [[ " $* " == *" core "* ]]; then
    find_gxx >/dev/null || { command -v g++ >/dev/null && echo "g++-$MIN_GXX" || echo g++; }
    find_cmake >/dev/null || { command -v cmake >/dev/null && echo cmake-from-pypi || echo cmake; }
  fi
  if [[ " $* " == *" fuzz "* ]] && ! can_fuzz; then printf '%s\n' clang libomp-dev; fi
  while read -r group what package; do
    if [[ -n $group && " $* " == *" $group "* ]]; then command -v "$what" >/dev/null || echo "$package"; fi
  done <<<"$PROGRAMS"
  gxx=$(find_gxx) || gxx=
  while read -r group what package; do
    [[ -n $group && " $* " == *" $group "* ]] || continue
    printf '#if !(__has_include(<%s>))\n%s\n#endif\n' "${what//|/>) || __has_include(<}" "$package"
  done <<<"$HEADERS" | { if [[ -n $gxx ]]; then "$gxx" -E -P -x c++ -; else grep -v '^#' || true; fi; }
}

# A g++ that is new enough, whatever it is called here; CXX is asked first.
find_gxx() {
  local name major
  for name in ${CXX:-} g++ g++-14 g++-13 g++-12; do
    major=$("$name" -dumpversion 2>/dev/null) || continue
    if ((${major%%.*} >= MIN_GXX)); then command -v "$name" && return; fi
  done
  return 1
}

# clang++ with libFuzzer and OpenMP.
can_fuzz() {
  echo 'extern "C" int LLVMFuzzerTestOneInput(const char*, unsigned long) { return 0; }' |
    clang++ -fopenmp -fsanitize=fuzzer,address,undefined -x c++ - -o .cache/fuzz_probe 2>/dev/null
}

find_cmake() {
  local name version
  for name in cmake "$PWD/.deps/py/bin/cmake"; do
    version=$("$name" --version 2>/dev/null | head -n 1) || continue
    version=${version##* }
    if [[ $(printf '%s\n' "$MIN_CMAKE" "$version" | sort -V | head -n 1) == "$MIN_CMAKE" ]]; then
      command -v "$name" && return
    fi
  done
  return 1
}

# Once in an hour is enough: it takes 5 s.
update_lists() {
  [[ -z $(find .cache/apt-lists -mmin -60 2>/dev/null) ]] || return 0
  if as_root timeout 120 apt-get update -qq; then touch .cache/apt-lists; fi
}

install() {
  local packages=("$@")
  command -v apt-get >/dev/null || { say "not a Debian or Ubuntu: install these by hand: $*" && return 1; }
  update_lists
  if ! apt-cache show libopenblas-openmp-dev >/dev/null 2>&1; then
    packages=("${packages[@]/libopenblas-openmp-dev/libopenblas-dev}")
  fi
  say "${packages[*]}"
  quietly as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${packages[@]}"
}

# A CUDA toolkit, on the PATH or where it installs itself.
has_nvcc() {
  command -v nvcc >/dev/null && return
  [[ -x /usr/local/cuda/bin/nvcc ]] && export PATH=$PATH:/usr/local/cuda/bin
}

# Header-only libraries that the build can do without are unpacked into .deps, out of the tree.
# cuDNN's attention is called through cudnn-frontend, from PyPI.
fetch_cudnn_frontend() {
  fetch_headers cudnn-frontend "attention will use Snug's own kernels" unpack_wheel "nvidia-cudnn-frontend==1.32.*"
}

# TOML is read with toml++, from its Debian package.
fetch_tomlplusplus() {
  fetch_headers tomlplusplus "the system's headers are used, if it has them" unpack_deb libtomlplusplus-dev
}

# fetch_headers NAME WITHOUT COMMAND...: COMMAND and a folder, which fills the folder's include/. WITHOUT says what
# happens where that fails (no network); it is not tried again the same day.
fetch_headers() {
  local folder=.deps/$1 failed=.cache/no-$1 without=$2
  [[ ! -d $folder/include ]] || return 0
  [[ -z $(find "$failed" -mtime -1 2>/dev/null) ]] || return 0
  phase "fetching the headers of $1 into .deps" "${@:3}" "$folder" || { touch "$failed" && say "not fetched: $without"; }
}

# unpack_wheel PACKAGE FOLDER
unpack_wheel() {
  local wheels
  wheels=$(mktemp -d)
  quietly "$PYTHON" -m pip download --quiet --no-deps --timeout 20 --retries 1 -d "$wheels" "$1" &&
    mkdir -p "$2" && "$PYTHON" -m zipfile -e "$wheels"/*.whl "$2"
  local status=$?
  rm -r "$wheels"
  return $status
}

# unpack_deb PACKAGE FOLDER: its /usr/include becomes FOLDER/include.
unpack_deb() {
  local package=$1 folder=$2 debs status
  command -v apt-get >/dev/null || return 1
  debs=$(mktemp -d)
  if ((EUID == 0)) && ! apt-cache show "$package" >/dev/null 2>&1; then update_lists; fi
  (cd "$debs" && timeout 60 apt-get download -qq "$package" && dpkg -x "$package"_*.deb unpacked) >.cache/last.log 2>&1 &&
    mkdir -p "$folder" && mv "$debs/unpacked/usr/include" "$folder/include"
  status=$?
  rm -r "$debs"
  return $status
}

install_cmake() {
  python3 -m venv .deps/py 2>/dev/null || { install python3 python3-venv && python3 -m venv .deps/py; }
  .deps/py/bin/pip install --quiet "cmake>=$MIN_CMAKE"
}

as_root() {
  if ((EUID == 0)); then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@"
  else
    die "installing needs root or sudo"
  fi
}
