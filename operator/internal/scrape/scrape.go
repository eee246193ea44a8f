// SPDX-License-Identifier: Apache-2.0

// Package scrape decides which clients may read the metrics: those whose token the API server knows, and
// which it allows to get the path, as the filters of controller-runtime do. Those filters need the API
// server's own libraries, which are as large as the rest of the operator.
package scrape

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const (
	// reviewsKept and reviewedFor bound how often the API server reviews one token.
	reviewsKept = 64
	reviewedFor = 10 * time.Second
	// longestToken bounds what is sent on.
	longestToken = 16 << 10
	// askTimeout bounds the two questions about one request.
	askTimeout = 10 * time.Second
)

// question is the key of a review.
type question struct {
	token [sha256.Size]byte
	path  string
}

// guard asks the API server.
type guard struct {
	kube    kubernetes.Interface
	reviews *cache.LRUExpireCache
}

// NewFilter is a metricsserver.Options.FilterProvider.
func NewFilter(config *rest.Config, client *http.Client) (metricsserver.Filter, error) {
	kube, err := kubernetes.NewForConfigAndClient(config, client)
	if err != nil {
		return nil, fmt.Errorf("make a client for who reads metrics: %w", err)
	}
	g := &guard{kube: kube, reviews: cache.NewLRUExpireCache(reviewsKept)}
	return func(log logr.Logger, next http.Handler) (http.Handler, error) {
		return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			ctx, cancel := context.WithTimeout(req.Context(), askTimeout)
			defer cancel()
			status, err := g.ask(ctx, req)
			if err != nil {
				log.Error(err, "Ask the API server who reads metrics")
			}
			if status != http.StatusOK {
				http.Error(w, http.StatusText(status), status)
				return
			}
			next.ServeHTTP(w, req)
		}), nil
	}, nil
}

// ask returns the status of the response; 200 lets the request through.
func (g *guard) ask(ctx context.Context, req *http.Request) (int, error) {
	kind, token, _ := strings.Cut(req.Header.Get("Authorization"), " ")
	if !strings.EqualFold(kind, "Bearer") || token == "" || len(token) > longestToken {
		return http.StatusUnauthorized, nil
	}
	if req.Method != http.MethodGet && req.Method != http.MethodHead {
		return http.StatusMethodNotAllowed, nil
	}
	q := question{sha256.Sum256([]byte(token)), req.URL.Path}
	if known, ok := g.reviews.Get(q); ok {
		if status, ok := known.(int); ok {
			return status, nil
		}
	}
	status, err := g.review(ctx, token, q.path)
	if err != nil {
		return http.StatusInternalServerError, err
	}
	g.reviews.Add(q, status, reviewedFor)
	return status, nil
}

// review has the API server say whose a token is and whether they may get a path.
func (g *guard) review(ctx context.Context, token, path string) (int, error) {
	who, err := g.kube.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token},
	}, metav1.CreateOptions{})
	if err != nil {
		return 0, fmt.Errorf("review a token: %w", err)
	}
	if !who.Status.Authenticated {
		return http.StatusUnauthorized, nil
	}
	u := who.Status.User
	extra := map[string]authorizationv1.ExtraValue{}
	for k, v := range u.Extra {
		extra[k] = authorizationv1.ExtraValue(v)
	}
	may, err := g.kube.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{
			User: u.Username, UID: u.UID, Groups: u.Groups, Extra: extra,
			NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: path, Verb: "get"},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return 0, fmt.Errorf("review the right to get %s: %w", path, err)
	}
	if !may.Status.Allowed {
		return http.StatusForbidden, nil
	}
	return http.StatusOK, nil
}
