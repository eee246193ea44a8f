// SPDX-License-Identifier: Apache-2.0

package persistenceazuremonitor

import (
	"errors"
	"fmt"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/hooks/sdk"
)

// record is a finding on its way to a table.
type record = finding.Object

// encoder makes records of findings; more adds what only one of the interfaces wants.
func encoder(s *sdk.Session, more func(*record)) (sdk.Encode, error) {
	scan := s.Scan()
	parameters := scan.Spec.Parameters
	if parameters == nil {
		parameters = []string{}
	}
	labels, err := labelsOf(scan)
	if err != nil {
		return nil, err
	}
	decoder := finding.NewDecoder(0)
	var out []byte
	return func(_ string, element []byte) ([]byte, error) {
		value, err := decoder.Value(element)
		if err != nil {
			return nil, fmt.Errorf("read finding: %w", err)
		}
		r, ok := value.(finding.Object)
		if !ok {
			return nil, errors.New("is not an object")
		}
		r.Set("scan_id", scan.Metadata.UID)
		r.Set("scan_name", scan.Metadata.Name)
		r.Set("scan_type", scan.Spec.ScanType)
		r.Set("scan_parameters", parameters)
		r.Set("scan_labels", labels)
		more(&r)
		out, err = finding.AppendValue(out[:0], r)
		return out, err
	}, nil
}

// labelsOf are the Scan's labels in the order in which the API server gives them. Without any it is an empty object.
func labelsOf(scan *sdk.Scan) (finding.Object, error) {
	whole, err := finding.DecodeValue(scan.Raw, 0)
	if err != nil {
		return nil, fmt.Errorf("read Scan: %w", err)
	}
	for _, key := range []string{"metadata", "labels"} {
		object, _ := whole.(finding.Object)
		whole, _ = object.Get(key)
	}
	labels, ok := whole.(finding.Object)
	if !ok {
		labels = finding.Object{}
	}
	return labels, nil
}
