// SPDX-License-Identifier: Apache-2.0

package results

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/apis/handover"
	api "github.com/scanyard/scanyard/apis/results"
	"github.com/scanyard/scanyard/operator/internal/endpoint"
	"github.com/scanyard/scanyard/operator/internal/names"
	"github.com/scanyard/scanyard/operator/internal/store"
)

const (
	// expiry of the URLs: callers begin to read at once.
	expiry        = 15 * time.Minute
	maxConcurrent = 64
	maxBody       = 64 << 10
	retryAfter    = "1"
)

// Storage is the object storage of results.
type Storage interface {
	// Stat says whether a file of a Scan is stored.
	Stat(ctx context.Context, o store.Owner, filename string) (store.Object, bool, error)
	// PresignDownload returns a URL from which a file of a Scan can be read.
	PresignDownload(ctx context.Context, o store.Owner, filename string, expiry time.Duration) (string, error)
}

// Options are what a Handler needs.
type Options struct {
	// Review creates TokenReviews and SubjectAccessReviews.
	Review client.Writer
	// Live reads from the API server.
	Live    client.Reader
	Storage Storage
	// Namespaces are those that the operator works in; an empty list means all.
	Namespaces []string
	// Release has what removing results needs; without it no results are removed.
	Release Releasing
}

// Handler handles the calls of the results endpoint.
type Handler struct {
	Options

	slots endpoint.Slots
}

// NewHandler returns a Handler.
func NewHandler(o Options) *Handler {
	return &Handler{Options: o, slots: make(endpoint.Slots, maxConcurrent)}
}

// Handlers returns the handler of each path.
func (h *Handler) Handlers() map[string]http.Handler {
	return map[string]http.Handler{api.URLPath: serve(h, h.url), api.ReleasePath: serve(h, h.release)}
}

// refusal is an answer that tells why a request was refused.
type refusal struct {
	code int
	api.Refusal
}

func (r *refusal) Error() string { return r.Message }

func refuse(code int, reason, format string, args ...any) error {
	return &refusal{code, api.Refusal{Reason: reason, Message: fmt.Sprintf(format, args...)}}
}

// serve returns a handler of one kind of request.
func serve[Request, Answer any](h *Handler, answer func(context.Context, *authenticationv1.UserInfo, *Request) (*Answer, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		releaseSlot, ok := h.slots.Take()
		if !ok {
			refused(req.Context(), w, refuse(http.StatusTooManyRequests, api.ReasonTooManyCalls, "the operator answers %d calls at a time; try again", maxConcurrent))
			return
		}
		defer releaseSlot()
		ctx, cancel := context.WithTimeout(req.Context(), endpoint.AnswerTimeout)
		defer cancel()
		said, err := call(ctx, h, w, req, answer)
		if err != nil {
			if _, ok := errors.AsType[*refusal](err); !ok {
				log.FromContext(ctx).Error(err, "Answer a call of the results endpoint", "path", req.URL.Path)
			}
			refused(ctx, w, err)
			return
		}
		send(ctx, w, http.StatusOK, said)
	})
}

// call authenticates and decodes one request, and answers it.
func call[Request, Answer any](
	ctx context.Context, h *Handler, w http.ResponseWriter, req *http.Request, answer func(context.Context, *authenticationv1.UserInfo, *Request) (*Answer, error),
) (*Answer, error) {
	user, ok, err := endpoint.Authenticate(ctx, h.Review, req, api.Audience)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, refuse(http.StatusUnauthorized, api.ReasonUnauthenticated, "send a token for audience %s as a bearer token", api.Audience)
	}
	d := json.NewDecoder(http.MaxBytesReader(w, req.Body, maxBody))
	d.DisallowUnknownFields()
	asked := new(Request)
	if err := d.Decode(asked); err != nil {
		return nil, refuse(http.StatusBadRequest, api.ReasonBadRequest, "the body is not what this path takes: %v", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, refuse(http.StatusBadRequest, api.ReasonBadRequest, "the body has more than one object")
	}
	return answer(ctx, user, asked)
}

// refused writes the answer to a request that was not granted. An error that is not a refusal comes from the API server.
func refused(ctx context.Context, w http.ResponseWriter, err error) {
	r, ok := errors.AsType[*refusal](err)
	if !ok {
		r = &refusal{http.StatusServiceUnavailable, api.Refusal{
			Reason: api.ReasonUnavailable, Message: "the operator could not ask the API server, its log says why; try again",
		}}
	}
	if r.code == http.StatusTooManyRequests || r.code == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", retryAfter)
	}
	send(ctx, w, r.code, r.Refusal)
}

func send(ctx context.Context, w http.ResponseWriter, code int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	if err := json.NewEncoder(w).Encode(body); err != nil {
		log.FromContext(ctx).V(1).Info("The client closed the connection before the answer", "error", err.Error())
	}
}

// url answers with the URL of a file of a Scan.
func (h *Handler) url(ctx context.Context, user *authenticationv1.UserInfo, asked *api.URLRequest) (*api.URLAnswer, error) {
	if !slices.Contains([]string{api.FileFindings, api.FileRaw, api.FileExceptions}, asked.File) {
		return nil, refuse(http.StatusBadRequest, api.ReasonBadRequest, "file is %q: ask for %q, %q or %q",
			asked.File, api.FileFindings, api.FileRaw, api.FileExceptions)
	}
	scan, err := h.scanOf(ctx, user, "get", asked.Namespace, asked.Name, asked.UID)
	if err != nil {
		return nil, err
	}
	file := executionv1.FindingsFile
	switch asked.File {
	case api.FileRaw:
		file = scan.Status.RawResultFile
	case api.FileExceptions:
		file = handover.ExceptionsFile
	}
	owner := store.OwnerOf(scan)
	object, err := h.stat(ctx, owner, file)
	if err != nil {
		return nil, err
	}
	link, err := h.Storage.PresignDownload(ctx, owner, file, expiry)
	if err != nil {
		return nil, h.unavailable(ctx, err)
	}
	return &api.URLAnswer{URL: link, ETag: object.ETag, Size: object.Size, LastModified: object.LastModified}, nil
}

// stat reads the metadata of a file of a Scan from storage.
func (h *Handler) stat(ctx context.Context, owner store.Owner, file string) (store.Object, error) {
	missing := refuse(http.StatusNotFound, api.ReasonResultsMissing, "Scan %s has not stored that file", owner.Name)
	if names.CheckFile(file) != nil {
		return store.Object{}, missing // the status names no file, or a name that storage does not have
	}
	object, found, err := h.Storage.Stat(ctx, owner, file)
	switch {
	case errors.Is(err, store.ErrNoPlace):
		return object, missing
	case err != nil:
		return object, h.unavailable(ctx, err)
	case !found:
		return object, missing
	}
	return object, nil
}

func (h *Handler) unavailable(ctx context.Context, err error) error {
	log.FromContext(ctx).Error(err, "Use object storage for the results endpoint")
	return refuse(http.StatusServiceUnavailable, api.ReasonStorageUnavailable, "object storage cannot be used now, the operator's log says why; try again")
}

// scanOf returns a Scan if the user has the right to its results.
func (h *Handler) scanOf(ctx context.Context, user *authenticationv1.UserInfo, verb, namespace, name, uid string) (*executionv1.Scan, error) {
	if namespace == "" || name == "" || uid == "" {
		// A review without a namespace is about all namespaces.
		return nil, refuse(http.StatusBadRequest, api.ReasonBadRequest, "namespace, name and uid must be given")
	}
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extraOf(user),
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: namespace, Name: name, Verb: verb, Resource: "scans", Subresource: api.Subresource,
			Group: executionv1.SchemeGroupVersion.Group, Version: executionv1.SchemeGroupVersion.Version,
		},
	}}
	if err := h.Review.Create(ctx, review); err != nil {
		return nil, fmt.Errorf("review the right to results: %w", err)
	}
	if !review.Status.Allowed {
		return nil, refuse(http.StatusForbidden, api.ReasonForbidden, "%s may not %s scans/%s of group %s in namespace %s",
			user.Username, verb, api.Subresource, executionv1.SchemeGroupVersion.Group, namespace)
	}
	notFound := refuse(http.StatusNotFound, api.ReasonScanNotFound, "there is no Scan %s/%s that this operator leads", namespace, name)
	if len(h.Namespaces) > 0 && !slices.Contains(h.Namespaces, namespace) {
		return nil, notFound
	}
	var scan executionv1.Scan
	err := h.Live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &scan)
	switch {
	case apierrors.IsNotFound(err):
		return nil, notFound
	case err != nil:
		return nil, fmt.Errorf("get Scan %s/%s: %w", namespace, name, err)
	case string(scan.UID) != uid:
		return nil, refuse(http.StatusConflict, api.ReasonUIDMismatch, "Scan %s/%s has UID %s: it was made again", namespace, name, scan.UID)
	}
	return &scan, nil
}

func extraOf(user *authenticationv1.UserInfo) map[string]authorizationv1.ExtraValue {
	extra := make(map[string]authorizationv1.ExtraValue, len(user.Extra))
	for k, v := range user.Extra {
		extra[k] = authorizationv1.ExtraValue(v)
	}
	return extra
}
