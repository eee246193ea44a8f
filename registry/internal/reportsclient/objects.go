// SPDX-License-Identifier: Apache-2.0

package reportsclient

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
)

// The resources.
const (
	Images       = "images"
	Repositories = "repositories"
	SBOMs        = "sboms"
	Reports      = "vulnerabilityreports"
	Databases    = "vulnerabilitydatabases"
)

// pageSize is how many objects a list gives at a time.
const pageSize = 500

const mergePatch = "application/merge-patch+json"

// pathOf is where a resource is; namespace is "" for what the cluster has, name for all, part for the object itself.
func pathOf(namespace, resource, name, part string) string {
	parts := []string{"/apis", reportsv1.SchemeGroupVersion.String()}
	if namespace != "" {
		parts = append(parts, "namespaces", namespace)
	}
	for _, further := range []string{resource, name, part} {
		if further != "" {
			parts = append(parts, further)
		}
	}
	return strings.Join(parts, "/")
}

// Get reads an object, and gives the time of the server.
func (c *Client) Get(ctx context.Context, namespace, resource, name string, into any) (time.Time, error) {
	now, err := c.do(ctx, request{method: http.MethodGet, path: pathOf(namespace, resource, name, ""), take: decode(into)})
	return now, about(err, "read", resource, name)
}

// about says what was done. A nil error stays nil.
func about(err error, verb, resource, name string) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s %s: %w", verb, resource, name, err)
}

// List reads all objects that a field selector takes, a page at a time. An error of each ends the list.
func List[T any](ctx context.Context, c *Client, namespace, resource, selector string, each func(*T) error) error {
	query := url.Values{"limit": {strconv.Itoa(pageSize)}}
	if selector != "" {
		query.Set("fieldSelector", selector)
	}
	for {
		var page struct {
			Metadata metav1.ListMeta `json:"metadata"`
			Items    []T             `json:"items"`
		}
		_, err := c.do(ctx, request{method: http.MethodGet, path: pathOf(namespace, resource, "", ""), query: query, take: decode(&page)})
		if apierrors.IsResourceExpired(err) && query.Has("continue") {
			// The list began too long ago to be read to its end. What was given is given again.
			query.Del("continue")
			continue
		}
		if err != nil {
			return about(err, "list", resource, selector)
		}
		for i := range page.Items {
			if err := each(&page.Items[i]); err != nil {
				return err
			}
		}
		if page.Metadata.Continue == "" {
			return nil
		}
		query.Set("continue", page.Metadata.Continue)
	}
}

// Count counts all objects of a namespace.
func (c *Client) Count(ctx context.Context, namespace, resource string) (count int64, err error) {
	var page struct {
		Metadata metav1.ListMeta   `json:"metadata"`
		Items    []json.RawMessage `json:"items"`
	}
	query := url.Values{"limit": {"1"}}
	if _, err = c.do(ctx, request{method: http.MethodGet, path: pathOf(namespace, resource, "", ""), query: query, take: decode(&page)}); err != nil {
		return 0, about(err, "count", resource, namespace)
	}
	count = int64(len(page.Items))
	if more := page.Metadata.RemainingItemCount; more != nil {
		count += *more
	}
	return count, nil
}

// Selector joins fields and values.
func Selector(pairs ...string) string {
	var parts []string
	for i := 0; i+1 < len(pairs); i += 2 {
		value := strings.NewReplacer(`\`, `\\`, ",", `\,`, "=", `\=`).Replace(pairs[i+1])
		parts = append(parts, pairs[i]+"="+value)
	}
	return strings.Join(parts, ",")
}

// Create makes an object; into has what was stored.
func (c *Client) Create(ctx context.Context, namespace, resource string, object metav1.Object, into any) error {
	_, err := c.do(ctx, request{
		method: http.MethodPost, path: pathOf(namespace, resource, "", ""), header: map[string]string{"Content-Type": "application/json"}, body: marshalled(object),
		take: decode(into),
	})
	return about(err, "create", resource, object.GetName())
}

// PatchStatus merges a patch into the status of an object, and gives the time of the server.
func (c *Client) PatchStatus(ctx context.Context, namespace, resource, name string, patch, into any) (time.Time, error) {
	now, err := c.do(ctx, request{
		method: http.MethodPatch, path: pathOf(namespace, resource, name, "status"), header: map[string]string{"Content-Type": mergePatch}, body: marshalled(patch),
		take: decode(into),
	})
	return now, about(err, "change the status of", resource, name)
}

// Delete deletes an object. One that is not there is deleted.
func (c *Client) Delete(ctx context.Context, namespace, resource, name string) error {
	_, err := c.do(ctx, request{method: http.MethodDelete, path: pathOf(namespace, resource, name, "")})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return about(err, "delete", resource, name)
}

// marshalled is a value as a body.
func marshalled(value any) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) {
		data, err := json.Marshal(value)
		if err != nil {
			return nil, fmt.Errorf("encode a call of the reports API: %w", err)
		}
		return io.NopCloser(bytes.NewReader(data)), nil
	}
}
