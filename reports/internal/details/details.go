// SPDX-License-Identifier: Apache-2.0

// Package details reads from stored objects what answers to questions show of a result and the tables of rows do not hold:
// its message, what was scanned, the image and the layer.
//
//	places of a page's rows ─► objects, a few at a time ─► element of the list ─► message, target, image, layer
//
// What it decides:
//
//   - Texts that nobody asks by are not kept twice. They are read for the rows of one page only, in the snapshot of the page.
//   - A page reads 16 MiB of objects at most; rows behind that show what the tables hold. Their reports can be read.
package details

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"

	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	wgpolicyv1 "github.com/scanyard/scanyard/apis/wgpolicyk8s/v1alpha2"
	"github.com/scanyard/scanyard/reports/internal/answer"
	"github.com/scanyard/scanyard/reports/internal/kinds"
	"github.com/scanyard/scanyard/reports/internal/mvcc"
	"github.com/scanyard/scanyard/reports/internal/sqldb"
	"github.com/scanyard/scanyard/reports/internal/sqlstorage"
)

const (
	atOnce   = 4
	maxBytes = 16 << 20
)

// list is where a kind has its results.
type list struct {
	payload, path string
	detail        func(object *mvcc.Object, element []byte) (answer.Detail, error)
}

var lists = map[int64]list{
	kinds.ReportNumber:              {"results", "results", ofResult},
	kinds.ClusterReportNumber:       {"results", "results", ofResult},
	kinds.VulnerabilityReportNumber: {"document", "document.findings", ofVulnerability},
}

func ofResult(_ *mvcc.Object, element []byte) (answer.Detail, error) {
	var result wgpolicyv1.PolicyReportResult
	err := json.Unmarshal(element, &result)
	return answer.Detail{Message: result.Message}, err
}

func ofVulnerability(object *mvcc.Object, element []byte) (answer.Detail, error) {
	var report struct {
		Spec struct {
			Image string `json:"image"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(object.Head, &report); err != nil {
		return answer.Detail{}, err
	}
	var finding reportsv1.VulnerabilityFinding
	err := json.Unmarshal(element, &finding)
	return answer.Detail{Message: cmp.Or(finding.Title, finding.Description), Target: finding.Target, Image: report.Spec.Image, Layer: finding.Layer}, err
}

// Read returns what the objects say of rows, in the order of the rows. It has the type of answer.Answerer's Details.
func Read(store *mvcc.Store) func(ctx context.Context, tx *sqldb.Tx, rows []answer.Place) ([]answer.Detail, error) {
	return func(ctx context.Context, tx *sqldb.Tx, rows []answer.Place) ([]answer.Detail, error) {
		byObject := map[int64][]int{}
		var ids []int64
		for i, row := range rows {
			if byObject[row.Object] == nil {
				ids = append(ids, row.Object)
			}
			byObject[row.Object] = append(byObject[row.Object], i)
		}
		details := make([]answer.Detail, len(rows))
		size := 0
		for part := range slices.Chunk(ids, atOnce) {
			objects, err := store.Objects(ctx, tx, part...)
			if err != nil {
				return nil, err
			}
			for i := range objects {
				if err := fill(details, rows, byObject[objects[i].ID], &objects[i]); err != nil {
					return nil, err
				}
				size += len(objects[i].Head) + len(objects[i].Payload)
			}
			if size > maxBytes {
				break
			}
		}
		return details, nil
	}
}

// fill fills in what one object says of its rows. A payload that is damaged says nothing.
func fill(details []answer.Detail, rows []answer.Place, of []int, object *mvcc.Object) error {
	from, ok := lists[object.Kind]
	if !ok || object.Damaged {
		return nil
	}
	places := make([]int, 0, len(of))
	for _, i := range of {
		places = append(places, rows[i].Index)
	}
	slices.Sort(places)
	elements := sqlstorage.Elements(&object.Value, from.payload, from.path, places)
	for _, i := range of {
		element, ok := elements[rows[i].Index]
		if !ok {
			continue
		}
		var err error
		if details[i], err = from.detail(object, element); err != nil {
			return err
		}
	}
	return nil
}
