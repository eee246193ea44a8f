// SPDX-License-Identifier: Apache-2.0

package cascading

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"

	"github.com/scanyard/scanyard/apis/finding"
)

// userAgent shows as the manager of the fields that this hook writes.
const userAgent = "scanyard-cascading-scans"

const (
	executionAPI = "/apis/execution.securecodebox.io/v1"
	cascadingAPI = "/apis/cascading.securecodebox.io/v1"
	// pageSize is how many objects are asked for at once.
	pageSize = "250"
	// metadataOnly asks for objects without their content.
	metadataOnly = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
)

// errAway wraps errors of an API server that was not there for as long as was waited for it.
var errAway = errors.New("the API server does not answer")

// cluster reaches the API server. Objects are JSON as it stands, so that no value in a rule can spoil a list of rules.
type cluster struct {
	rest      rest.Interface
	namespace string
	backoff   wait.Backoff
}

// newCluster makes a client. An API server that is away is tried again for about a minute for each call; the hook's Job comes again.
func newCluster(config *rest.Config, namespace string) (*cluster, error) {
	config = rest.CopyConfig(config)
	config.GroupVersion = &schema.GroupVersion{}
	config.APIPath = "/apis"
	config.NegotiatedSerializer = serializer.NewCodecFactory(runtime.NewScheme()).WithoutConversion()
	config.UserAgent = userAgent
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	// Children are created one after another, which is pace enough.
	config.QPS = -1
	if config.Timeout == 0 {
		config.Timeout = 30 * time.Second
	}
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("make Kubernetes client: %w", err)
	}
	return &cluster{
		rest: client, namespace: namespace,
		backoff: wait.Backoff{Duration: 250 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 9},
	}, nil
}

// inNamespace is the path of a kind in the Scan's namespace.
func (c *cluster) inNamespace(api, resource string) string {
	return api + "/namespaces/" + c.namespace + "/" + resource
}

// get returns an object; nil if there is none.
func (c *cluster) get(ctx context.Context, path string) (finding.Object, error) {
	object, err := c.call(ctx, func() *rest.Request { return c.rest.Get().AbsPath(path) })
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return object, err
}

// list returns all objects that a label selector selects, in the order of the API server: by name.
func (c *cluster) list(ctx context.Context, path, selector, accept string) ([]finding.Object, error) {
	var all []finding.Object
	for next := ""; ; {
		page, err := c.call(ctx, func() *rest.Request {
			r := c.rest.Get().AbsPath(path).Param("limit", pageSize)
			if selector != "" {
				r = r.Param("labelSelector", selector)
			}
			if next != "" {
				r = r.Param("continue", next)
			}
			if accept != "" {
				r = r.SetHeader("Accept", accept)
			}
			return r
		})
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
		if next, _ = objectAt(page, "metadata").Text("continue").Get(); next == "" {
			return all, nil
		}
	}
}

// create makes an object. Its name is given, so trying again does no harm.
func (c *cluster) create(ctx context.Context, path string, object finding.Object) error {
	body, err := finding.AppendValue(nil, object)
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	_, err = c.call(ctx, func() *rest.Request { return c.rest.Post().AbsPath(path).Body(body) })
	return err
}

// apply writes the given fields and leaves those of others alone.
func (c *cluster) apply(ctx context.Context, path string, object finding.Object) error {
	body, err := finding.AppendValue(nil, object)
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	_, err = c.call(ctx, func() *rest.Request {
		return c.rest.Patch(types.ApplyYAMLPatchType).AbsPath(path).
			Param("fieldManager", userAgent).Param("force", "true").Body(body)
	})
	return err
}

// call asks until there is an answer that asking again would not change.
func (c *cluster) call(ctx context.Context, request func() *rest.Request) (finding.Object, error) {
	backoff := c.backoff
	for {
		object, err := answer(request().Do(ctx).Raw())
		if err == nil || !mayPass(ctx, err) {
			return object, err
		}
		if backoff.Steps <= 1 {
			return nil, fmt.Errorf("%w: %w", errAway, err)
		}
		timer := time.NewTimer(backoff.Step())
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, fmt.Errorf("%w: %w", errAway, err)
		}
	}
}

// answer prefers the API server's own words, which a raw answer carries in its body, to the client's guess.
func answer(body []byte, err error) (finding.Object, error) {
	value, decodeErr := finding.DecodeValue(body, 0)
	object, _ := value.(finding.Object)
	if err != nil {
		if kind, _ := object.Text("kind").Get(); kind != "Status" {
			return nil, err
		}
		reason, _ := object.Text("reason").Get()
		message, _ := object.Text("message").Get()
		code, _ := object.Get("code")
		number, _ := code.(float64)
		return nil, &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Reason: metav1.StatusReason(reason), Message: message, Code: int32(number),
		}}
	}
	if decodeErr != nil {
		return nil, fmt.Errorf("read the API server's answer: %w", decodeErr)
	}
	return object, nil
}

// mayPass says whether an error can go away by itself.
func mayPass(ctx context.Context, err error) bool {
	if ctx.Err() != nil {
		return false
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return !strings.Contains(err.Error(), "x509:") // no answer at all; a wrong certificate stays wrong
	}
	code := status.Status().Code
	return code == http.StatusTooManyRequests || code >= http.StatusInternalServerError
}

func objectAt(o finding.Object, key string) finding.Object {
	value, _ := o.Get(key)
	object, _ := value.(finding.Object)
	return object
}
