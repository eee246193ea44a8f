// SPDX-License-Identifier: Apache-2.0

// Package reportsapi deletes the reports of a Scan, of every kind that the cluster serves.
package reportsapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
)

// groups are those of reports.
var groups = []string{"wgpolicyk8s.io", "openreports.io", "reports.scanyard.io"}

// notReports are kinds of these groups that are the state of a registry or of a scanner, and never of a Scan: the forwarder
// needs no right to delete them.
var notReports = []string{"repositories", "vulnerabilitydatabases"}

const (
	// rounds bound how often what is left is deleted again.
	rounds    = 10
	roundWait = 500 * time.Millisecond
	// maxDocument bounds what is read of discovery.
	maxDocument = 1 << 20
)

// Client deletes reports. It is safe for concurrent use.
type Client struct {
	http   *http.Client
	host   *url.URL
	client dynamic.Interface
}

// New makes a Client.
func New(config *rest.Config) (*Client, error) {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	plain, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	host, _, err := rest.DefaultServerURL(config.Host, config.APIPath, schema.GroupVersion{}, true)
	if err != nil {
		return nil, err
	}
	return &Client{http: plain, host: host, client: client}, nil
}

// get reads one document of discovery.
func (c *Client) get(ctx context.Context, path string, into any) (err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.host.JoinPath(path).String(), http.NoBody)
	if err != nil {
		return err
	}
	request.Header.Set("Accept", "application/json")
	response, err := c.http.Do(request)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, response.Body.Close()) }()
	if response.StatusCode != http.StatusOK {
		return apierrors.NewGenericServerResponse(response.StatusCode, "get", schema.GroupResource{}, path, "", 0, true)
	}
	return json.NewDecoder(io.LimitReader(response.Body, maxDocument)).Decode(into)
}

// Delete deletes the reports that carry the UID of a Scan, until there are none. A group that is not installed has none; one
// that does not answer is an error.
func (c *Client) Delete(ctx context.Context, namespace, uid string) error {
	for _, group := range groups {
		kinds, err := c.kinds(ctx, group)
		if err != nil {
			return fmt.Errorf("see which reports of %s there are: %w", group, err)
		}
		for _, kind := range kinds {
			if err := c.empty(ctx, kind, namespace, uid); err != nil {
				return fmt.Errorf("delete %s of %s: %w", kind.resource.Resource, group, err)
			}
		}
	}
	return nil
}

type kind struct {
	resource   schema.GroupVersionResource
	namespaced bool
}

// kinds are those of a group, in its preferred version, that can be deleted by a label.
func (c *Client) kinds(ctx context.Context, group string) ([]kind, error) {
	var served metav1.APIGroup
	err := c.get(ctx, "/apis/"+group, &served)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	version, err := schema.ParseGroupVersion(served.PreferredVersion.GroupVersion)
	if err != nil {
		return nil, err
	}
	var list metav1.APIResourceList
	if err := c.get(ctx, "/apis/"+version.String(), &list); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, errors.New("the group is there, and its version is not: its server does not answer") // not to be taken for a group that is not installed
		}
		return nil, err
	}
	var kinds []kind
	for i := range list.APIResources {
		r := &list.APIResources[i]
		if slices.Contains(r.Verbs, "deletecollection") && slices.Contains(r.Verbs, "list") && !strings.Contains(r.Name, "/") &&
			!slices.Contains(notReports, r.Name) {
			kinds = append(kinds, kind{version.WithResource(r.Name), r.Namespaced})
		}
	}
	return kinds, nil
}

// empty deletes and lists until nothing is left.
func (c *Client) empty(ctx context.Context, k kind, namespace, uid string) error {
	var of dynamic.ResourceInterface = c.client.Resource(k.resource)
	if k.namespaced {
		of = c.client.Resource(k.resource).Namespace(namespace)
	}
	these := metav1.ListOptions{LabelSelector: labels.SelectorFromSet(labels.Set{executionv1.LabelScanUID: uid}).String(), Limit: 1}
	for range rounds {
		left, err := of.List(ctx, these)
		if err != nil {
			return err
		}
		if len(left.Items) == 0 {
			return nil
		}
		if err := of.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: these.LabelSelector}); err != nil {
			return err
		}
		if left, err = of.List(ctx, these); err != nil || len(left.Items) == 0 {
			return err
		}
		select { // what has a finalizer takes a moment
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(roundWait):
		}
	}
	return errors.New("some are still there after they were deleted: do they have finalizers?")
}
