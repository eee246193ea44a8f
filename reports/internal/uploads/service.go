// SPDX-License-Identifier: Apache-2.0

package uploads

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/reports/internal/kinds"
	"github.com/scanyard/scanyard/reports/internal/mvcc"
	"github.com/scanyard/scanyard/reports/internal/sqlstorage"
)

const (
	// atOnce is how many uploads one replica takes at a time.
	atOnce = 8
	// within is how long one request may take.
	within = 10 * time.Minute
	// tries is how often a transaction is tried whose objects somebody else has changed.
	tries      = 8
	retryAfter = 1
)

// Config is what a Service is made of.
type Config struct {
	Store *mvcc.Store
	// Storage returns the storage of a kind by its name in the database.
	Storage func(resource string) *sqlstorage.Storage
	// Suppressed is what is said of an exception of a namespace or the cluster, as KIND/NAME. It, and what it returns, may be nil.
	Suppressed func(namespace, exception string) *reportsv1.Suppressed
	// Clock defaults to the real one.
	Clock clock.PassiveClock
}

// Service serves the sub-resources.
type Service struct {
	store                                           *mvcc.Store
	images, sboms, reports, repositories, databases *sqlstorage.Storage
	suppressed                                      func(namespace, exception string) *reportsv1.Suppressed
	clock                                           clock.PassiveClock
	free                                            chan struct{}
	filling                                         filling
}

// New makes a Service.
func New(config Config) *Service {
	s := &Service{
		store: config.Store, images: config.Storage(kinds.Images.Resource), sboms: config.Storage(kinds.SBOMs.Resource),
		reports: config.Storage(kinds.VulnerabilityReports.Resource), repositories: config.Storage(kinds.Repositories.Resource),
		databases: config.Storage(kinds.Databases.Resource), clock: config.Clock, free: make(chan struct{}, atOnce), suppressed: config.Suppressed,
	}
	if s.clock == nil {
		s.clock = clock.RealClock{}
	}
	s.store.AddChore(func(ctx context.Context) {
		if err := s.FillPackages(ctx); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Packages of older findings are not all filled in; the next compaction goes on")
		}
	})
	return s
}

// Resources are what the Service serves, by their paths.
func (s *Service) Resources() map[string]rest.Storage {
	sub := func(empty runtime.Object, m methods) rest.Storage {
		return &resource{service: s, empty: empty, methods: m}
	}
	const get, put, post = http.MethodGet, http.MethodPut, http.MethodPost
	sbom, report := &reportsv1.SBOM{}, &reportsv1.VulnerabilityReport{}
	return map[string]rest.Storage{
		"sboms/document":                 sub(sbom, methods{get: s.getDocument, put: s.upload(s.putDocument)}),
		"vulnerabilityreports/findings":  sub(report, methods{get: s.getFindings, put: s.upload(s.putFindings)}),
		"vulnerabilityreports/sarif":     sub(report, methods{get: s.getSARIF}),
		"images/reuse":                   sub(&reportsv1.Image{}, methods{post: s.reuse}),
		"repositories/tags":              sub(&reportsv1.Repository{}, methods{get: s.getTags, put: s.upload(s.putTags)}),
		"vulnerabilitydatabases/changes": sub(&reportsv1.VulnerabilityDatabase{}, methods{put: s.upload(s.putChanges)}),
		"imagequeries":                   &queries{TableConvertor: rest.NewDefaultTableConvertor(queriesResource), service: s},
	}
}

// target is the object that a request is about.
type target struct{ namespace, name string }

// method answers a request. An error is answered with a Status, so nothing may have been written before it.
type method func(w http.ResponseWriter, req *http.Request, at target) error

type methods map[string]method

// resource is a sub-resource.
type resource struct {
	service *Service
	empty   runtime.Object
	methods methods
}

var (
	_ rest.Storage   = &resource{}
	_ rest.Connecter = &resource{}
)

// New implements rest.Storage.
func (r *resource) New() runtime.Object { return r.empty.DeepCopyObject() }

// Destroy implements rest.Storage. There is nothing to clean up.
func (*resource) Destroy() {}

// NewConnectOptions implements rest.Connecter. What is asked for stands in the query of the URL.
func (*resource) NewConnectOptions() (runtime.Object, bool, string) { return nil, false, "" }

// ConnectMethods implements rest.Connecter.
func (r *resource) ConnectMethods() []string {
	var names []string
	for _, name := range []string{http.MethodGet, http.MethodPut, http.MethodPost} {
		if r.methods[name] != nil {
			names = append(names, name)
		}
	}
	return names
}

// Connect implements rest.Connecter.
func (r *resource) Connect(ctx context.Context, name string, _ runtime.Object, responder rest.Responder) (http.Handler, error) {
	namespace, _ := request.NamespaceFrom(ctx)
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		ctx, cancel := context.WithTimeout(req.Context(), within)
		defer cancel()
		if err := r.methods[req.Method](w, req.WithContext(ctx), target{namespace, name}); err != nil {
			responder.Error(statusOf(err))
		}
	}), nil
}

// statusOf is what a client is told.
func statusOf(err error) error {
	if status, ok := errors.AsType[*apierrors.StatusError](err); ok {
		return status
	}
	if storage.IsNotFound(err) {
		return apierrors.NewNotFound(reportsv1.SchemeGroupVersion.WithResource("images").GroupResource(), err.Error())
	}
	return sqlstorage.StatusOf(err)
}

// upload bounds how many bodies are taken at a time.
func (s *Service) upload(m method) method {
	return func(w http.ResponseWriter, req *http.Request, at target) error {
		select {
		case s.free <- struct{}{}:
			defer func() { <-s.free }()
		default:
			return apierrors.NewTooManyRequests("too many uploads are in work", retryAfter)
		}
		return m(w, req, at)
	}
}

// refused is a refusal with a reason for programs.
func refused(code int32, kind metav1.StatusReason, reason, format string, args ...any) error {
	message := fmt.Sprintf(format, args...)
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: code, Reason: kind, Message: reason + ": " + message,
		Details: &metav1.StatusDetails{Group: reportsv1.SchemeGroupVersion.Group, Causes: []metav1.StatusCause{{Type: metav1.CauseType(reason), Message: message}}},
	}}
}

func conflict(reason, format string, args ...any) error {
	return refused(http.StatusConflict, metav1.StatusReasonConflict, reason, format, args...)
}

func bad(reason, format string, args ...any) error {
	return refused(http.StatusBadRequest, metav1.StatusReasonBadRequest, reason, format, args...)
}

// answer writes a value as JSON.
func answer(w http.ResponseWriter, code int, value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(data) // the client may have gone
	return nil
}

// readSpec reads what a header says of the body.
func readSpec(req *http.Request, into any) error {
	text := req.Header.Get(reportsv1.HeaderSpec)
	data, err := base64.StdEncoding.DecodeString(text)
	if err == nil && text != "" {
		err = json.Unmarshal(data, into)
	}
	if err != nil {
		return apierrors.NewBadRequest(reportsv1.HeaderSpec + " must be the base64 of JSON: " + err.Error())
	}
	return nil
}

// image reads the Image of a document.
func (s *Service) image(ctx context.Context, at target) (*reportsv1.Image, error) {
	image := &reportsv1.Image{}
	err := s.images.Get(ctx, s.images.Key(at.namespace, at.name), storage.GetOptions{}, image)
	if storage.IsNotFound(err) {
		return nil, apierrors.NewNotFound(reportsv1.SchemeGroupVersion.WithResource("images").GroupResource(), at.name)
	}
	return image, err
}

// holds checks the claim of an upload.
func holds(work *reportsv1.Work, claim string) error {
	stored := ""
	if work != nil {
		stored = work.Claim
	}
	if claim != stored {
		return conflict(reportsv1.ReasonClaimLost, "the claim is not the stored one: somebody else works on it, or nobody does")
	}
	return nil
}

// settle moves an Image on: the claim ends, and what was counted of its attempts begins anew.
func (s *Service) settle(image *reportsv1.Image, state string) {
	status := &image.Status
	status.State, status.Reason, status.Message = state, "", ""
	if status.Work != nil {
		status.Work = &reportsv1.Work{Job: status.Work.Job}
	}
	ready := metav1.Condition{
		Type: "Ready", Status: metav1.ConditionFalse, Reason: state, ObservedGeneration: image.Generation, LastTransitionTime: metav1.NewTime(s.clock.Now()),
	}
	if state == reportsv1.ImageScanned {
		ready.Status = metav1.ConditionTrue
	}
	meta.SetStatusCondition(&status.Conditions, ready)
}

// ownedBy makes the metadata of what is about an Image.
func ownedBy(image *reportsv1.Image, into metav1.Object) {
	yes := true
	into.SetNamespace(image.Namespace)
	into.SetName(image.Name)
	into.SetLabels(image.Labels)
	into.SetOwnerReferences([]metav1.OwnerReference{{
		APIVersion: reportsv1.SchemeGroupVersion.String(), Kind: "Image", Name: image.Name, UID: image.UID, Controller: &yes, BlockOwnerDeletion: &yes,
	}})
}

// refOf tells which image a document is about.
func refOf(image *reportsv1.Image) reportsv1.ImageRef {
	spec := &image.Spec
	return reportsv1.ImageRef{
		Registry: spec.Registry.DeepCopy(), Repository: spec.Repository, Tag: spec.Tag, Digest: spec.Digest, IndexDigest: spec.IndexDigest, Platform: spec.Platform,
	}
}

// together tries a transaction until nobody else has changed its objects. It prepares the changes anew each time.
func (s *Service) together(ctx context.Context, prepare func() ([]mvcc.Change, error)) error {
	for range tries {
		changes, err := prepare()
		if err != nil {
			return err
		}
		outcomes, err := s.store.WriteAll(ctx, changes...)
		if err != nil {
			return err
		}
		written := true
		for i, outcome := range outcomes {
			if outcome.Exceeded != nil {
				return refused(http.StatusForbidden, metav1.StatusReasonForbidden, "Exceeded", "exceeded storage of namespace: used %d, limit %d",
					outcome.Exceeded.Used, outcome.Exceeded.Limit)
			}
			written = written && outcomes[i].Written
		}
		if written {
			return nil
		}
	}
	return apierrors.NewTooManyRequests("the objects are being changed by others", retryAfter)
}
