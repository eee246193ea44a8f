// SPDX-License-Identifier: Apache-2.0

package persistencereports

import (
	"cmp"
	"slices"
	"strconv"
	"time"
)

// stored is what is looked at of a report that is there.
type stored struct {
	Metadata struct {
		Name            string            `json:"name"`
		UID             string            `json:"uid"`
		ResourceVersion string            `json:"resourceVersion"`
		Labels          map[string]string `json:"labels"`
		Annotations     map[string]string `json:"annotations"`
	} `json:"metadata"`
}

// replacedBy chooses the reports of this Scan that its present run did not write: those of another run, and those of a run
// with more chunks.
func replacedBy(p plan, reports []stored) []stored {
	var gone []stored
	for _, r := range reports {
		number, err := strconv.Atoi(r.Metadata.Labels[labelChunk])
		if r.Metadata.Annotations[annotationRun] != p.run || err != nil || number >= p.chunks {
			gone = append(gone, r)
		}
	}
	return gone
}

// outlived chooses the reports of earlier Scans of the same ScheduledScan that are more than history keeps, where this Scan
// counts as one. Reports of later Scans stay: they belong to hooks that overtook this one.
func outlived(o *origin, reports []stored, history int) []stored {
	mine, err := time.Parse(time.RFC3339, o.Metadata.CreationTimestamp)
	if err != nil {
		return nil // the operator writes no times: the earlier Scan is unknown
	}
	type scan struct {
		uid     string
		created time.Time
	}
	earlier := map[scan][]stored{}
	for _, r := range reports {
		uid := r.Metadata.Annotations[annotationScanUID]
		created, err := time.Parse(time.RFC3339, r.Metadata.Annotations[annotationCreated])
		if err != nil || uid == o.Metadata.UID || created.After(mine) {
			continue
		}
		key := scan{uid, created}
		earlier[key] = append(earlier[key], r)
	}
	scans := make([]scan, 0, len(earlier))
	for key := range earlier {
		scans = append(scans, key)
	}
	slices.SortFunc(scans, func(a, b scan) int { return cmp.Or(b.created.Compare(a.created), cmp.Compare(a.uid, b.uid)) })
	var gone []stored
	for i := max(history-1, 0); i < len(scans); i++ {
		gone = append(gone, earlier[scans[i]]...)
	}
	return gone
}
