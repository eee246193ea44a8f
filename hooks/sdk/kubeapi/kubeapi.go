// SPDX-License-Identifier: Apache-2.0

package kubeapi

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
)

// ErrAway wraps the last error of an API server that was not there for as long as it was waited for.
var ErrAway = errors.New("the API server does not answer")

// Client asks the API server.
type Client struct {
	rest     rest.Interface
	patience time.Duration
}

// New returns a Client. Its name shows as the manager of the fields that it writes. An API server that does not answer,
// or asks to come back later, is tried again for as long as patience says, for each request.
func New(config *rest.Config, name string, patience time.Duration) (*Client, error) {
	config = rest.CopyConfig(config)
	config.GroupVersion, config.APIPath = &schema.GroupVersion{}, "/apis"
	config.NegotiatedSerializer = serializer.NewCodecFactory(runtime.NewScheme()).WithoutConversion()
	config.UserAgent = name
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	// Requests of a hook come one after another, which is pace enough.
	config.QPS = -1
	if config.Timeout == 0 {
		config.Timeout = 30 * time.Second
	}
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("make Kubernetes client: %w", err)
	}
	return &Client{rest: client, patience: patience}, nil
}

// Do makes a request, which must be safe to repeat, until there is an answer that asking again would not change.
// Refusals are those of package api/errors, with the API server's own words.
func (c *Client) Do(ctx context.Context, request func(rest.Interface) *rest.Request) ([]byte, error) {
	limit, cancel := context.WithTimeout(ctx, c.patience)
	defer cancel()
	backoff := wait.Backoff{Duration: 250 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 16, Cap: 15 * time.Second}
	for {
		body, err := answer(request(c.rest).Do(ctx).Raw())
		if err == nil || !mayPass(err) {
			return body, err
		}
		timer := time.NewTimer(backoff.Step())
		select {
		case <-timer.C:
		case <-limit.Done():
			timer.Stop()
			return nil, fmt.Errorf("%w: %w", ErrAway, err)
		}
	}
}

// answer prefers the API server's own words, which a raw answer carries in its body, to the client's guess.
func answer(body []byte, err error) ([]byte, error) {
	var status metav1.Status
	if err == nil || json.Unmarshal(body, &status) != nil || status.Status != metav1.StatusFailure {
		return body, err
	}
	return nil, &apierrors.StatusError{ErrStatus: status}
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
	return apierrors.IsTooManyRequests(err) || status.Status().Code >= http.StatusInternalServerError
}
