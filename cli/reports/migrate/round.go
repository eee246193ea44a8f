// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"slices"
	"strings"
)

const (
	// batchObjects and batchBytes bound what is sent at once. The server takes 1 MiB at least, whatever its settings.
	batchObjects = 200
	batchBytes   = 900 << 10
	// fewChanged is up to how many objects are read one by one; more are read as pages.
	fewChanged = 300
	// calm is up to how many changes in a round the freeze may begin; after maxRounds it begins all the same.
	calm      = 50
	maxRounds = 8
)

// present is an object as a metadata list shows it.
type present struct {
	uid, version string
	finalizers   bool
}

// round is what is to be done so that the server has what the CRDs have.
type round struct {
	changed, gone []place
}

func (r *round) size() int { return len(r.changed) + len(r.gone) }

// difference compares what was copied with what is there. Objects that were waiting for their finalizers when these
// were taken off stay at the server: kept are their uids.
func difference(have map[place]copied, there map[place]present, kept map[string]bool) round {
	var r round
	for at, object := range there {
		if before, ok := have[at]; !ok || before.UID != object.uid || before.version != object.version {
			r.changed = append(r.changed, at)
		}
	}
	for at, object := range have {
		if now, ok := there[at]; (!ok || now.uid != object.UID) && !kept[object.UID] {
			r.gone = append(r.gone, at)
		}
	}
	byPlace := func(a, b place) int { return strings.Compare(a.String(), b.String()) }
	slices.SortFunc(r.changed, byPlace)
	slices.SortFunc(r.gone, byPlace)
	return r
}

// leftovers are what an earlier run may have sent, and what has gone from the CRDs since.
func leftovers(earlier []recorded, there map[place]present, kept map[string]bool) []recorded {
	return slices.DeleteFunc(slices.Clone(earlier), func(line recorded) bool {
		return kept[line.Object.UID] || there[line.Place].uid == line.Object.UID
	})
}

// batches splits what is sent by number and by bytes. One that is larger is a batch of its own.
func batches(sizes []int) (ends []int) {
	first, bytes := 0, 0
	for i, size := range sizes {
		if i > first && (i-first == batchObjects || bytes+size > batchBytes) {
			ends = append(ends, i)
			first, bytes = i, 0
		}
		bytes += size
	}
	if len(sizes) > first {
		ends = append(ends, len(sizes))
	}
	return ends
}

// found is an object of the server.
type found struct {
	uid, hash string
	// since is true for an object that was written after the switch.
	since bool
}

// differences returns, one line each, the objects whose copy on the server differs from the CRDs' object.
func differences(want map[place]copied, have map[place]found) []string {
	var lines []string
	for at, object := range want {
		got, ok := have[at]
		switch {
		case !ok:
			lines = append(lines, at.String()+": is missing")
		case got.uid != object.UID && !got.since:
			lines = append(lines, at.String()+": has uid "+got.uid+", had "+object.UID)
		case got.hash != object.Hash && !got.since:
			lines = append(lines, at.String()+": has another content")
		}
	}
	slices.Sort(lines)
	return lines
}

// twice are the places that both groups have, which are one at the server.
func twice(a, b map[place]present) []place {
	same := map[string]string{}
	for i := range groups[0].resources {
		same[groups[0].resources[i].plural] = groups[1].resources[i].plural
	}
	var both []place
	for at := range a {
		if _, there := b[place{same[at.Resource], at.Namespace, at.Name}]; there {
			both = append(both, at)
		}
	}
	slices.SortFunc(both, func(x, y place) int { return strings.Compare(x.String(), y.String()) })
	return both
}
