// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	checkOfReports = "reports"
	// reportsService is the APIService that exists if the reports API server is installed.
	reportsService = "v1alpha1.reports.scanyard.io"
	// automanaged has kube-apiserver set an APIService back to its CRD.
	automanaged = "kube-aggregator.kubernetes.io/automanaged"
)

// reportGroups are the APIServices of groups that the server may share with CRDs.
var reportGroups = []string{"v1alpha2.wgpolicyk8s.io", "v1alpha1.openreports.io"}

// seenService is an APIService.
type seenService struct {
	name                        string
	remote, labelled, available bool
	managed                     bool // its annotation says that it is the reports API server's
	why                         string
}

// checkReports checks which server serves the groups of reports. It returns false if the reports API server is not installed.
func checkReports(ctx context.Context, c client.Client) (v Result, installed bool) {
	var seen []seenService
	for _, name := range append([]string{reportsService}, reportGroups...) {
		service := &unstructured.Unstructured{}
		service.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService"})
		err := c.Get(ctx, client.ObjectKey{Name: name}, service)
		switch {
		case err == nil:
			seen = append(seen, serviceOf(service))
		case apierrors.IsNotFound(err) && name != reportsService:
		case apierrors.IsNotFound(err), apierrors.IsForbidden(err), meta.IsNoMatchError(err):
			return Result{}, false
		default:
			return Result{checkOfReports, Skip, fmt.Sprintf("the API server does not say: %v", err), ""}, true
		}
	}
	return resultOfReports(seen), true
}

func serviceOf(u *unstructured.Unstructured) seenService {
	_, labelled := u.GetLabels()[automanaged]
	reference, _, _ := unstructured.NestedMap(u.Object, "spec", "service")
	s := seenService{name: u.GetName(), labelled: labelled, remote: len(reference) > 0, managed: u.GetAnnotations()["reports.scanyard.io/managed"] == "true"}
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, item := range conditions {
		if condition, ok := item.(map[string]any); ok && condition["type"] == "Available" {
			s.available = condition["status"] == "True"
			s.why, _ = condition["message"].(string)
		}
	}
	return s
}

// resultOfReports names the groups that the reports API server does not serve, and why.
func resultOfReports(seen []seenService) Result {
	local := ""
	for _, s := range seen {
		switch {
		case s.labelled && (s.remote || s.managed):
			return Result{
				checkOfReports, Warn, fmt.Sprintf("APIService %s was applied over the one of a CRD; its label %s has kube-apiserver undo that", s.name, automanaged),
				"apply it without the label in the same write, as \"scanyard reports migrate\" and the chart reports do",
			}
		case s.remote && !s.available:
			return Result{
				checkOfReports, Fail, fmt.Sprintf("the server of APIService %s does not respond: %s", s.name, s.why),
				"a cluster admin looks at: kubectl describe apiservice " + s.name,
			}
		case !s.remote && local == "":
			local = s.name
		}
	}
	if local != "" {
		return Result{checkOfReports, OK, fmt.Sprintf("the reports API server responds; %s is with its CRDs, \"scanyard reports migrate\" moves it", local), ""}
	}
	return Result{checkOfReports, OK, "the reports API server responds", ""}
}
