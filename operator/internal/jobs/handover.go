// SPDX-License-Identifier: Apache-2.0

package jobs

import (
	"encoding/json"
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/apis/handover"
)

// Handover is the input of a parser or hook that does not reach its Scan by the Kubernetes API.
type Handover struct {
	// Scan is the Scan, as environment variables.
	Scan []handover.Variable
	// CategoriesURL is the presigned PUT of counts that do not fit into a termination message; "" for hooks that only read.
	CategoriesURL string
	// ExceptionsURL is the presigned GET of the exceptions that hold for the Scan; "" where none does.
	ExceptionsURL string
	// PullSecrets are the pull secrets that the account would have had.
	PullSecrets []corev1.LocalObjectReference
}

// NewHandover returns the Handover of a Scan. The error wraps handover.ErrTooLarge if the Scan is too large.
func NewHandover(scan *executionv1.Scan) (*Handover, error) {
	whole := scan.DeepCopy()
	whole.SetGroupVersionKind(executionv1.SchemeGroupVersion.WithKind("Scan"))
	whole.ManagedFields = nil
	text, err := json.Marshal(whole)
	if err != nil {
		return nil, fmt.Errorf("hand the Scan over: %w", err)
	}
	if scan.Spec.Tolerations != nil && len(scan.Spec.Tolerations) == 0 {
		if text, err = withEmptyTolerations(text); err != nil {
			return nil, fmt.Errorf("hand the Scan over: %w", err)
		}
	}
	variables, err := handover.Split(text)
	if err != nil {
		return nil, err
	}
	return &Handover{Scan: variables}, nil
}

// withEmptyTolerations adds the one empty list that has a meaning and that our types drop.
func withEmptyTolerations(scan []byte) ([]byte, error) {
	var whole, spec map[string]json.RawMessage
	if err := json.Unmarshal(scan, &whole); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(whole["spec"], &spec); err != nil {
		return nil, err
	}
	spec["tolerations"] = json.RawMessage("[]")
	text, err := json.Marshal(spec)
	if err != nil {
		return nil, err
	}
	whole["spec"] = text
	return json.Marshal(whole)
}

// env returns the variables of a handover. Variables that the kind's own environment sets win.
func (h *Handover) env(own []corev1.EnvVar) []corev1.EnvVar {
	if h == nil {
		return own
	}
	add := func(name, value string) {
		set := slices.ContainsFunc(own, func(e corev1.EnvVar) bool { return e.Name == name })
		if value != "" && !set {
			own = append(own, corev1.EnvVar{Name: name, Value: value})
		}
	}
	for _, v := range h.Scan {
		add(v.Name, v.Value)
	}
	add(handover.EnvCategoriesURL, h.CategoriesURL)
	add(handover.EnvExceptionsURL, h.ExceptionsURL)
	return own
}

// apply changes a worker's pod for a handover: no token, unless the pod has an account for another purpose.
func (h *Handover) apply(w *worker) {
	if h == nil {
		return
	}
	w.pullSecrets = withPullSecrets(w.pullSecrets, h.PullSecrets)
	if w.account == "" {
		w.automount = new(false)
	}
	w.podLabels = overlay(w.podLabels, map[string]string{executionv1.LabelReports: "true"})
}

// mark notes on a Job that its Scan was handed over, so that the operator reads its termination message.
func (h *Handover) mark(job *batchv1.Job) {
	if h != nil {
		job.Annotations = overlay(job.Annotations, map[string]string{executionv1.AnnotationScanAccess: string(executionv1.ScanAccessHandover)})
	}
}
