// SPDX-License-Identifier: Apache-2.0

package scans

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/console/internal/web"
)

// change changes a Scan and goes back to its page.
func (p *pages) change(q *web.Request, do func(*executionv1.Scan) error) (string, error) {
	scan, err := p.scan(q)
	if err != nil {
		return "", err
	}
	before := scan.DeepCopy()
	if err := do(scan); err != nil {
		return "", err
	}
	if err := q.Viewer.Patch(q.Context(), scan, client.MergeFrom(before)); err != nil {
		return "", fmt.Errorf("change Scan: %w", err)
	}
	return "/scans/" + scan.Namespace + "/" + scan.Name, nil
}

func (p *pages) cancel(q *web.Request) (string, error) {
	return p.change(q, func(s *executionv1.Scan) error {
		if s.Settled() {
			return &web.Problem{Code: http.StatusConflict, Title: "This Scan has ended already."}
		}
		s.Spec.Cancel = new(true)
		return nil
	})
}

func (p *pages) suspend(q *web.Request) (string, error) {
	return p.change(q, func(s *executionv1.Scan) error {
		s.Spec.Suspend = new(q.PostFormValue("suspend") == "true")
		return nil
	})
}

// retry runs a phase of a Scan again that has ended, or has its links written anew.
func (p *pages) retry(q *web.Request) (string, error) {
	return p.change(q, func(s *executionv1.Scan) error {
		phase := q.PostFormValue("phase")
		known := []string{"scanner", "parser", "hooks", "links"}
		for _, group := range s.Status.OrderedHookStatuses {
			for _, h := range group {
				known = append(known, "hook/"+h.HookName)
			}
		}
		switch {
		case !slices.Contains(known, phase):
			return &web.Problem{Code: http.StatusBadRequest, Title: "This Scan has no such phase."}
		case !s.Settled() && phase != "links":
			return &web.Problem{Code: http.StatusConflict, Title: "This Scan has not ended yet.", Text: "A phase runs again when the Scan has ended."}
		}
		metav1.SetMetaDataAnnotation(&s.ObjectMeta, executionv1.AnnotationRerun, phase+"@"+q.Now.UTC().Format(time.RFC3339Nano))
		if s.Cancelled() && phase != "links" {
			s.Spec.Cancel = new(false) // a cancelled Scan does not run again
		}
		return nil
	})
}

func (p *pages) remove(q *web.Request) (string, error) {
	scan, err := p.scan(q)
	if err != nil {
		return "", err
	}
	if err := q.Viewer.Delete(q.Context(), scan, client.Preconditions{UID: &scan.UID}); err != nil {
		return "", fmt.Errorf("delete Scan: %w", err)
	}
	return "/scans", nil
}

// start makes a Scan as a form says it.
func (p *pages) start(q *web.Request) (string, error) {
	namespace, kind := q.PostFormValue("namespace"), q.PostFormValue("type")
	if namespace == "" || kind == "" {
		return "", &web.Problem{Code: http.StatusBadRequest, Title: "A Scan needs a namespace and a type."}
	}
	scan := &executionv1.Scan{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: kind + "-"}}
	scan.Spec.ScanType, scan.Spec.Parameters = kind, []string{}
	for line := range strings.Lines(q.PostFormValue("parameters")) {
		if parameter := strings.TrimSpace(line); parameter != "" {
			scan.Spec.Parameters = append(scan.Spec.Parameters, parameter)
		}
	}
	if err := q.Viewer.Create(q.Context(), scan); err != nil {
		return "", fmt.Errorf("start Scan: %w", err)
	}
	return "/scans/" + scan.Namespace + "/" + scan.Name, nil
}

// again starts a Scan with the spec of another.
func (p *pages) again(q *web.Request) (string, error) {
	before, err := p.scan(q)
	if err != nil {
		return "", err
	}
	scan := &executionv1.Scan{ObjectMeta: metav1.ObjectMeta{Namespace: before.Namespace, GenerateName: before.Spec.ScanType + "-", Labels: before.Labels}}
	before.Spec.DeepCopyInto(&scan.Spec)
	scan.Spec.Cancel, scan.Spec.Suspend = nil, nil
	if err := q.Viewer.Create(q.Context(), scan); err != nil {
		return "", fmt.Errorf("start Scan: %w", err)
	}
	return "/scans/" + scan.Namespace + "/" + scan.Name, nil
}
