#!/usr/bin/env bash
# Makes a clone ready: a virtual environment under .venv, and the servers that the embedded stack runs privately.
# Usage: deployments/setup.sh EXTRA   (an extra of pyproject.toml: `stack` to run, `dev` to work on it)
set -euo pipefail
cd "$(dirname "$0")/.."
extra=${1:-stack}

say() { printf 'setup: %s\n' "$*" >&2; }
die() { say "$*"; exit 2; }

# --- system packages -------------------------------------------------------------------------------------------

missing_packages() {
  local missing=()
  compgen -G '/usr/lib/postgresql/*/bin/postgres' >/dev/null || command -v postgres >/dev/null || missing+=(postgresql)
  compgen -G '/usr/share/postgresql/*/extension/postgis.control' >/dev/null || missing+=(postgresql-postgis)
  command -v redis-server >/dev/null || missing+=(redis-server)
  command -v setpriv >/dev/null || missing+=(util-linux)
  if [ ! -x .venv/bin/python ] && ! "$python" -c 'import ensurepip' 2>/dev/null; then missing+=("python3-venv"); fi
  if ! command -v npm >/dev/null || ! command -v node >/dev/null; then missing+=(nodejs npm); fi
  if [ "$extra" = dev ] && ! command -v chromium >/dev/null; then missing+=(chromium); fi
  if [ "$extra" = dev ] && ! command -v strace >/dev/null; then missing+=(strace); fi
  if [ "$extra" = dev ] && ! command -v ogr2ogr >/dev/null; then missing+=(gdal-bin); fi
  if [ "$extra" = dev ] && ! command -v openssl >/dev/null; then missing+=(openssl); fi
  # A server of the user's own stands in for ours.
  if [ -n "${CAIRN_DATABASE_URL:-}${DATABASE_URL:-}" ]; then
    for name in "${missing[@]}"; do case $name in postgresql*) ;; *) printf '%s\n' "$name" ;; esac; done
  else
    [ ${#missing[@]} -eq 0 ] || printf '%s\n' "${missing[@]}"
  fi
}

purpose() {  # what to know before installing them by hand
  case " $* " in *" npm "*) printf " (npm builds the scripts of the reviewers' console)" ;; esac
  case " $* " in *" postgresql"*) printf ' (or set CAIRN_DATABASE_URL to a PostgreSQL with PostGIS)' ;; esac
}

install_packages() {
  local root=()
  if [ "$(id -u)" -ne 0 ]; then
    sudo -n true 2>/dev/null || die "please install these packages: $*$(purpose "$@")"
    root=(sudo -n)
  fi
  command -v apt-get >/dev/null || die "please install these packages with your system's tool: $*$(purpose "$@")"
  say "installing $*"
  # Debian starts servers when it installs them. Ours are private to the stack: nothing may start, now or at boot,
  # that was not there before, so starting is forbidden for this while and no cluster is made.
  local forbid=/usr/sbin/policy-rc.d no_cluster=/etc/postgresql-common/createcluster.d/cairn.conf made_forbid= new_redis=
  command -v redis-server >/dev/null || new_redis=yes
  if [ ! -e "$forbid" ]; then
    printf '#!/bin/sh\nexit 101\n' | "${root[@]}" tee "$forbid" >/dev/null
    "${root[@]}" chmod 755 "$forbid"
    made_forbid=yes
  fi
  if [ ! -d /etc/postgresql ]; then
    "${root[@]}" mkdir -p "$(dirname "$no_cluster")"
    echo 'create_main_cluster = false' | "${root[@]}" tee "$no_cluster" >/dev/null
  fi
  local done=0
  { "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get update -q &&
    "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "$@"; } >&2 || done=$?
  [ -z "$made_forbid" ] || "${root[@]}" rm -f "$forbid"
  if [ -n "$new_redis" ] && command -v systemctl >/dev/null; then
    "${root[@]}" systemctl disable redis-server >/dev/null 2>&1 || true
  fi
  [ "$done" -eq 0 ] || die "the packages could not be installed: $*"
}

# --- the virtual environment -----------------------------------------------------------------------------------

find_python() {
  for candidate in "${PYTHON:-}" python3 python3.13 python3.12 python3.11 /usr/bin/python3; do
    [ -n "$candidate" ] || continue
    "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo "$candidate"; return; }
  done
  die "Python 3.11 or newer is needed. Install it, or name it: make setup PYTHON=/path/to/python3"
}

make_environment() {
  local wanted mark=.venv/.installed-$extra
  wanted=$(cat pyproject.toml constraints.txt <(.venv/bin/python --version 2>&1) 2>/dev/null | sha256sum)
  [ "$(cat "$mark" 2>/dev/null)" != "$wanted" ] || return 0
  # `dev` brings all that `stack` needs.
  [ "$extra" != stack ] || [ "$(cat .venv/.installed-dev 2>/dev/null)" != "$wanted" ] || return 0
  if [ ! -x .venv/bin/pip ] || [ -e .venv/.unfinished ]; then  # an interrupted installation is not repaired but made anew
    say "making .venv with $("$python" --version)"
    rm -rf .venv
    "$python" -m venv .venv
  fi
  touch .venv/.unfinished
  say "installing Python packages (the first time this takes a minute or two)"
  .venv/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt \
    --editable ".[$extra]" 2> >(grep -vE 'WARNING: Location .* is ignored|DEPRECATION' >&2)
  rm -f .venv/.unfinished
  cat pyproject.toml constraints.txt <(.venv/bin/python --version 2>&1) | sha256sum >"$mark"
}

# --- what comes from npm -------------------------------------------------------------------------------------------

install_node_packages() {  # FOLDER WHAT: true where something was installed
  local folder=$1 wanted mark=$1/node_modules/.installed
  wanted=$(sha256sum <"$folder/package-lock.json")
  [ "$(cat "$mark" 2>/dev/null)" != "$wanted" ] || return 1
  say "installing $2 (the first time this takes a minute or two)"
  npm ci --prefix "$folder" --ignore-scripts --no-audit --no-fund --loglevel error >&2 || die "npm could not install $2"
  printf '%s\n' "$wanted" >"$mark"
}

build_console() {
  local web=domain/console/web last=domain/console/static/vendor/countries.json  # written last: whole where it is there
  if install_node_packages "$web" "what the console's pages load" || [ "$web/build.mjs" -nt "$last" ]; then
    node "$web/build.mjs" || die "the console's scripts could not be built; see domain/console/web/build.mjs"
  fi
}

python=$(find_python)
mapfile -t packages < <(missing_packages)
[ ${#packages[@]} -eq 0 ] || install_packages "${packages[@]}"
make_environment
build_console
[ "$extra" != dev ] || install_node_packages tests/support/tools "the tests' tools" || true
