// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	wgpolicyv1alpha2 "github.com/scanyard/scanyard/apis/wgpolicyk8s/v1alpha2"
	"github.com/scanyard/scanyard/tests/scans"
)

// reported is the name of the scan that the step has reports of.
const reported = "reported"

// reports is step 6: what a team's hook has written is read by the team in its namespace only, and by the cluster's admin in all.
func (st *stage) reports(ctx context.Context) (typed, error) {
	// The kinds are known from the installation: what a server tells of its groups may be out of date for a moment.
	known := client.Options{Scheme: st.admin.Scheme(), Mapper: st.admin.RESTMapper()}
	alice, err := client.NewWithWatch(scans.As(st.config, "alice", "system:authenticated"), known)
	if err != nil {
		return typed{}, fmt.Errorf("connect to the API server as alice: %w", err)
	}
	if _, err := alice.Watch(ctx, reportList()); !apierrors.IsForbidden(err) {
		return typed{}, fmt.Errorf("alice may watch the reports of all namespaces: %w", err)
	}
	events, err := alice.Watch(ctx, reportList(), client.InNamespace(teamA))
	if err != nil {
		return typed{}, fmt.Errorf("watch the reports of %s: %w", teamA, err)
	}
	defer events.Stop()
	// The first that happens is in another namespace: alice must not see it.
	if err := st.admin.Create(ctx, foreignReport()); err != nil {
		return typed{}, fmt.Errorf("write a report in %s: %w", teamB, err)
	}
	o, err := st.finish(ctx, st.alice, teamA, reported, "nmap", "--name", reported, "--wait", "--", "-sV", "-p", st.target.Ports(), st.target.Host)
	if err != nil {
		return o.table, err
	}
	if err := st.sees(ctx, events, reported+"-00"); err != nil {
		return o.table, err
	}
	r, err := st.alice.Run(ctx, "-n", teamA, "reports", "get", "polr", "-o", "wide")
	if err := says(r, err, 0, reported+"-00"); err != nil {
		return typed{}, err
	}
	const question = "severity >= 'info'"
	st.clock.say("$ scanyard reports query -A %q", question)
	r, err = st.root.Run(ctx, "reports", "query", "-A", question)
	answer := typed{fmt.Sprintf("scanyard reports query -A %q", question), r.Out}
	return answer, errors.Join(says(r, err, 0, teamA, teamB, "CVE-2024-3094"))
}

// sees waits for the event of a report of the team's; one of another namespace is an error.
func (st *stage) sees(ctx context.Context, events watch.Interface, name string) error {
	for {
		select {
		case <-ctx.Done():
			return fmt.Errorf("alice's watch has not shown the report %s: %w", name, ctx.Err())
		case e, open := <-events.ResultChan():
			o, ok := e.Object.(*unstructured.Unstructured)
			if !open || !ok {
				return fmt.Errorf("alice's watch has ended with %s: %v", e.Type, e.Object)
			}
			if o.GetNamespace() != teamA {
				return fmt.Errorf("alice's watch shows %s of namespace %s", o.GetName(), o.GetNamespace())
			}
			if o.GetName() == name {
				st.clock.say("%-26s alice's watch shows the report %s, and nothing of other namespaces", teamA, name)
				return nil
			}
		}
	}
}

func reportList() *unstructured.UnstructuredList {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(wgpolicyv1alpha2.SchemeGroupVersion.WithKind("PolicyReportList"))
	return list
}

// foreignReport is what somebody else's tool has written.
func foreignReport() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": wgpolicyv1alpha2.SchemeGroupVersion.String(), "kind": "PolicyReport",
		"metadata": map[string]any{"name": "image-of-shop", "namespace": teamB},
		"summary":  map[string]any{"fail": int64(1)},
		"results": []any{map[string]any{
			"policy": "CVE-2024-3094", "result": "fail", "severity": "critical", "source": "somebody's scanner", "message": "liblzma is not what it was",
		}},
	}}
}
