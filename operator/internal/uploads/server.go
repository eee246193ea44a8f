// SPDX-License-Identifier: Apache-2.0

package uploads

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/operator/internal/endpoint"
	"github.com/scanyard/scanyard/operator/internal/jobs"
	"github.com/scanyard/scanyard/operator/internal/store"
)

const (
	// Path is the path of the endpoint, for POST.
	Path = "/v1/upload-url"
	// expiry is how long the URLs are valid: the lurker uses them at once, and storage checks the time when an
	// upload begins.
	expiry = 15 * time.Minute

	maxConcurrent = 32
)

// Response is the body of a successful response.
type Response struct {
	// URL is a presigned PUT of the raw result.
	URL string `json:"url"`
}

// Presigner makes upload URLs.
type Presigner interface {
	PresignUpload(ctx context.Context, o store.Owner, filename string, expiry time.Duration) (string, error)
}

// Handler serves requests for upload URLs.
type Handler struct {
	// review creates TokenReviews; live reads from the API server.
	review client.Writer
	live   client.Reader
	store  Presigner
	slots  endpoint.Slots
}

// NewHandler returns a Handler.
func NewHandler(review client.Writer, live client.Reader, s Presigner) *Handler {
	return &Handler{review: review, live: live, store: s, slots: make(endpoint.Slots, maxConcurrent)}
}

// refusal is a response other than a URL.
type refusal struct {
	code    int
	message string
}

func (r *refusal) Error() string { return r.message }

func refuse(code int, format string, args ...any) error {
	return &refusal{code, fmt.Sprintf(format, args...)}
}

// ServeHTTP serves one request.
func (s *Handler) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	releaseSlot, ok := s.slots.Take()
	if !ok {
		w.Header().Set("Retry-After", "1")
		http.Error(w, "too many requests at once", http.StatusTooManyRequests)
		return
	}
	defer releaseSlot()
	ctx, cancel := context.WithTimeout(req.Context(), endpoint.AnswerTimeout)
	defer cancel()
	url, err := s.issue(ctx, req)
	if refused, ok := errors.AsType[*refusal](err); ok {
		http.Error(w, refused.message, refused.code)
		return
	}
	if err != nil {
		log.FromContext(ctx).Error(err, "Make a fresh upload URL")
		http.Error(w, "the operator could not make an upload URL; try again", http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if err := json.NewEncoder(w).Encode(Response{URL: url}); err != nil {
		log.FromContext(ctx).V(1).Info("The client went before it had its response", "error", err.Error())
	}
}

func (s *Handler) issue(ctx context.Context, req *http.Request) (string, error) {
	user, ok, err := endpoint.Authenticate(ctx, s.review, req, jobs.UploadAudience)
	if err != nil {
		return "", err
	}
	if !ok {
		return "", refuse(http.StatusUnauthorized, "send the pod's token for audience %s as a bearer token", jobs.UploadAudience)
	}
	pod, err := podOf(user)
	if err != nil {
		return "", err
	}
	scan, file, err := s.scanOf(ctx, pod)
	if err != nil {
		return "", err
	}
	return s.store.PresignUpload(ctx, store.OwnerOf(scan), file, expiry)
}

// podRef is the pod that a token is bound to.
type podRef struct {
	types.NamespacedName

	uid types.UID
}

// podOf reads from who sent a token which pod it is bound to. The names of the extra
// fields are Kubernetes' own (k8s.io/apiserver/pkg/authentication/serviceaccount).
func podOf(user *authenticationv1.UserInfo) (podRef, error) {
	name, uid := user.Extra["authentication.kubernetes.io/pod-name"], user.Extra["authentication.kubernetes.io/pod-uid"]
	account, isAccount := strings.CutPrefix(user.Username, "system:serviceaccount:")
	namespace, _, found := strings.Cut(account, ":")
	if !isAccount || !found || len(name) != 1 || len(uid) != 1 {
		return podRef{}, refuse(http.StatusForbidden, "the token is not bound to a pod")
	}
	return podRef{types.NamespacedName{Namespace: namespace, Name: name[0]}, types.UID(uid[0])}, nil
}

// scanOf follows a pod to the Scan that it scans for, and to the file that its result is
// stored as, which the Job says. Every step compares UIDs: a name may have been taken over by
// something else.
func (s *Handler) scanOf(ctx context.Context, ref podRef) (*executionv1.Scan, string, error) {
	var pod corev1.Pod
	if err := s.get(ctx, ref.NamespacedName, &pod); err != nil {
		return nil, "", err
	}
	if pod.UID != ref.uid || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return nil, "", refuse(http.StatusForbidden, "pod %s has ended", ref.Name)
	}
	var job batchv1.Job
	owner := metav1.GetControllerOf(&pod)
	if owner == nil || owner.Kind != "Job" {
		return nil, "", refuse(http.StatusForbidden, "pod %s is not a scanner pod", ref.Name)
	}
	if err := s.get(ctx, types.NamespacedName{Namespace: ref.Namespace, Name: owner.Name}, &job); err != nil {
		return nil, "", err
	}
	by := metav1.GetControllerOf(&job)
	if job.UID != owner.UID || job.Labels[executionv1.LabelJobType] != executionv1.JobTypeScanner ||
		by == nil || by.Kind != "Scan" || by.APIVersion != executionv1.SchemeGroupVersion.String() {
		return nil, "", refuse(http.StatusForbidden, "pod %s is not a scanner pod", ref.Name)
	}
	var scan executionv1.Scan
	if err := s.get(ctx, types.NamespacedName{Namespace: ref.Namespace, Name: by.Name}, &scan); err != nil {
		return nil, "", err
	}
	if scan.UID != by.UID || !uploading(&scan, &job) || hasEnded(&job) || jobs.ScannerName(&scan, scan.ScannerAttempt()) != job.Name {
		return nil, "", refuse(http.StatusForbidden, "Scan %s takes no raw result now", by.Name)
	}
	return &scan, fileOf(&job), nil
}

// fileOf is the name of a scanner Job's result in storage. If the Job does not say it, an operator of an
// earlier version has made the Job, and the lurker's argument says it.
func fileOf(job *batchv1.Job) string {
	if file := jobs.OnJob(job.Annotations).File; file != "" {
		return file
	}
	return jobs.LurkersFile(job)
}

func hasEnded(job *batchv1.Job) bool {
	return !job.DeletionTimestamp.IsZero() || slices.ContainsFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool {
		return c.Status == corev1.ConditionTrue && (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed)
	})
}

// uploading says whether the raw result of a Scan may still be written: later phases read it. A parser in the scanner's pod works
// while the lurker uploads. The pods of a Scan may write its state, which therefore only refuses; that the scanner's pod works, its
// Job says.
func uploading(scan *executionv1.Scan, job *batchv1.Job) bool {
	state := scan.Status.State
	return scan.DeletionTimestamp.IsZero() &&
		(state == executionv1.ScanStateScanning || state == executionv1.ScanStateParsing && executionv1.IsFused(job))
}

func (s *Handler) get(ctx context.Context, key types.NamespacedName, o client.Object) error {
	err := s.live.Get(ctx, key, o)
	if apierrors.IsNotFound(err) {
		return refuse(http.StatusForbidden, "%s is gone", key.Name)
	}
	if err != nil {
		return fmt.Errorf("get %T %s: %w", o, key, err)
	}
	return nil
}
