#!/usr/bin/env bash
# Install missing system packages where we may (root, apt); elsewhere name them and go on: `kernelmill doctor` tells what is lacking.
set -euo pipefail

missing=()
command -v g++ >/dev/null || missing+=(g++)
ldconfig -p 2>/dev/null | grep -q 'libseccomp\.so\.2' || missing+=(libseccomp2)
python3 -c 'import ensurepip' 2>/dev/null || missing+=(python3-venv)
# The tests start servers of their own; where there is none they are skipped.
compgen -G '/usr/lib/postgresql/*/bin/postgres' >/dev/null || command -v postgres >/dev/null || missing+=(postgresql)
command -v chromium >/dev/null || command -v chromium-browser >/dev/null || missing+=(chromium)
[ ${#missing[@]} -eq 0 ] && exit 0

if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
  echo "installing ${missing[*]}"
  # Debian's package would make a cluster and start it; only its programs are wanted.
  quiet=/etc/postgresql-common/createcluster.d/kernelmill.conf
  mkdir -p "$(dirname "$quiet")"
  echo 'create_main_cluster = false' >"$quiet"
  trap 'rm -f "$quiet"' EXIT
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
else
  echo "not installed: ${missing[*]}. Install them, for instance: sudo apt-get install ${missing[*]}" >&2
fi
