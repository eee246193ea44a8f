// SPDX-License-Identifier: Apache-2.0

package complete

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/apis/resultimport"
	"github.com/scanyard/scanyard/cli/session"
)

// Func is the function that cobra calls for the values of an argument or flag.
type Func = func(cmd *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective)

// patience is how long a shell waits for the cluster.
const patience = 3 * time.Second

// Of completes with the names of the objects of a list's kind.
func Of(s *session.Session, list client.ObjectList) Func {
	return names(s, func(ctx context.Context, c client.Client, namespace string) ([]string, error) {
		return listNames(ctx, s, c, namespace, list)
	})
}

// Scans completes with the Scans of the namespace.
func Scans(s *session.Session) Func { return Of(s, &executionv1.ScanList{}) }

// ScheduledScans completes with the ScheduledScans of the namespace.
func ScheduledScans(s *session.Session) Func { return Of(s, &executionv1.ScheduledScanList{}) }

// ScanTypes completes with the ScanTypes of the namespace, or with the ClusterScanTypes
// where the flag --cluster-wide is given. Only the first argument is completed.
func ScanTypes(s *session.Session) Func {
	local, cluster := Of(s, &executionv1.ScanTypeList{}), Of(s, &executionv1.ClusterScanTypeList{})
	return First(func(cmd *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if f := cmd.Flag("cluster-wide"); f != nil && f.Value.String() == "true" {
			return cluster(cmd, args, toComplete)
		}
		return local(cmd, args, toComplete)
	})
}

// ResultTypes completes with the result types that can be imported: those of ScanTypes called import-TYPE.
func ResultTypes(s *session.Session) Func {
	local := names(s, func(ctx context.Context, c client.Client, namespace string) ([]string, error) {
		types, err := listNames(ctx, s, c, namespace, &executionv1.ScanTypeList{})
		return resultimport.Types(types), err
	})
	cluster := names(s, func(ctx context.Context, c client.Client, namespace string) ([]string, error) {
		types, err := listNames(ctx, s, c, namespace, &executionv1.ClusterScanTypeList{})
		return resultimport.Types(types), err
	})
	return func(cmd *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if f := cmd.Flag("cluster-wide"); f != nil && f.Value.String() == "true" {
			return cluster(cmd, args, toComplete)
		}
		return local(cmd, args, toComplete)
	}
}

// Suspendable completes with Scans, and with ScheduledScans as scheduledscan/NAME.
func Suspendable(s *session.Session) Func {
	return names(s, func(ctx context.Context, c client.Client, namespace string) ([]string, error) {
		scans, err := listNames(ctx, s, c, namespace, &executionv1.ScanList{})
		if err != nil {
			return nil, err
		}
		schedules, err := listNames(ctx, s, c, namespace, &executionv1.ScheduledScanList{})
		for _, name := range schedules {
			scans = append(scans, "scheduledscan/"+name)
		}
		return scans, err
	})
}

// Namespaces completes with the namespaces of the cluster.
func Namespaces(s *session.Session) Func { return Of(s, &corev1.NamespaceList{}) }

// First completes only the first argument.
func First(f Func) Func {
	return func(cmd *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return f(cmd, args, toComplete)
	}
}

func names(s *session.Session, list func(context.Context, client.Client, string) ([]string, error)) Func {
	return func(cmd *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
		ctx := cmd.Context()
		if ctx == nil {
			return nil, cobra.ShellCompDirectiveError
		}
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		c, namespace, err := s.Connect()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		all, err := list(ctx, c, namespace)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return matching(all, args, toComplete), cobra.ShellCompDirectiveNoFileComp
	}
}

// matching are the names that begin with what is typed and are not among the arguments yet.
func matching(all, args []string, toComplete string) []string {
	var out []string
	for _, name := range all {
		if strings.HasPrefix(name, toComplete) && !slices.Contains(args, name) {
			out = append(out, name)
		}
	}
	return out
}

// listNames gets names only: metadata is much less than the objects.
func listNames(ctx context.Context, s *session.Session, c client.Client, namespace string, list client.ObjectList) ([]string, error) {
	gvks, _, err := s.Scheme().ObjectKinds(list)
	if err != nil {
		return nil, err
	}
	gvk := gvks[0]
	found := &metav1.PartialObjectMetadataList{}
	found.SetGroupVersionKind(gvk)
	var opts []client.ListOption
	if namespaced, err := isNamespaced(c, gvk); err == nil && namespaced {
		opts = append(opts, client.InNamespace(namespace))
	}
	if err := c.List(ctx, found, opts...); err != nil {
		return nil, err
	}
	return session.Names(found), nil
}

func isNamespaced(c client.Client, list schema.GroupVersionKind) (bool, error) {
	m, err := c.RESTMapper().RESTMapping(schema.GroupKind{Group: list.Group, Kind: strings.TrimSuffix(list.Kind, "List")}, list.Version)
	if err != nil {
		return false, err
	}
	return m.Scope.Name() == meta.RESTScopeNameNamespace, nil
}
