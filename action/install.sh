#!/usr/bin/env bash
# Installs hazard into an environment of its own: the job's packages must neither break it nor be changed by it.
set -euo pipefail
python3 -m venv "$HAZARD_VENV"
if [ -n "${HAZARD_VERSION:-}" ]; then
  "$HAZARD_VENV/bin/pip" install --quiet "hazard==$HAZARD_VERSION"
else
  "$HAZARD_VENV/bin/pip" install --quiet "$GITHUB_ACTION_PATH"
fi
