# Sourced by quickstart.sh and test.sh: installs missing Debian or Ubuntu packages, saying which; where it
# may not, says what to run. Arguments: pairs of a command or file that shows a package is there, and its name.
install_packages() {
  missing=""
  while [ $# -gt 1 ]; do
    case $1 in
      /*) ls $1 > /dev/null 2>&1 || missing="$missing $2" ;; # a pattern
      *) command -v "$1" > /dev/null 2>&1 || missing="$missing $2" ;;
    esac
    shift 2
  done
  [ -n "$missing" ] || return 0
  if ! command -v apt-get > /dev/null 2>&1; then
    echo "These are missing:$missing (Debian's names). Install them, then run this again." >&2
    return 1
  fi
  as_root=""
  if [ "$(id -u)" -ne 0 ]; then
    if command -v sudo > /dev/null 2>&1 && { sudo -n true 2> /dev/null || [ -t 0 ]; }; then
      as_root="sudo"
    else
      echo "Not allowed to install packages. As root, run: apt-get update && apt-get install -y$missing" >&2
      echo "Then run this again." >&2
      return 1
    fi
  fi
  echo "Installing:$missing"
  $as_root env DEBIAN_FRONTEND=noninteractive apt-get update -qq &&
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing > /dev/null || {
    echo "apt-get could not install:$missing" >&2
    return 1
  }
}

# What every build needs.
build_packages="cmake cmake ninja ninja-build cc gcc clang++ clang c++ g++ \
  /usr/include/lua5.4/lua.h liblua5.4-dev /usr/include/jansson.h libjansson-dev /usr/include/sha2.h libmd-dev \
  /usr/include/pcre2.h libpcre2-dev /usr/include/utf8proc.h libutf8proc-dev /usr/include/sqlite3.h libsqlite3-dev /usr/lib/*/libopenblas.so.0 libopenblas0-pthread"
