// SPDX-License-Identifier: Apache-2.0

package scans

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/cli/session"
)

// checkType makes sure that the type of a Scan is installed. Where the user may not list types, the
// operator reports a missing one.
func checkType(ctx context.Context, s *session.Session, c client.Client, scan *executionv1.Scan) error {
	local, localErr := installed(ctx, c, &executionv1.ScanTypeList{}, client.InNamespace(scan.Namespace))
	cluster, clusterErr := installed(ctx, c, &executionv1.ClusterScanTypeList{})
	clusterWide := scan.Mode() == executionv1.ClusterWide
	asked, err := local, localErr
	if clusterWide {
		asked, err = cluster, clusterErr
	}
	switch {
	case apierrors.IsForbidden(err):
		return nil
	case err != nil:
		return s.Explain(fmt.Errorf("list scan types: %w", err))
	case slices.Contains(asked, scan.Spec.ScanType):
		return nil
	}
	return unknownType(s.Program, scan, local, cluster)
}

func installed(ctx context.Context, c client.Client, kind client.ObjectList, opts ...client.ListOption) ([]string, error) {
	gvk, err := c.GroupVersionKindFor(kind)
	if err != nil {
		return nil, err
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(gvk)
	if err := c.List(ctx, list, opts...); err != nil {
		return nil, err
	}
	return session.Names(list), nil
}

// maxTypes is how many types a message lists.
const maxTypes = 20

// unknownType says what the user can do about a type that is not installed.
func unknownType(program string, scan *executionv1.Scan, local, cluster []string) error {
	name := scan.Spec.ScanType
	kind, where, here, there := "ScanType", " in namespace "+scan.Namespace, local, cluster
	install := fmt.Sprintf("install it with: helm install %s <charts>/%s --namespace %s", name, name, scan.Namespace)
	other := fmt.Sprintf("there is a ClusterScanType of that name, though: add --cluster-wide, or see: %s get types --cluster-wide", program)
	if scan.Mode() == executionv1.ClusterWide {
		kind, where, here, there = "ClusterScanType", "", cluster, local
		install = fmt.Sprintf("a cluster admin installs it with: helm install %s <charts>/%s --set clusterWide=true", name, name)
		other = "the namespace has a ScanType of that name, though: leave out --cluster-wide"
	}
	text := fmt.Sprintf("there is no %s %q%s; ", kind, name, where)
	switch near := session.Near(name, here); {
	case slices.Contains(there, name):
		return fmt.Errorf("%s%s", text, other)
	case len(near) > 0:
		text += "did you mean " + strings.Join(near, " or ") + "? Otherwise "
	}
	text += install
	if len(here) > 0 {
		return fmt.Errorf("%s (installed: %s)", text, session.Some(here, maxTypes))
	}
	return fmt.Errorf("%s (none is installed)", text)
}
