# SPDX-License-Identifier: Apache-2.0
# Runs ZAP with the parameters of the Scan. Where the ScanType is for all namespaces it also brings the baseline plan, in
# BASELINE_PLAN, because no ConfigMap is in all of them. A plan that the Scan mounts is left alone.
set -u
plan=/home/securecodebox/scb-automation/automation.yaml
if [ -n "${BASELINE_PLAN:-}" ] && [ ! -e "$plan" ]; then
  mkdir -p "${plan%/*}" && printf '%s\n' "$BASELINE_PLAN" >"$plan" || exit 1
fi
cd /zap || exit 1
./zap.sh -cmd "$@"
code=$?
# 1 is an error. Anything else, such as 2 for a plan that ended with warnings, has a report to read.
if [ "$code" -eq 1 ]; then exit 1; fi
exit 0
