#!/usr/bin/env bash
# Checks the programs, annotates the job, and leaves the reports and the exit code for the steps that follow.
set -euo pipefail

lines() { printf '%s\n' "$1" | sed -e 's/^[[:space:]]*//' -e 's/[[:space:]]*$//' -e '/^$/d'; }

mapfile -t paths < <(lines "$HAZARD_PATHS")
mapfile -t options < <(lines "${HAZARD_OPTIONS:-}")
mkdir -p "$HAZARD_REPORTS"
sarif="$HAZARD_REPORTS/hazard.sarif"
json="$HAZARD_REPORTS/hazard.json"
markdown="$HAZARD_REPORTS/hazard.md"

code=0
"$HAZARD" check --output-format github --fail-on "${HAZARD_FAIL_ON:-error}" "${options[@]}" \
  -o "sarif=$sarif" -o "json=$json" -o "markdown=$markdown" -- "${paths[@]}" || code=$?

# Wrong usage leaves no reports.
count=0
if [ -f "$json" ]; then
  count=$(python3 -c 'import json, sys; print(len(json.load(open(sys.argv[1]))["findings"]))' "$json")
  cat "$markdown" >>"$GITHUB_STEP_SUMMARY"
  {
    echo "sarif-file=$sarif"
    echo "json-file=$json"
  } >>"$GITHUB_OUTPUT"
fi
{
  echo "count=$count"
  echo "exit-code=$code"
} >>"$GITHUB_OUTPUT"
