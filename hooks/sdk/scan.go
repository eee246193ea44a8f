// SPDX-License-Identifier: Apache-2.0

package sdk

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/scanyard/scanyard/hooks/sdk/kubeapi"
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

// scanClient reaches one Scan.
type scanClient struct {
	api             *kubeapi.Client
	namespace, name string
}

// NewScanClient makes a client for one Scan. An API server that does not answer, or asks to come back later, is tried
// again for as long as patience says.
func NewScanClient(config *rest.Config, namespace, name string, patience time.Duration) (ScanClient, error) {
	api, err := kubeapi.New(config, "scanyard-hook", patience)
	if err != nil {
		return nil, err
	}
	return &scanClient{api: api, namespace: namespace, name: name}, nil
}

func (c *scanClient) path() string {
	return "/apis/execution.securecodebox.io/v1/namespaces/" + c.namespace + "/scans/" + c.name
}

// Get returns the Scan as the API server gives it.
func (c *scanClient) Get(ctx context.Context) (json.RawMessage, error) {
	text, err := c.api.Do(ctx, func(r rest.Interface) *rest.Request { return r.Get().AbsPath(c.path()) })
	if err != nil {
		return nil, fmt.Errorf("get Scan %s/%s: %w", c.namespace, c.name, err)
	}
	return text, nil
}

// PatchStatus merges a patch into the status of the Scan.
func (c *scanClient) PatchStatus(ctx context.Context, patch []byte) error {
	_, err := c.api.Do(ctx, func(r rest.Interface) *rest.Request {
		return r.Patch(types.MergePatchType).AbsPath(c.path() + "/status").Body(patch)
	})
	if err != nil {
		return fmt.Errorf("patch status of Scan %s/%s: %w", c.namespace, c.name, err)
	}
	return nil
}
