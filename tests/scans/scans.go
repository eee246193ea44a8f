// SPDX-License-Identifier: Apache-2.0

package scans

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cascadingv1 "github.com/scanyard/scanyard/apis/cascading/v1"
	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/apis/finding"
	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
)

// Connect returns a client that knows the kinds of Kubernetes and ours.
func Connect(cfg *rest.Config) (client.WithWatch, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, executionv1.AddToScheme, cascadingv1.AddToScheme, settingsv1alpha2.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	c, err := client.NewWithWatch(cfg, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("connect to the API server: %w", err)
	}
	return c, nil
}

// As returns a configuration that acts as another user.
func As(cfg *rest.Config, user string, groups ...string) *rest.Config {
	out := rest.CopyConfig(cfg)
	out.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: groups}
	return out
}

// New builds a Scan.
func New(namespace, name, scanType string, parameters ...string) *executionv1.Scan {
	if parameters == nil {
		parameters = []string{} // required, and may be empty
	}
	return &executionv1.Scan{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       executionv1.ScanSpec{ScanType: scanType, Parameters: parameters},
	}
}

// NewClusterWide builds a Scan that uses the Cluster* kinds.
func NewClusterWide(namespace, name, scanType string, parameters ...string) *executionv1.Scan {
	s := New(namespace, name, scanType, parameters...)
	mode := executionv1.ClusterWide
	s.Spec.ResourceMode = &mode
	return s
}

// Ready is the condition that sums the Scan up; the zero condition where there is none yet.
func Ready(s *executionv1.Scan) metav1.Condition {
	if s == nil {
		return metav1.Condition{}
	}
	if c := meta.FindStatusCondition(s.Status.Conditions, executionv1.ConditionReady); c != nil {
		return *c
	}
	return metav1.Condition{}
}

// Count is the number of findings that the status tells.
func Count(s *executionv1.Scan) int64 {
	if s.Status.Findings.Count == nil {
		return 0
	}
	return *s.Status.Findings.Count
}

// Findings downloads the findings through the link in the Scan's status.
func Findings(ctx context.Context, s *executionv1.Scan) (findings []finding.Finding, err error) {
	if s.Status.FindingDownloadLink == "" {
		return nil, fmt.Errorf("scan %s/%s has no status.findingDownloadLink", s.Namespace, s.Name)
	}
	body, err := download(ctx, s.Status.FindingDownloadLink)
	if err != nil {
		return nil, fmt.Errorf("download findings of %s/%s: %w", s.Namespace, s.Name, err)
	}
	defer func() { err = errors.Join(err, body.Close()) }()
	r := finding.NewReader(body, finding.Limits{})
	for {
		raw, err := r.Next()
		if errors.Is(err, io.EOF) {
			return findings, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read findings of %s/%s: %w", s.Namespace, s.Name, err)
		}
		var f finding.Finding
		if err := f.UnmarshalJSON(raw); err != nil {
			return nil, fmt.Errorf("read findings of %s/%s: %w", s.Namespace, s.Name, err)
		}
		findings = append(findings, f)
	}
}

// download gets a presigned URL. Errors do not repeat it: its query is a credential.
func download(ctx context.Context, url string) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, errors.New("the link is not a URL")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, errors.Unwrap(err) // without the URL that *url.Error adds
	}
	if resp.StatusCode != http.StatusOK {
		return nil, errors.Join(fmt.Errorf("the storage answers %s", resp.Status), resp.Body.Close())
	}
	return resp.Body, nil
}
