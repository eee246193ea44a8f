// SPDX-License-Identifier: Apache-2.0

package tenancy

import (
	"context"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/settings"
)

// ListInstalled lists what targets of the patches of a namespace, or, for "", of the cluster may
// refer to.
func ListInstalled(ctx context.Context, reader client.Reader, namespace string) (*settings.Installed, error) {
	k := &settings.Installed{}
	for _, kind := range []struct {
		list  client.ObjectList
		names func(client.ObjectList) []string
		into  *[]string
	}{
		{&executionv1.ScanTypeList{}, scanTypeNames, &k.ScanTypes},
		{&executionv1.ClusterScanTypeList{}, scanTypeNames, &k.ScanTypes},
		{&executionv1.ScanCompletionHookList{}, hookNames, &k.Hooks},
		{&executionv1.ClusterScanCompletionHookList{}, hookNames, &k.Hooks},
	} {
		if err := reader.List(ctx, kind.list, client.InNamespace(namespace)); err != nil {
			return nil, fmt.Errorf("list %T: %w", kind.list, err)
		}
		*kind.into = append(*kind.into, kind.names(kind.list)...)
	}
	for _, names := range []*[]string{&k.ScanTypes, &k.Hooks} {
		slices.Sort(*names)
		*names = slices.Compact(*names)
	}
	return k, nil
}

func scanTypeNames(list client.ObjectList) []string {
	switch l := list.(type) {
	case *executionv1.ScanTypeList:
		return namesOf(l.Items, func(o *executionv1.ScanType) string { return o.Name })
	case *executionv1.ClusterScanTypeList:
		return namesOf(l.Items, func(o *executionv1.ClusterScanType) string { return o.Name })
	}
	return nil
}

func hookNames(list client.ObjectList) []string {
	switch l := list.(type) {
	case *executionv1.ScanCompletionHookList:
		return namesOf(l.Items, func(o *executionv1.ScanCompletionHook) string { return o.Name })
	case *executionv1.ClusterScanCompletionHookList:
		return namesOf(l.Items, func(o *executionv1.ClusterScanCompletionHook) string { return o.Name })
	}
	return nil
}

func namesOf[T any](items []T, name func(*T) string) []string {
	var names []string
	for i := range items {
		names = append(names, name(&items[i]))
	}
	return names
}
