#!/usr/bin/env bash
# Installs hazard into an environment of its own: the job's packages must neither break it nor be changed by it.
set -euo pipefail
if ! python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
  echo "::error title=hazard::hazard needs Python 3.11 or later, python3 is $(python3 -V); use actions/setup-python before"
  exit 2
fi
python3 -m venv "$HAZARD_VENV"
if [ -n "${HAZARD_VERSION:-}" ]; then
  "$HAZARD_VENV/bin/pip" install --quiet "hazard==$HAZARD_VERSION"
else
  "$HAZARD_VENV/bin/pip" install --quiet "$GITHUB_ACTION_PATH"
fi
