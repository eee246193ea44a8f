// SPDX-License-Identifier: Apache-2.0

package exceptions

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	wgpolicyv1alpha2 "github.com/scanyard/scanyard/apis/wgpolicyk8s/v1alpha2"
	"github.com/scanyard/scanyard/console/internal/web"
	"github.com/scanyard/scanyard/findings/policyreport"
	"github.com/scanyard/scanyard/findings/report"
)

// maxChosen is how many findings are excepted at once: as many as a page of the list has.
const maxChosen = web.PerPage

// chosen are findings that were chosen in a list.
type chosen struct {
	namespaces, fingerprints []string
	// lost counts those that have no fingerprint any more.
	lost int
}

func (c *chosen) add(namespace, fingerprint string) {
	if !slices.Contains(c.namespaces, namespace) {
		c.namespaces = append(c.namespaces, namespace)
	}
	if !slices.Contains(c.fingerprints, fingerprint) {
		c.fingerprints = append(c.fingerprints, fingerprint)
	}
}

// choose fills the form with the findings that the address names: "stored" by namespace and fingerprint, "reported" by
// namespace, report and place in the report.
func (f *form) choose(q *web.Request) (notes []string, err error) {
	stored, reported := q.URL.Query()["stored"], q.URL.Query()["reported"]
	if len(stored)+len(reported) == 0 {
		return nil, nil
	}
	if len(stored)+len(reported) > maxChosen {
		return nil, &web.Problem{Code: http.StatusBadRequest, Title: "Too many findings.", Text: fmt.Sprintf("%d can be excepted at once.", maxChosen)}
	}
	c := &chosen{}
	for _, text := range stored {
		if namespace, fingerprint, ok := strings.Cut(text, "/"); ok && fingerprint != "" {
			c.add(namespace, fingerprint)
		}
	}
	if err := c.results(q, reported); err != nil {
		return nil, err
	}
	slices.Sort(c.namespaces)
	f.Fingerprints, f.Finding = strings.Join(c.fingerprints, "\n"), web.Count(len(c.fingerprints), "finding")
	switch len(c.namespaces) {
	case 0:
	case 1:
		f.Namespace = c.namespaces[0]
	default:
		f.Cluster, f.Namespaces, f.More = "yes", strings.Join(c.namespaces, "\n"), true
		notes = append(notes, "The findings are of several namespaces: one exception of the cluster holds for them, which needs rights of the cluster.")
	}
	if c.lost > 0 {
		notes = append(notes, web.Count(c.lost, "finding")+" cannot be told by a fingerprint, or the Scan is gone: except such a finding on its own page.")
	}
	return notes, nil
}

// placesOf are the places of results by their reports.
func placesOf(texts []string) (map[client.ObjectKey][]int, error) {
	reports := map[client.ObjectKey][]int{}
	for _, text := range texts {
		parts := strings.Split(text, "/")
		index, err := strconv.Atoi(parts[len(parts)-1])
		if len(parts) != 3 || err != nil || index < 0 {
			return nil, &web.Problem{Code: http.StatusBadRequest, Title: "There is no such finding."}
		}
		key := client.ObjectKey{Namespace: parts[0], Name: parts[1]}
		reports[key] = append(reports[key], index)
	}
	return reports, nil
}

// results adds findings by their place in reports: as the Scan of the report has them.
func (c *chosen) results(q *web.Request, places []string) error {
	reports, err := placesOf(places)
	if err != nil {
		return err
	}
	wanted := map[client.ObjectKey]map[string]bool{} // ids of findings by their Scan
	for key, indexes := range reports {
		r := &wgpolicyv1alpha2.PolicyReport{}
		if err := q.Viewer.Get(q.Context(), key, r); err != nil {
			return fmt.Errorf("read report: %w", err)
		}
		scan := client.ObjectKey{Namespace: key.Namespace, Name: r.Labels[policyreport.LabelScan]}
		for _, i := range indexes {
			if scan.Name == "" || i >= len(r.Results) || r.Results[i].Properties["id"] == "" {
				c.lost++
				continue
			}
			if wanted[scan] == nil {
				wanted[scan] = map[string]bool{}
			}
			wanted[scan][r.Results[i].Properties["id"]] = true
		}
	}
	for scan, ids := range wanted {
		if err := c.ofScan(q, scan, ids); err != nil {
			return err
		}
	}
	return nil
}

// ofScan adds the findings of a Scan that have these ids.
func (c *chosen) ofScan(q *web.Request, key client.ObjectKey, ids map[string]bool) error {
	found := map[string]bool{}
	scan := &executionv1.Scan{}
	err := q.Viewer.Get(q.Context(), key, scan)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("read Scan: %w", err)
	}
	if input, err := q.Viewer.Findings(q.Context(), scan); err == nil {
		// What cannot be read any more is told as lost.
		_ = input.Each(q.Context(), func(e *report.Entry) error {
			if ids[e.ID] && e.Fingerprint != "" {
				found[e.ID] = true
				c.add(key.Namespace, e.Fingerprint)
			}
			return nil
		})
	}
	c.lost += len(ids) - len(found)
	return nil
}
