# shellcheck shell=bash
# Sourced by the other scripts: finds Python, keeps .venv in step with pyproject.toml, prints short words to stderr.
#
#   . "$(dirname "${BASH_SOURCE[0]}")/_env.sh"
#   need_env base          # or: need_env dev
#   "$venv/bin/recall" …
#
# Works with bash 3.2 (macOS), with HOME empty or unset, and when several scripts start at once: the one that gets the
# lock installs, the others wait for it. A .venv whose making was interrupted is made afresh.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
venv=$root/.venv
stamp=$venv/recall-stamp
install_log=$root/state/install.log

if [ -t 2 ] && [ -z "${NO_COLOR:-}" ] && [ "${TERM:-dumb}" != dumb ]; then
  bold=$'\033[1m' dim=$'\033[2m' red=$'\033[31m' green=$'\033[32m' plain=$'\033[0m'
else
  bold='' dim='' red='' green='' plain=''
fi

say() { printf '%s%s%s\n' "$bold" "$*" "$plain" >&2; }
note() { printf '%s%s%s\n' "$dim" "$*" "$plain" >&2; }
good() { printf '%s%s%s\n' "$green" "$*" "$plain" >&2; }
fail() {
  printf '%s%s%s\n' "$red" "$*" "$plain" >&2
  exit 1
}

# Prints the comment block at the top of a script, which is its help text.
usage() { sed -n '2,/^[^#]/{/^#/s/^# \{0,1\}//p;}' "$1"; }

need_platform() {
  case "$(uname -s)" in
    Linux | Darwin) ;;
    *) fail "Recall runs on Linux and macOS; this is $(uname -s). On Windows, use a Linux distribution under WSL 2." ;;
  esac
}

# An empty or unset HOME falls back to the account's home folder, and to one under state/ where there is no account.
need_home() {
  [ -n "${HOME:-}" ] && return 0
  unset HOME
  HOME=$(cd ~ 2>/dev/null && pwd) || HOME=''
  if [ -z "$HOME" ] || [ ! -w "$HOME" ]; then
    HOME=$root/state/home
    mkdir -p "$HOME"
  fi
  export HOME
}

python_fits() { "$1" -c "import sys; v = sys.version_info; sys.exit(not ($2))" >/dev/null 2>&1; }

# Sets `python`: $PYTHON if it is set, else an interpreter of version 3.11 to 3.13, else a newer one.
find_python() {
  local candidate wanted
  python=''
  for wanted in '(3, 11) <= v < (3, 14)' '(3, 11) <= v'; do
    for candidate in ${PYTHON:-python3 python3.13 python3.12 python3.11 python}; do
      [ -n "$python" ] || ! python_fits "$candidate" "$wanted" || python=$candidate
    done
  done
  [ -n "$python" ] ||
    fail "Recall needs Python 3.11 or newer; tried ${PYTHON:-what is on PATH}. Install one, or set PYTHON=/path/to/python3.12."
  "$python" -c 'import ensurepip, venv' >/dev/null 2>&1 ||
    fail "$python has no venv module. On Debian and Ubuntu: apt install python3-venv."
}

# What an up-to-date .venv was made from: the two files, the folder (a moved checkout must reinstall), the interpreter.
wanted_sha256() {
  "$python" -I - "$root/pyproject.toml" "$root/scripts/constraints.txt" <<'PY'
import hashlib, os, pathlib, sys
made_from = [pathlib.Path(name).read_bytes() for name in sys.argv[1:]]
made_from += [os.fsencode(pathlib.Path(sys.argv[1]).parent), sys.version.encode()]
print(hashlib.sha256(b"\0".join(made_from)).hexdigest())
PY
}

# The stamp's one line is "LEVEL SHA256". A dev environment serves where base is asked for.
env_is_ready() {
  local level='' sha256=''
  [ -x "$venv/bin/recall" ] && [ -f "$stamp" ] && read -r level sha256 <"$stamp"
  [ -n "$sha256" ] && [ "$sha256" = "$2" ] && { [ "$level" = "$1" ] || [ "$level" = dev ]; }
}

# need_env base|dev
need_env() {
  need_platform
  need_home
  unset PYTHONHOME PYTHONPATH
  find_python
  env_is_ready "$1" "$(wanted_sha256)" && return 0
  mkdir -p "$root/state"
  # The lock is the kernel's and lives as long as the installing shell, so a killed run leaves nothing to clean up.
  PYTHON=$python "$python" -I - "$root/state/install.lock" "$BASH" "${BASH_SOURCE[0]}" install "$1" <<'PY'
import fcntl, os, sys
lock = open(sys.argv[1], "w")
try:
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    print("Another run is installing; waiting for it.", file=sys.stderr, flush=True)
    fcntl.flock(lock, fcntl.LOCK_EX)
os.set_inheritable(lock.fileno(), True)
os.execv(sys.argv[2], sys.argv[2:])
PY
}

# Runs a command with its output in the log; on a terminal the seconds tick.
logged() {
  local pid seconds=0 status=0
  "$@" >>"$install_log" 2>&1 </dev/null &
  pid=$!
  # shellcheck disable=SC2064  # the id of this very child
  trap "kill $pid 2>/dev/null; exit 130" INT TERM HUP
  while [ -t 2 ] && kill -0 "$pid" 2>/dev/null; do
    printf '\r  %s s ' "$seconds" >&2
    sleep 1
    seconds=$((seconds + 1))
  done
  [ ! -t 2 ] || printf '\r\033[K' >&2
  wait "$pid" || status=$?
  trap - INT TERM HUP
  return "$status"
}

make_venv() {
  if [ -e "$venv" ] && [ ! -f "$stamp" ]; then
    "$venv/bin/python" -m pip --version >/dev/null 2>&1 ||
      fail "$venv exists, was not made by these scripts and has no working pip. Move it away and try again."
    note ".venv was made by somebody else: installing into it."
  elif [ -e "$venv" ] && { grep -q '^unfinished' "$stamp" || ! "$venv/bin/python" -c '' 2>/dev/null; }; then
    note "An earlier installation did not finish: starting it again."
    rm -rf "$venv"
  fi
  [ -x "$venv/bin/python" ] && return 0
  mkdir -p "$venv"
  echo unfinished >"$stamp"
  logged "$python" -m venv "$venv" || install_failed
}

install_failed() {
  printf '\n' >&2
  tail -n 12 "$install_log" >&2
  fail "The installation failed; the whole output is in $install_log. Run the script again to go on."
}

# Runs under the lock, in a process of its own.
install_env() {
  local level=$1 what=. sha256 started=$SECONDS
  find_python
  sha256=$(wanted_sha256)
  env_is_ready "$level" "$sha256" && return 0 # somebody else did it while we waited
  [ -f "$stamp" ] && grep -q '^dev ' "$stamp" && level=dev
  [ "$level" = dev ] && what=".[dev]"
  if grep -Eq '^(base|dev) ' "$stamp" 2>/dev/null; then
    say "Bringing .venv up to date."
  else
    say "Installing Recall into .venv: about 1.5 GB, one to five minutes."
    [ "$(uname -s)" = Darwin ] ||
      note "  (If pip fetches CUDA builds, it is several GB more: the README says how to get the CPU build.)"
  fi
  : >"$install_log"
  cd "$root"
  make_venv
  PIP_USER=0 PIP_REQUIRE_VIRTUALENV=0 logged "$venv/bin/python" -m pip install --disable-pip-version-check --no-input \
    --progress-bar off -c "$root/scripts/constraints.txt" -e "$what" || install_failed
  echo "$level $sha256" >"$stamp"
  good "Installed in $((SECONDS - started)) s."
}

if [ "${BASH_SOURCE[0]}" = "$0" ]; then
  set -euo pipefail
  [ "${1:-}" = install ] || fail "This file is sourced by the other scripts. Run scripts/quickstart, scripts/test or scripts/rebuild."
  install_env "$2"
fi
