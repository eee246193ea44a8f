// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cascadingv1 "github.com/scanyard/scanyard/apis/cascading/v1"
	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	registryv1alpha1 "github.com/scanyard/scanyard/apis/registry/v1alpha1"
	reportsv1alpha1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	wgpolicyv1alpha2 "github.com/scanyard/scanyard/apis/wgpolicyk8s/v1alpha2"
	"github.com/scanyard/scanyard/console/internal/session"
	"github.com/scanyard/scanyard/podkit/transfer"
)

// Options are how a Cluster is reached.
type Options struct {
	// Config reaches the API server. With Own its credentials are the viewer's. Without, it names the server only, and its
	// credentials are used for viewers whom a proxy has signed in: they must be allowed to impersonate them.
	Config *rest.Config
	Own    bool
	// Namespace is where a viewer looks who may list no namespaces and has chosen none.
	Namespace string
	// StorageHosts are the hosts of object storage. Empty: those that the links of several Scans lead to, with Own; none without it, as the
	// console stands in the cluster then, and reaches what its viewers do not.
	StorageHosts []string
	Now          func() time.Time
}

// Cluster makes Viewers.
type Cluster struct {
	options  Options
	scheme   *runtime.Scheme
	transfer *transfer.Client
	own      *Viewer
	shared   *shared

	mu      sync.Mutex
	viewers map[[sha256.Size]byte]*Viewer
	order   [][sha256.Size]byte // the oldest first
}

// maxViewers is how many viewers are remembered; the oldest is forgotten first.
const maxViewers = 512

// storagePatience is how long object storage may fail while somebody waits for a page.
const storagePatience = 5 * time.Second

// New makes a Cluster. It calls nobody yet.
func New(o Options) (*Cluster, error) {
	scheme, err := Scheme()
	if err != nil {
		return nil, err
	}
	c := &Cluster{options: o, scheme: scheme, viewers: map[[sha256.Size]byte]*Viewer{}, shared: &shared{now: o.Now}}
	if c.transfer, err = transfer.New(transfer.WithPatience(storagePatience)); err != nil {
		return nil, fmt.Errorf("prepare downloads: %w", err)
	}
	if o.Own {
		if c.own, err = c.connect(o.Config); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// ErrSignIn says that nobody has signed in.
var ErrSignIn = errors.New("sign in first")

// As is the Viewer of a session.
func (c *Cluster) As(s *session.Session) (*Viewer, error) {
	if c.own != nil {
		return c.own, nil
	}
	config, key, err := c.as(s)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if v := c.viewers[key]; v != nil {
		return v, nil
	}
	v, err := c.connect(config)
	if err != nil {
		return nil, err
	}
	if len(c.order) == maxViewers {
		delete(c.viewers, c.order[0])
		c.order = c.order[1:]
	}
	c.viewers[key], c.order = v, append(c.order, key)
	return v, nil
}

// as is how the API server is asked for a session, and a key of that: sessions with one key have the same rights.
func (c *Cluster) as(s *session.Session) (*rest.Config, [sha256.Size]byte, error) {
	switch {
	case s.Identity != nil:
		who := s.Identity
		text, err := json.Marshal(who)
		if err != nil {
			return nil, [sha256.Size]byte{}, fmt.Errorf("identify viewer: %w", err)
		}
		config := rest.CopyConfig(c.options.Config)
		config.Impersonate = rest.ImpersonationConfig{UserName: who.User, Groups: who.Groups, Extra: who.Extra}
		return config, sha256.Sum256(append([]byte("identity "), text...)), nil
	case s.Token != "":
		config := rest.AnonymousClientConfig(c.options.Config)
		config.BearerToken = s.Token
		return config, sha256.Sum256([]byte("token " + s.Token)), nil
	}
	return nil, [sha256.Size]byte{}, ErrSignIn
}

// Check says who a token belongs to, in the API server's words.
func (c *Cluster) Check(ctx context.Context, token string) (user string, err error) {
	if token == "" || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return "", ErrSignIn // no token has such characters, and no header takes them
	}
	config := rest.AnonymousClientConfig(c.options.Config)
	config.BearerToken, config.UserAgent = token, userAgent
	client, err := authenticationclient.NewForConfig(config)
	if err != nil {
		return "", fmt.Errorf("connect to the API server: %w", err)
	}
	review, err := client.SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("ask the API server who this is: %w", err)
	}
	return review.Status.UserInfo.Username, nil
}

// IsRefused says whether the API server has refused who asks, rather than failed.
func IsRefused(err error) bool {
	return errors.Is(err, ErrSignIn) || apierrors.IsUnauthorized(err) || apierrors.IsForbidden(err)
}

const userAgent = "scanyard-console"

func (c *Cluster) connect(config *rest.Config) (*Viewer, error) {
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = -1, -1 // the API server's own fairness decides
	config.UserAgent = userAgent
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return counting{next} })
	objects, err := client.NewWithWatch(config, client.Options{Scheme: c.scheme, Mapper: mapperOf(c.scheme)})
	if err != nil {
		return nil, fmt.Errorf("connect to the API server: %w", err)
	}
	logs, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connect to the API server: %w", err)
	}
	v := NewViewer(ViewerOptions{
		Objects: objects, Logs: logs, Stream: streamOf(logs.CoreV1().RESTClient()), Transfer: c.transfer,
		Namespace: c.options.Namespace, StorageHosts: c.options.StorageHosts, KnownStorage: !c.options.Own, Now: c.options.Now,
	})
	v.shared = c.shared
	return v, nil
}

// streamOf reads from the API server with the credentials of a client.
func streamOf(c rest.Interface) func(context.Context, string, url.Values) (io.ReadCloser, error) {
	return func(ctx context.Context, path string, query url.Values) (io.ReadCloser, error) {
		r := c.Get().AbsPath(path)
		for name, values := range query {
			for _, value := range values {
				r = r.Param(name, value)
			}
		}
		return r.Stream(ctx)
	}
}

// Scheme knows the kinds that the console reads.
func Scheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	err := errors.Join(
		corev1.AddToScheme(scheme), appsv1.AddToScheme(scheme), batchv1.AddToScheme(scheme), authorizationv1.AddToScheme(scheme),
		executionv1.AddToScheme(scheme), cascadingv1.AddToScheme(scheme), settingsv1alpha2.AddToScheme(scheme),
		reportsv1alpha1.AddToScheme(scheme), wgpolicyv1alpha2.AddToScheme(scheme), registryv1alpha1.AddToScheme(scheme),
	)
	if err != nil {
		return nil, fmt.Errorf("make scheme: %w", err)
	}
	return scheme, nil
}

// clusterKinds are the kinds without a namespace.
var clusterKinds = []schema.GroupKind{
	{Kind: "Namespace"},
	{Group: authorizationv1.GroupName, Kind: "SelfSubjectAccessReview"},
	{Group: settingsv1alpha2.SchemeGroupVersion.Group, Kind: "ClusterScanSetting"},
	{Group: settingsv1alpha2.SchemeGroupVersion.Group, Kind: "ClusterFindingException"},
	{Group: reportsv1alpha1.SchemeGroupVersion.Group, Kind: "ClusterFindingQuery"},
	{Group: reportsv1alpha1.SchemeGroupVersion.Group, Kind: "VulnerabilityDatabase"},
	{Group: wgpolicyv1alpha2.SchemeGroupVersion.Group, Kind: "ClusterPolicyReport"},
}

// mapperOf knows the resources of all kinds, so that no viewer's request asks the API server for them.
func mapperOf(scheme *runtime.Scheme) meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(scheme.PrioritizedVersionsAllGroups())
	for kind := range scheme.AllKnownTypes() {
		mapper.Add(kind, meta.RESTScopeNamespace)
	}
	for _, kind := range clusterKinds {
		for _, version := range scheme.VersionsForGroupKind(kind) {
			mapper.Add(kind.WithVersion(version.Version), meta.RESTScopeRoot)
		}
	}
	return mapper
}
