// SPDX-License-Identifier: Apache-2.0

package cascading

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/podkit/kubeapi"
)

// userAgent shows as the manager of the fields that this hook writes.
const userAgent = "scanyard-cascading-scans"

// Where kinds are on the API server.
var (
	executionAPI = kubeapi.Path{"apis", "execution.securecodebox.io", "v1"}
	cascadingAPI = kubeapi.Path{"apis", "cascading.securecodebox.io", "v1"}
)

const (
	// pageSize is how many objects are requested at once.
	pageSize = "250"
	// metadataOnly asks for objects without their content.
	metadataOnly = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
)

// patience is how long an API server that is away is waited for with each request; the hook's Job comes again.
const patience = time.Minute

// cluster reaches the API server. Objects are unparsed JSON, so that no value in a rule can spoil a list of rules.
type cluster struct {
	api       *kubeapi.Client
	namespace string
}

func newCluster(config *rest.Config, namespace string) (*cluster, error) {
	api, err := kubeapi.New(config, userAgent, kubeapi.Policy(patience))
	if err != nil {
		return nil, err
	}
	return &cluster{api: api, namespace: namespace}, nil
}

// inNamespace is the path of a kind in the Scan's namespace.
func (c *cluster) inNamespace(api kubeapi.Path, resource string) kubeapi.Path {
	return api.Join("namespaces", c.namespace, resource)
}

// get returns an object; nil if there is none.
func (c *cluster) get(ctx context.Context, path kubeapi.Path) (finding.Object, error) {
	object, err := c.call(ctx, path, kubeapi.Request{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return object, err
}

// list returns all objects that a label selector selects, in the order of the API server: by name.
func (c *cluster) list(ctx context.Context, path kubeapi.Path, selector, accept string) ([]finding.Object, error) {
	var all []finding.Object
	query := url.Values{"limit": {pageSize}}
	if selector != "" {
		query.Set("labelSelector", selector)
	}
	for {
		page, err := c.call(ctx, path, kubeapi.Request{Query: query, Accept: accept})
		if err != nil {
			return nil, err
		}
		items, _ := page.Get("items")
		list, _ := items.([]any)
		for _, item := range list {
			if object, ok := item.(finding.Object); ok {
				all = append(all, object)
			}
		}
		next, _ := objectAt(page, "metadata").Text("continue").Get()
		if next == "" {
			return all, nil
		}
		query.Set("continue", next)
	}
}

// create makes an object. Its name is given, so trying again does no harm.
func (c *cluster) create(ctx context.Context, path kubeapi.Path, object finding.Object) error {
	body, err := finding.AppendValue(nil, object)
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	_, err = c.call(ctx, path, kubeapi.Request{Method: http.MethodPost, Body: body})
	return err
}

// apply writes the given fields and leaves the fields of other clients alone.
func (c *cluster) apply(ctx context.Context, path kubeapi.Path, object finding.Object) error {
	body, err := finding.AppendValue(nil, object)
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	_, err = c.call(ctx, path, kubeapi.Request{
		Method: http.MethodPatch, ContentType: string(types.ApplyYAMLPatchType), Body: body,
		Query: url.Values{"fieldManager": {userAgent}, "force": {"true"}},
	})
	return err
}

// call makes a request and reads the object that it is answered with.
func (c *cluster) call(ctx context.Context, path kubeapi.Path, request kubeapi.Request) (finding.Object, error) {
	body, err := c.api.Do(ctx, path, request)
	if err != nil {
		return nil, err
	}
	value, err := finding.DecodeValue(body, 0)
	if err != nil {
		return nil, fmt.Errorf("read the API server's response: %w", err)
	}
	object, _ := value.(finding.Object)
	return object, nil
}

func objectAt(o finding.Object, key string) finding.Object {
	value, _ := o.Get(key)
	object, _ := value.(finding.Object)
	return object
}
