// SPDX-License-Identifier: Apache-2.0

package sdk

import (
	"encoding/json"
	"fmt"

	"github.com/scanyard/scanyard/apis/outcome"
)

// Scan is the Scan a hook runs for, as it was when the hook started.
type Scan struct {
	// Raw is the object as the operator or the API server gave it, for hooks that hand it on.
	Raw json.RawMessage

	Metadata struct {
		Name        string            `json:"name"`
		Namespace   string            `json:"namespace"`
		UID         string            `json:"uid"`
		Labels      map[string]string `json:"labels"`
		Annotations map[string]string `json:"annotations"`
	} `json:"metadata"`
	Spec struct {
		ScanType   string   `json:"scanType"`
		Parameters []string `json:"parameters"`
	} `json:"spec"`
	Status struct {
		State         string `json:"state"`
		RawResultType string `json:"rawResultType"`
		Findings      struct {
			Categories map[string]int64 `json:"categories"`
		} `json:"findings"`
		// StoredFindings are the size and digest of the findings that the operator knows. Nil if it does not know them.
		StoredFindings *outcome.Stored `json:"storedFindings"`
	} `json:"status"`
}

// ParseScan reads the fields that a hook needs and keeps the whole text.
func ParseScan(text json.RawMessage) (*Scan, error) {
	s := &Scan{Raw: text}
	if err := json.Unmarshal(text, s); err != nil {
		return nil, fmt.Errorf("read Scan: %w", err)
	}
	return s, nil
}

// failed reports whether the Scan is Errored. Hooks run for such Scans if their runOn says so.
func (s *Scan) failed() bool { return s.Status.State == "Errored" }
