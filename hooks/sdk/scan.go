// SPDX-License-Identifier: Apache-2.0

package sdk

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
)

// Scan is the Scan a hook runs for, as it was when the hook started.
type Scan struct {
	// Raw is the object as the API server gave it, for hooks that hand it on.
	Raw json.RawMessage

	Metadata struct {
		Name        string            `json:"name"`
		Namespace   string            `json:"namespace"`
		UID         string            `json:"uid"`
		Labels      map[string]string `json:"labels"`
		Annotations map[string]string `json:"annotations"`
	} `json:"metadata"`
	Spec struct {
		ScanType   string   `json:"scanType"`
		Parameters []string `json:"parameters"`
	} `json:"spec"`
	Status struct {
		State         string `json:"state"`
		RawResultType string `json:"rawResultType"`
		Findings      struct {
			Categories map[string]int64 `json:"categories"`
		} `json:"findings"`
	} `json:"status"`
}

// ParseScan reads the fields a hook needs and keeps the whole text.
func ParseScan(text json.RawMessage) (*Scan, error) {
	s := &Scan{Raw: text}
	if err := json.Unmarshal(text, s); err != nil {
		return nil, fmt.Errorf("read Scan: %w", err)
	}
	return s, nil
}

// failed says whether the Scan is Errored. Hooks run for such Scans where their runOn says so.
func (s *Scan) failed() bool { return s.Status.State == "Errored" }

// ScanClient is what a session needs of the Kubernetes API. Its errors mean that trying again now is of no use.
type ScanClient interface {
	// Get returns the Scan as the API server gave it.
	Get(ctx context.Context) (json.RawMessage, error)
	// PatchStatus applies a JSON merge patch to the Scan's status subresource.
	PatchStatus(ctx context.Context, patch []byte) error
}

// scanClient reaches one Scan and outlasts outages of the API server.
type scanClient struct {
	rest            rest.Interface
	namespace, name string
	patience        time.Duration
}

// NewScanClient makes a client for one Scan. An API server that does not answer, or asks to come back later, is tried
// again for as long as patience says.
func NewScanClient(config *rest.Config, namespace, name string, patience time.Duration) (ScanClient, error) {
	config = rest.CopyConfig(config)
	config.GroupVersion = &schema.GroupVersion{Group: "execution.securecodebox.io", Version: "v1"}
	config.APIPath = "/apis"
	// Objects stay the bytes they are, so there is no kind to know.
	config.NegotiatedSerializer = serializer.NewCodecFactory(runtime.NewScheme()).WithoutConversion()
	config.UserAgent = "scanyard-hook" // shows as the manager of the fields it writes
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	if config.Timeout == 0 {
		config.Timeout = 30 * time.Second
	}
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("make Kubernetes client: %w", err)
	}
	return &scanClient{rest: client, namespace: namespace, name: name, patience: patience}, nil
}

// Get returns the Scan as the API server gives it.
func (c *scanClient) Get(ctx context.Context) (json.RawMessage, error) {
	var text json.RawMessage
	err := c.retry(ctx, func(ctx context.Context) (err error) {
		text, err = answer(c.rest.Get().Namespace(c.namespace).Resource("scans").Name(c.name).Do(ctx).Raw())
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("get Scan %s/%s: %w", c.namespace, c.name, err)
	}
	return text, nil
}

// PatchStatus merges a patch into the status of the Scan.
func (c *scanClient) PatchStatus(ctx context.Context, patch []byte) error {
	err := c.retry(ctx, func(ctx context.Context) error {
		_, err := answer(c.rest.Patch(types.MergePatchType).Namespace(c.namespace).Resource("scans").Name(c.name).
			SubResource("status").Body(patch).Do(ctx).Raw())
		return err
	})
	if err != nil {
		return fmt.Errorf("patch status of Scan %s/%s: %w", c.namespace, c.name, err)
	}
	return nil
}

// answer prefers the API server's own words, which a raw answer carries in its body, to the client's guess.
func answer(body []byte, err error) ([]byte, error) {
	var status metav1.Status
	if err == nil || json.Unmarshal(body, &status) != nil || status.Status != metav1.StatusFailure {
		return body, err
	}
	return nil, &apierrors.StatusError{ErrStatus: status}
}

// retry repeats a call, which must be safe to repeat, while the API server is away.
func (c *scanClient) retry(ctx context.Context, call func(context.Context) error) error {
	limit, cancel := context.WithTimeout(ctx, c.patience)
	defer cancel()
	backoff := wait.Backoff{Duration: 250 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 16, Cap: 15 * time.Second}
	for {
		err := call(ctx)
		if err == nil || !mayPass(err) {
			return err
		}
		timer := time.NewTimer(backoff.Step())
		select {
		case <-timer.C:
		case <-limit.Done():
			timer.Stop()
			return err
		}
	}
}

// mayPass says whether an error of the API can go away by itself.
func mayPass(err error) bool {
	if errors.Is(err, context.Canceled) {
		return false
	}
	if unknown, invalid, host := new(x509.UnknownAuthorityError), new(x509.CertificateInvalidError), new(x509.HostnameError); errors.As(err, unknown) || errors.As(err, invalid) || errors.As(err, host) {
		return false
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return true // no answer at all
	}
	return apierrors.IsTooManyRequests(err) || status.Status().Code >= 500
}
