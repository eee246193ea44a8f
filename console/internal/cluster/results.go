// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/findings/exception"
	"github.com/scanyard/scanyard/findings/report"
	"github.com/scanyard/scanyard/podkit/transfer"
)

// ErrNoFindings says that a Scan has stored no findings yet.
var ErrNoFindings = errors.New("this Scan has no findings yet")

// ErrLinksEnded says that the links of a Scan have run out.
var ErrLinksEnded = errors.New("the links of this Scan have run out: have them renewed on its page")

// compared is how many other Scans are looked at before a link is followed.
const compared = 100

// Findings are those of a Scan, with the exceptions that hold for it.
func (v *Viewer) Findings(ctx context.Context, scan *executionv1.Scan) (*report.Input, error) {
	link := scan.Status.FindingDownloadLink
	if link == "" {
		return nil, ErrNoFindings
	}
	if err := v.trust(ctx, scan, link); err != nil {
		return nil, err
	}
	selection, err := v.exceptionsFor(ctx, scan)
	if err != nil {
		return nil, err
	}
	input := v.stored(scan)
	input.Exceptions = selection
	return input, nil
}

// FindingsBeside are those of a Scan without regard to exceptions, where its link leads to the same place as that of a Scan
// whose findings were read.
func (v *Viewer) FindingsBeside(scan, read *executionv1.Scan) (*report.Input, error) {
	link, err := url.Parse(scan.Status.FindingDownloadLink)
	if err != nil || link.Host == "" {
		return nil, ErrNoFindings
	}
	if known, err := url.Parse(read.Status.FindingDownloadLink); err != nil || known.Host != link.Host || known.Scheme != link.Scheme {
		return nil, strangeLink(link.Host)
	}
	return v.stored(scan), nil
}

// stored are the findings that the link of a Scan leads to.
func (v *Viewer) stored(scan *executionv1.Scan) *report.Input {
	return &report.Input{
		Findings: report.Stream(func(ctx context.Context) (io.ReadCloser, error) {
			body, _, err := v.Transfer.Download(ctx, transfer.URL(scan.Status.FindingDownloadLink))
			if status, ok := errors.AsType[*transfer.StatusError](err); ok && (transfer.IsExpired(err) || status.Code == 403) {
				return nil, ErrLinksEnded
			}
			if err != nil {
				return nil, fmt.Errorf("read findings of Scan %s: %w", scan.Name, err)
			}
			return body, nil
		}),
		Scan: report.Scan{
			Name: scan.Name, Namespace: scan.Namespace, Type: scan.Spec.ScanType, Parameters: scan.Spec.Parameters,
		},
	}
}

// FollowsLinks says whether findings of Scans can be read at all: a console of the cluster has to be told where the object storage is.
func (v *Viewer) FollowsLinks() bool { return !v.KnownStorage || len(v.StorageHosts) > 0 }

func strangeLink(host string) error {
	return fmt.Errorf("the link to the findings leads to %s, which is not the object storage of this cluster, and is not followed", host)
}

// trust refuses a link to a host that is not object storage, as far as that can be told.
func (v *Viewer) trust(ctx context.Context, scan *executionv1.Scan, link string) error {
	parsed, err := url.Parse(link)
	if err != nil || parsed.Host == "" || parsed.Scheme != "http" && parsed.Scheme != "https" {
		return errors.New("the link to the findings is not an address")
	}
	strange := strangeLink(parsed.Host)
	if !v.FollowsLinks() {
		return errors.New("this console follows no links: it has not been told where the object storage is (storageHosts of its chart)")
	}
	if len(v.StorageHosts) > 0 {
		if slices.Contains(v.StorageHosts, parsed.Host) {
			return nil
		}
		return strange
	}
	others := &executionv1.ScanList{}
	err = v.List(ctx, others, client.InNamespace(scan.Namespace), client.Limit(compared))
	if apierrors.IsForbidden(err) {
		return nil // who may read one Scan only has nothing to compare with
	}
	if err != nil {
		return fmt.Errorf("compare the links with those of other Scans: %w", err)
	}
	known := false
	for i := range others.Items {
		other, err := url.Parse(others.Items[i].Status.FindingDownloadLink)
		if err != nil || others.Items[i].UID == scan.UID || other.Host == "" {
			continue
		}
		if other.Host == parsed.Host {
			return nil
		}
		known = true
	}
	if known {
		return strange
	}
	return nil
}

// Exceptions are those that hold in a namespace, or in the cluster, as far as the viewer may read them.
func (v *Viewer) Exceptions(ctx context.Context, scope Scope) ([]exception.Exception, error) {
	var all []exception.Exception
	_, err := v.Each(ctx, scope, &settingsv1alpha2.FindingExceptionList{}, func(o client.Object) error {
		if e, ok := o.(*settingsv1alpha2.FindingException); ok {
			all = append(all, exception.Of(e))
		}
		return nil
	})
	if err == nil {
		_, err = v.Each(ctx, Scope{}, &settingsv1alpha2.ClusterFindingExceptionList{}, func(o client.Object) error {
			if e, ok := o.(*settingsv1alpha2.ClusterFindingException); ok {
				all = append(all, exception.OfCluster(e))
			}
			return nil
		})
	}
	if errors.Is(err, ErrAbsent) {
		return all, nil // a cluster of before exceptions
	}
	return all, err
}

func (v *Viewer) exceptionsFor(ctx context.Context, scan *executionv1.Scan) (*exception.Selection, error) {
	list, err := v.Exceptions(ctx, Scope{Names: []string{scan.Namespace}})
	if err != nil {
		return nil, err
	}
	seen, err := v.ExceptionScan(ctx, scan, list)
	if err != nil {
		return nil, err
	}
	return exception.Compile(list, v.Now()).For(seen), nil
}

// ExceptionScan is a Scan as exceptions look at it. The labels of its namespace are read where one of them asks for labels; a
// viewer who may not read the namespace does not see what they would match.
func (v *Viewer) ExceptionScan(ctx context.Context, scan *executionv1.Scan, list []exception.Exception) (exception.Scan, error) {
	seen := exception.Scan{Namespace: scan.Namespace, Name: scan.Name, ScanType: scan.Spec.ScanType, Target: scan.Labels[executionv1.LabelTarget]}
	if !slices.ContainsFunc(list, func(e exception.Exception) bool { return e.Scope.NamespaceSelector != nil }) {
		return seen, nil
	}
	namespace := &corev1.Namespace{}
	err := v.Get(ctx, client.ObjectKey{Name: scan.Namespace}, namespace)
	if err != nil && !apierrors.IsForbidden(err) {
		return seen, fmt.Errorf("read namespace: %w", err)
	}
	seen.NamespaceLabels = namespace.Labels
	return seen, nil
}
