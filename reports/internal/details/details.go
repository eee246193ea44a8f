// SPDX-License-Identifier: Apache-2.0

// Package details reads from stored objects what answers to questions show of a result and the tables of rows do not hold:
// its message, what was scanned, the image and the layer.
//
//	places of a page's rows ─► objects, or their documents, a few at a time ─► element of the list ─► message, target, image, layer
//
// What it decides:
//
//   - Texts that nobody asks by are not kept twice. They are read for the rows of one page only, in the snapshot of the page.
//   - A page reads 16 MiB of objects at most; rows behind that show what the tables hold. Their reports can be read.
package details

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"slices"

	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	wgpolicyv1 "github.com/scanyard/scanyard/apis/wgpolicyk8s/v1alpha2"
	"github.com/scanyard/scanyard/reports/internal/answer"
	"github.com/scanyard/scanyard/reports/internal/contents"
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
	document      string // the format of the document that has the results, one in a line, where they are not in the object
	detail        func(object *mvcc.Object, element []byte) (answer.Detail, error)
}

var lists = map[int64]list{
	kinds.ReportNumber:              {"results", "results", "", ofResult},
	kinds.ClusterReportNumber:       {"results", "results", "", ofResult},
	kinds.VulnerabilityReportNumber: {"document", "document.findings", kinds.FormatFindings, ofVulnerability},
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
				read, err := fill(ctx, tx, details, rows, byObject[objects[i].ID], &objects[i])
				if err != nil {
					return nil, err
				}
				size += read
			}
			if size > maxBytes {
				break
			}
		}
		return details, nil
	}
}

// fill fills in what one object says of its rows, and returns how many bytes that took. A payload that is damaged says nothing.
func fill(ctx context.Context, tx *sqldb.Tx, details []answer.Detail, rows []answer.Place, of []int, object *mvcc.Object) (read int, err error) {
	from, ok := lists[object.Kind]
	if !ok || object.Damaged {
		return 0, nil
	}
	places := make([]int, 0, len(of))
	for _, i := range of {
		places = append(places, rows[i].Index)
	}
	slices.Sort(places)
	read = len(object.Head) + len(object.Payload)
	elements := sqlstorage.Elements(&object.Value, from.payload, from.path, places)
	if elements == nil && from.document != "" {
		var lines int
		if elements, lines, err = lineAt(ctx, tx, object.ID, from.document, places); err != nil {
			return 0, err
		}
		read += lines
	}
	for _, i := range of {
		element, ok := elements[rows[i].Index]
		if !ok {
			continue
		}
		if details[i], err = from.detail(object, element); err != nil {
			return 0, err
		}
	}
	return read, nil
}

// lineAt returns lines of a document that was streamed, by their places from 0, which must be in order, and how many bytes
// were read.
func lineAt(ctx context.Context, tx *sqldb.Tx, object int64, format string, places []int) (found map[int][]byte, read int, err error) {
	document, err := contents.OpenIn(ctx, tx, object, format)
	if err != nil || document == nil {
		return nil, 0, err
	}
	found = map[int][]byte{}
	lines := bufio.NewScanner(document)
	lines.Buffer(nil, longestLine)
	for i := 0; len(places) > 0 && lines.Scan(); {
		read += len(lines.Bytes())
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		if places[0] == i {
			found[i], places = bytes.Clone(lines.Bytes()), places[1:]
		}
		i++
	}
	return found, read, lines.Err()
}
