// SPDX-License-Identifier: Apache-2.0

package sdk

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/scanyard/scanyard/apis/finding"
)

// Scan is the part of a Scan that parsers look at. It is decoded from the object as the API server sends it; the full
// type would pull the Kubernetes libraries into every parser.
type Scan struct {
	Metadata Metadata   `json:"metadata"`
	Spec     ScanSpec   `json:"spec"`
	Status   ScanStatus `json:"status"`
}

// Metadata identifies the Scan.
type Metadata struct {
	Name              string            `json:"name"`
	Namespace         string            `json:"namespace"`
	CreationTimestamp string            `json:"creationTimestamp"`
	Labels            map[string]string `json:"labels"`
	Annotations       map[string]string `json:"annotations"`
}

// ScanSpec is the spec of the Scan.
type ScanSpec struct {
	ScanType string `json:"scanType"`
	// Parameters is nil if the Scan has none, which some parsers distinguish from an empty list.
	Parameters []string `json:"parameters"`
}

// ScanStatus is what has become of it so far.
type ScanStatus struct {
	RawResultType         string         `json:"rawResultType"`
	RawResultDownloadLink string         `json:"rawResultDownloadLink"`
	Findings              FindingsStatus `json:"findings"`
}

// FindingsStatus holds the counters of an earlier run, if there was one.
type FindingsStatus struct {
	Categories map[string]int64 `json:"categories"`
}

// DecodeScan reads a Scan, or the parts of one that are there.
func DecodeScan(data []byte) (*Scan, error) {
	s := &Scan{}
	if err := json.Unmarshal(data, s); err != nil {
		return nil, fmt.Errorf("read the Scan: %w", err)
	}
	return s, nil
}

// Info returns what every finding says of its Scan.
func (s *Scan) Info() finding.ScanInfo {
	return finding.ScanInfo{
		CreatedAt: s.Metadata.CreationTimestamp,
		Name:      s.Metadata.Name,
		Namespace: s.Metadata.Namespace,
		ScanType:  s.Spec.ScanType,
	}
}

// CountedCategories returns the categories that the status counts now, sorted.
func (s *Scan) CountedCategories() []string {
	return slices.Sorted(maps.Keys(s.Status.Findings.Categories))
}
