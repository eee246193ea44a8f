// SPDX-License-Identifier: Apache-2.0

package policyreport

import (
	"cmp"
	"slices"
	"strconv"
	"time"
)

// Stored is what is looked at of a report that is there.
type Stored struct {
	Metadata struct {
		Name            string            `json:"name"`
		UID             string            `json:"uid"`
		ResourceVersion string            `json:"resourceVersion"`
		Labels          map[string]string `json:"labels"`
		Annotations     map[string]string `json:"annotations"`
	} `json:"metadata"`
}

// ReplacedBy chooses the reports of this Scan that its present run did not write: those of another run, and those of a run
// with more chunks.
func ReplacedBy(p Plan, reports []Stored) []Stored {
	var gone []Stored
	for _, r := range reports {
		number, err := strconv.Atoi(r.Metadata.Labels[LabelChunk])
		if r.Metadata.Annotations[AnnotationRun] != p.Run || err != nil || number >= p.Chunks {
			gone = append(gone, r)
		}
	}
	return gone
}

// Outlived chooses the reports of earlier Scans of the same ScheduledScan that are more than history keeps, where this Scan
// counts as one. Reports of later Scans stay: they belong to hooks that overtook this one.
func Outlived(o *Origin, reports []Stored, history int) []Stored {
	mine, err := time.Parse(time.RFC3339, o.Metadata.CreationTimestamp)
	if err != nil {
		return nil // the operator writes no times: the earlier Scan is unknown
	}
	type scan struct {
		uid     string
		created time.Time
	}
	earlier := map[scan][]Stored{}
	for _, r := range reports {
		uid := r.Metadata.Annotations[AnnotationScanUID]
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
	var gone []Stored
	for i := max(history-1, 0); i < len(scans); i++ {
		gone = append(gone, earlier[scans[i]]...)
	}
	return gone
}
