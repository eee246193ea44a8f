#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Measures registry scanning against its goals, with the adapter that is built in, and prints each figure beside its goal.
# docs/benchmarks.md says what the figures mean. Usage: bench-registry.sh [filter|discover|rescan|first|queue|lookup|storage|waiting|fair...]     (nothing: all)
# BENCH_REGISTRY_IMAGES is how many images are scanned (200); 10000 is the size of the goals.
set -euo pipefail
cd "$(dirname "$0")/.."
export LOCALCLUSTER_BIN=${LOCALCLUSTER_BIN:-$PWD/bin/localcluster} BENCH_REGISTRY_IMAGES=${BENCH_REGISTRY_IMAGES:-200}
which=("$@")
[ ${#which[@]} -gt 0 ] || which=(filter discover rescan first queue lookup storage waiting fair)

# Benchmark, unit, goal: the figure must be at most the goal, or at least where it begins with >.
goals='
Select CPU-ms/10k 100
Unchanged cpu-s/op 10
Unchanged MiB-from-system 128
Unchanged GETs 0
Unchanged s/op 20
Immutable s/op 1
Immutable HEADs 0
New s/op 60
Rescan/all CPU-ms/image 20
Rescan/all images/hour >150000
Rescan/changed decision-ms 2000
Rescan/changed %-of-all 5
First writes/image 5
Queue doubled 0
Lookup median-ms 1
Lookup p99-ms 5
Storage kB/image 40
Waiting MiB 128
FewBesideMany times-alone 3
'
measure() {
  local out
  out=$(go test "./registry/internal/$1" -run '^$' -bench "$2" -benchtime "$3" -timeout 60m) || { echo "$out" >&2; return 1; }
  awk -v goals="$goals" '
    BEGIN { n = split(goals, list, "\n"); for (i = 1; i <= n; i++) if (split(list[i], part, " ") == 3) { goal[part[1] " " part[2]] = part[3] } }
    /^Benchmark/ {
      name = $1; sub(/^Benchmark/, "", name); sub(/-[0-9]+$/, "", name)
      for (i = 3; i < NF; i += 2) {
        value = $i; unit = $(i + 1)
        if (unit == "ns/op") { if (value == 0) continue; value /= 1e9; unit = "s/op" }
        g = goal[name " " unit]; shown = g; ratio = ""; said = ""
        if (g != "") {
          least = sub(/^>/, "", g)
          ratio = g > 0 ? sprintf("%.2f", value / g) : "-"
          said = (least ? value + 0 >= g + 0 : value + 0 <= g + 0) ? "met" : "MISSED"
        }
        printf "%-18s %-18s %14.4g %10s %8s  %s\n", name, unit, value, shown, ratio, said
      }
    }' <<<"$out"
}

echo "load: $(cut -d' ' -f1-3 /proc/loadavg), cores: $(nproc), images: $BENCH_REGISTRY_IMAGES"
printf '%-18s %-18s %14s %10s %8s\n' benchmark unit measured goal ratio
for one in "${which[@]}"; do
  case $one in
    filter) measure filter '^BenchmarkSelect$' 3x ;;
    discover) measure discovery . 1x ;;
    rescan) measure worker '^BenchmarkRescan$' 2x ;;
    first) measure worker '^BenchmarkFirst$' 1x ;;
    queue) measure worker '^BenchmarkQueue$' 1x ;;
    lookup) measure worker '^BenchmarkLookup$' 1x ;;
    storage) measure worker '^BenchmarkStorage$' 1x ;;
    waiting) measure app '^BenchmarkWaiting$' 1x ;;
    fair) measure feed '^BenchmarkFewBesideMany$' 1x ;;
    *) echo "bench-registry.sh: $one is none of filter, discover, rescan, first, queue, lookup, storage, waiting, fair" >&2; exit 2 ;;
  esac
done
