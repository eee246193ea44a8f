// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	wgpolicyv1alpha2 "github.com/scanyard/scanyard/apis/wgpolicyk8s/v1alpha2"
)

// ReportsNamespace is where tests and demo have the reports API server.
const ReportsNamespace = "scanyard-reports"

// Reports is the release of the reports API server. Its port is one that is free on this machine now, since the pods of
// all local clusters share the machine's network.
func Reports(ctx context.Context) (Release, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", ":0")
	if err != nil {
		return Release{}, fmt.Errorf("find a free port: %w", err)
	}
	address, ok := listener.Addr().(*net.TCPAddr)
	if err := listener.Close(); err != nil || !ok {
		return Release{}, fmt.Errorf("find a free port: %w", errors.Join(err, fmt.Errorf("%T is not an address of TCP", listener.Addr())))
	}
	return Release{Chart: "reports", Namespace: ReportsNamespace, Values: map[string]any{"port": address.Port}}, nil
}

// ReportsReady waits until kube-apiserver sends requests for PolicyReports to the server, and the server answers.
func ReportsReady(ctx context.Context, c client.Client, timeout time.Duration) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, timeout, true, func(ctx context.Context) (bool, error) {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(wgpolicyv1alpha2.SchemeGroupVersion.WithKind("PolicyReportList"))
		last = c.List(ctx, list, client.Limit(1))
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("the reports API server does not answer: %w", errors.Join(err, last))
	}
	return nil
}
