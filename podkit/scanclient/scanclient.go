// SPDX-License-Identifier: Apache-2.0

// Package scanclient gives a program in a scan's pod its Scan, and stores the result of the program.
//
//	operator hands the Scan over:  environment ──► [Handover.Scan]    [Handover.Words] ──► termination message, read by the operator
//	operator hands nothing over:   [Client.Get] ──► the Scan          [Client.PatchStatus] ──► the Scan's status
//
// What it decides:
//
//   - With a Scan that was handed over, no request goes to the Kubernetes API. Under an operator that hands nothing over, such
//     as secureCodeBox's, the program reads and patches one Scan.
//   - Faults that a running cluster mends are retried: an API server that is away or overloaded, conflicts, and for some
//     seconds tokens and roles that were just made and that not all servers know yet.
package scanclient

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/scanyard/scanyard/apis/handover"
	"github.com/scanyard/scanyard/apis/outcome"
	"github.com/scanyard/scanyard/podkit/kubeapi"
	"github.com/scanyard/scanyard/podkit/process"
	"github.com/scanyard/scanyard/podkit/transfer"
)

// Handover is a Scan that the operator has handed over in the environment.
type Handover struct {
	// Scan is the Scan as the operator has seen it, as JSON.
	Scan []byte
	// exceptions is where those are that hold for the Scan; empty where none does.
	exceptions transfer.URL
	// categories is where the counts by category are stored if they do not fit into the termination message.
	categories transfer.URL
}

// FromEnvironment returns the handover in the environment; nil if there is none.
func FromEnvironment(env func(name string) string) *Handover {
	scan := handover.Join(env)
	if scan == nil {
		return nil
	}
	return &Handover{
		Scan: scan, categories: transfer.URL(env(handover.EnvCategoriesURL)), exceptions: transfer.URL(env(handover.EnvExceptionsURL)),
	}
}

// maxExceptions is far above what a namespace and the cluster may have.
const maxExceptions = 64 << 20

var errManyExceptions = errors.New("they are larger than a pod can hold")

// Exceptions reads the exceptions that hold for the Scan, as the operator has decided when it made the pod; nil where none does.
func (h *Handover) Exceptions(ctx context.Context, store *transfer.Client) (text []byte, err error) {
	if h.exceptions == "" {
		return nil, nil
	}
	body, _, err := store.Download(ctx, h.exceptions)
	if err == nil {
		text, err = io.ReadAll(io.LimitReader(body, maxExceptions+1))
		err = errors.Join(err, body.Close())
	}
	if err == nil && len(text) > maxExceptions {
		err = errManyExceptions
	}
	if err != nil {
		return nil, fmt.Errorf("read exceptions: %w", err)
	}
	return text, nil
}

// Words returns the termination message with an outcome. Categories that do not fit into the message are stored before.
func (h *Handover) Words(ctx context.Context, store *transfer.Client, o *outcome.Outcome) ([]byte, error) {
	words, err := o.Encode()
	if !errors.Is(err, outcome.ErrTooLarge) {
		return words, err
	}
	spilt, err := o.Spill()
	if err != nil {
		return nil, fmt.Errorf("count categories: %w", err)
	}
	if spilt != nil {
		open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(spilt)), nil }
		if err := store.Upload(ctx, h.categories, int64(len(spilt)), open, nil); err != nil {
			return nil, fmt.Errorf("store the counts by category: %w", err)
		}
	}
	return o.Encode()
}

// Client reads and patches one Scan.
type Client struct {
	api  *kubeapi.Client
	scan process.Scan
}

// New returns a Client of one Scan.
func New(api *kubeapi.Client, scan process.Scan) *Client { return &Client{api, scan} }

// Get returns the Scan as the API server gives it.
func (c *Client) Get(ctx context.Context) ([]byte, error) {
	scan, err := c.api.Do(ctx, c.path(), kubeapi.Request{Again: again})
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", c, c.explain(err))
	}
	return scan, nil
}

// PatchStatus applies a JSON merge patch to the Scan's status and returns the patched Scan.
func (c *Client) PatchStatus(ctx context.Context, patch []byte) ([]byte, error) {
	scan, err := c.api.Do(ctx, c.path().Join("status"), kubeapi.Request{
		Method: http.MethodPatch, ContentType: string(types.MergePatchType), Body: patch, Again: again,
	})
	if err != nil {
		return nil, fmt.Errorf("write the status of %s: %w", c, c.explain(err))
	}
	return scan, nil
}

// String names the Scan.
func (c *Client) String() string { return "Scan " + c.scan.Namespace + "/" + c.scan.Name }

func (c *Client) path() kubeapi.Path {
	return kubeapi.Path{"apis", "execution.securecodebox.io", "v1", "namespaces", c.scan.Namespace, "scans", c.scan.Name}
}

// fewAttempts bounds the attempts after a refusal: rights that are still missing after some seconds will not come.
const fewAttempts = 5

// again reports errors that a running cluster mends, besides outages. A merge patch has no precondition, so a conflict is
// the API server's own.
func again(err error, attempts int) bool {
	if apierrors.IsUnauthorized(err) || apierrors.IsForbidden(err) {
		return attempts < fewAttempts
	}
	return apierrors.IsConflict(err)
}

// explain adds a remedy.
func (c *Client) explain(err error) error {
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("%w (it was deleted, or the custom resource definitions are not installed)", err)
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return fmt.Errorf("%w (check the RoleBinding of the pod's ServiceAccount in namespace %s)", err, c.scan.Namespace)
	}
	return err
}
