// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	registryv1alpha1 "github.com/scanyard/scanyard/apis/registry/v1alpha1"
	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
	"github.com/scanyard/scanyard/registry/internal/imagetest"
	"github.com/scanyard/scanyard/registry/internal/limits"
	"github.com/scanyard/scanyard/registry/internal/queue"
)

// F14: a registry that answers half of the requests with 429 takes longer, and uses no attempt up.
func TestFaultRegistryThrottles(t *testing.T) {
	w := newWorld(t)
	w.known("shop/api", "1", 1)
	var mutex sync.Mutex
	asked := 0
	w.registry.Before = func(rw http.ResponseWriter, _ *http.Request) bool {
		mutex.Lock()
		defer mutex.Unlock()
		asked++
		if asked%2 == 0 {
			return false
		}
		rw.Header().Set("Retry-After", "2")
		rw.WriteHeader(http.StatusTooManyRequests)
		return true
	}
	w.work()
	w.discovered(jobUID)
	w.well(w.message(queue.SBOM, itemOf(w.image("shop/api:1"))))
	if i := w.image("shop/api:1"); i.Status.State != reportsv1.ImageWaitingForMatch || i.Status.Work.Attempt != 0 {
		t.Errorf("%+v", i.Status)
	}
}

// F14 without end: the step ends, the attempt is given back, and the controller hears how long the host wants to be left alone.
func TestFaultRegistryThrottlesWithoutEnd(t *testing.T) {
	w := newWorld(t)
	w.known("shop/api", "1", 1)
	var mutex sync.Mutex
	closed := false
	w.registry.Before = func(rw http.ResponseWriter, _ *http.Request) bool {
		mutex.Lock()
		defer mutex.Unlock()
		if closed {
			rw.Header().Set("Retry-After", "900")
			rw.WriteHeader(http.StatusTooManyRequests)
		}
		return closed
	}
	w.work()
	w.discovered(jobUID)
	mutex.Lock()
	closed = true
	mutex.Unlock()
	e := w.do(w.message(queue.SBOM, itemOf(w.image("shop/api:1"))))[0]
	if e.Outcome != "Throttled" || e.Reason != "RateLimited" || e.RetryAfterSeconds < 600 || e.Host == "" {
		t.Errorf("%+v", e)
	}
	i := w.image("shop/api:1")
	if i.Status.State != reportsv1.ImagePending || i.Status.Work.Attempt != 0 || i.Status.Work.NotBefore == nil || i.Status.Reason != "RateLimited" {
		t.Errorf("%+v %+v", i.Status, i.Status.Work)
	}
	// Another message before that time does nothing.
	if e := w.do(w.message(queue.SBOM, itemOf(i)))[0]; e.Outcome != queue.Passed || e.Row != "NotNow" {
		t.Errorf("%+v", e)
	}
}

// F15: what does not answer is tried six times, each time with its reason, and then fails.
func TestFaultRegistryBreaks(t *testing.T) {
	for name, c := range map[string]struct {
		fault  func(rw http.ResponseWriter)
		reason string
	}{
		"500":    {func(rw http.ResponseWriter) { rw.WriteHeader(http.StatusInternalServerError) }, "Unreachable"},
		"Resets": {func(http.ResponseWriter) { panic(http.ErrAbortHandler) }, "Unreachable"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.known("shop/api", "1", 1)
			var mutex sync.Mutex
			broken := false
			w.registry.Before = func(rw http.ResponseWriter, _ *http.Request) bool {
				mutex.Lock()
				now := broken
				mutex.Unlock()
				if now {
					c.fault(rw)
				}
				return now
			}
			r := w.work()
			w.discovered(jobUID)
			mutex.Lock()
			broken = true
			mutex.Unlock()
			for attempt := int32(1); attempt <= 6; attempt++ {
				i := w.image("shop/api:1")
				w.due(i)
				w.resume(r)
				e := w.do(w.message(queue.SBOM, itemOf(i)))[0]
				i = w.image("shop/api:1")
				if e.Outcome != "Transient" || e.Reason != c.reason || i.Status.Work.Attempt != attempt || i.Status.Reason != c.reason {
					t.Fatalf("attempt %d: %+v, %+v", attempt, e, i.Status.Work)
				}
			}
			w.due(w.image("shop/api:1"))
			e := w.do(w.message(queue.SBOM, itemOf(w.image("shop/api:1"))))[0]
			if i := w.image("shop/api:1"); e.Row != "UsedUp" || i.Status.State != reportsv1.ImageFailed || i.Status.Reason != c.reason {
				t.Errorf("%+v, %+v", e, i.Status)
			}
		})
	}
}

// F15, TLS and names: the reason is that of the condition Reachable.
func TestFaultRegistryIsNotThere(t *testing.T) {
	for name, c := range map[string]struct{ url, insecure, reason string }{
		"TLS":    {"https://127.0.0.1:PORT", "", "TLSFailed"},
		"Nobody": {"http://127.0.0.1:1024", "PlainHTTP", "Unreachable"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(r *registryv1alpha1.Registry) {
				r.Spec.Insecure = registryv1alpha1.Insecure(c.insecure)
				r.Spec.URL = strings.Replace(c.url, "PORT", r.Spec.URL[strings.LastIndexByte(r.Spec.URL, ':')+1:], 1)
			})
			w.work()
			if e := w.do(w.catalog())[0]; e.Outcome != "Transient" || e.Reason != c.reason {
				t.Errorf("%+v", e)
			}
		})
	}
}

// F16: one refusal ends the try without an attempt; with the new password the same item goes on.
func TestFaultPasswordChanges(t *testing.T) {
	w := newWorld(t, func(r *registryv1alpha1.Registry) { r.Spec.Auth = &registryv1alpha1.Auth{SecretName: "pull"} })
	w.known("shop/api", "1", 1)
	var mutex sync.Mutex
	password := "old"
	w.registry.Before = func(rw http.ResponseWriter, r *http.Request) bool {
		mutex.Lock()
		defer mutex.Unlock()
		if _, given, ok := r.BasicAuth(); !ok || given != password {
			rw.Header().Set("WWW-Authenticate", `Basic realm="registry"`)
			rw.WriteHeader(http.StatusUnauthorized)
			return true
		}
		return false
	}
	w.work()
	if e := w.do(w.catalog())[0]; e.Outcome != "Refused" || e.Reason != registryv1alpha1.ReasonSecretNotFound {
		t.Fatalf("%+v", e)
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "pull", UID: "secret-1"}, Type: corev1.SecretTypeOpaque,
		Data: map[string][]byte{"username": []byte("robot"), "password": []byte("old")},
	}
	w.create(secret)
	w.discovered(jobUID)
	mutex.Lock()
	password = "new"
	mutex.Unlock()
	image := w.image("shop/api:1")
	e := w.do(w.message(queue.SBOM, itemOf(image)))[0]
	if e.Outcome != "Refused" || e.Reason != "Unauthorized" || e.Secret == "" {
		t.Fatalf("%+v", e)
	}
	refused := e.Secret
	if i := w.image("shop/api:1"); i.Status.State != reportsv1.ImagePending || i.Status.Work.Attempt != 0 || i.Status.Reason != "Unauthorized" {
		t.Errorf("%+v", i.Status)
	}
	// Who knows that this Secret was refused asks neither the registry again nor writes.
	again := func() queue.Message {
		m := w.message(queue.SBOM, itemOf(image))
		m.Refused = refused
		return m
	}
	w.reports.forget()
	asked := w.registry.Total()
	if e := w.do(again())[0]; e.Outcome != "Refused" || e.Row != "StillRefused" || e.Secret != refused {
		t.Errorf("%+v", e)
	}
	if writes := w.reports.writes(); len(writes) > 0 || w.registry.Total() != asked {
		t.Errorf("%v were written, %d requests made", writes, w.registry.Total()-asked)
	}
	secret.Data["password"] = []byte("new")
	if err := w.cluster.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	w.well(again())
}

// F17: one tag with a broken manifest among many is one warning.
func TestFaultOneBrokenTag(t *testing.T) {
	w := newWorld(t)
	tags := int64(sized(40, 499))
	for i := range tags {
		w.known("shop/api", fmt.Sprintf("1.%d", i), int(i))
	}
	w.registry.Manifest("shop/api", "broken", imagetest.TypeManifest, []byte(`{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","layers":7}`))
	w.work()
	w.discovered(jobUID)
	r := w.repositories()["shop/api"].Status
	if r.State != reportsv1.RepositoryDone || r.Tags.Selected != tags || r.Tags.Skipped != 1 || r.ByReason["InvalidManifest"] != 1 || len(w.images()) != int(tags) {
		t.Errorf("%+v, %d images", r, len(w.images()))
	}
	want := []reportsv1.RepositoryWarning{{Code: "InvalidManifest", Count: 1, Examples: []string{"broken"}}}
	if diff := cmp.Diff(want, r.Warnings); diff != "" {
		t.Error(diff)
	}
}

// F18: a repository that is gone is done and empty; one that may not be read is one error.
func TestFaultRepositoriesThatCannotBeRead(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"shop/api", "shop/gone", "shop/secret"} {
		w.known(name, "1", 1)
	}
	w.registry.Before = func(rw http.ResponseWriter, r *http.Request) bool {
		switch {
		case strings.Contains(r.URL.Path, "shop/gone"):
			rw.WriteHeader(http.StatusNotFound)
			_, _ = rw.Write([]byte(`{"errors":[{"code":"NAME_UNKNOWN"}]}`))
		case strings.Contains(r.URL.Path, "shop/secret"):
			rw.WriteHeader(http.StatusForbidden)
		default:
			return false
		}
		return true
	}
	w.work()
	w.well(w.catalog())
	w.well(w.repositoryMessage("shop/api"))
	w.well(w.repositoryMessage("shop/gone"))
	if e := w.do(w.repositoryMessage("shop/secret"))[0]; e.Outcome != "Broken" || e.Reason != "Forbidden" {
		t.Errorf("%+v", e)
	}
	got := map[string]string{}
	for name, r := range w.repositories() {
		got[name] = r.Status.State + " " + r.Status.Reason
	}
	want := map[string]string{"": "Done ", "shop/api": "Done ", "shop/gone": "Done RepositoryGone", "shop/secret": "Failed Forbidden"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// F19: a list that breaks off on its third page leaves nothing gone, and is continued from the cursor.
func TestFaultListBreaksOff(t *testing.T) {
	w := newWorld(t, func(r *registryv1alpha1.Registry) {
		// No tag is asked for: the list alone is what this test is about.
		r.Spec.Tags = &registryv1alpha1.TagFilter{Include: []string{"t0001", "t2500"}}
	})
	digest := w.known("shop/api", "t0001", 1)
	image, err := imagetest.Build(imagetest.Spec{
		Layers:  []imagetest.Layer{imagetest.Debian12(), imagetest.Node(), {Compression: imagetest.Gzip, Files: []imagetest.File{{Name: "app/number", Body: "1"}}}},
		Created: imagetest.Created,
	})
	if err != nil || image.Digest != digest {
		t.Fatal(err, image.Digest, digest)
	}
	for i := 2; i <= 2500; i++ {
		w.registry.Manifest("shop/api", fmt.Sprintf("t%04d", i), imagetest.TypeManifest, image.Manifest)
	}
	r := w.work()
	w.discovered(jobUID)
	if len(w.images()) != 2 {
		t.Fatalf("%v", sorted(w.images()))
	}
	var mutex sync.Mutex
	var lists []string
	broken := true
	w.registry.Before = func(rw http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/tags/list") {
			return false
		}
		mutex.Lock()
		defer mutex.Unlock()
		last := r.URL.Query().Get("last")
		lists = append(lists, last)
		if broken && last == "t2000" {
			rw.WriteHeader(http.StatusBadGateway)
			return true
		}
		return false
	}
	w.create(w.discoveryJob("job-2"))
	if e := w.do(withJob(w.repositoryMessage("shop/api"), "job-2"))[0]; e.Outcome != "Transient" {
		t.Fatalf("%+v", e)
	}
	if diff := cmp.Diff([]string{"shop/api:t0001", "shop/api:t2500"}, sorted(w.images())); diff != "" {
		t.Fatal(diff)
	}
	repository := w.repositories()["shop/api"]
	if repository.Status.Cursor != "t2000" || repository.Status.State != reportsv1.RepositoryWaiting {
		t.Fatalf("%+v", repository.Status)
	}
	mutex.Lock()
	broken, lists = false, nil
	mutex.Unlock()
	w.dueRepository(repository)
	w.resume(r)
	w.well(withJob(w.repositoryMessage("shop/api"), "job-2"))
	if diff := cmp.Diff([]string{"t2000"}, lists); diff != "" {
		t.Error(diff)
	}
	if s := w.repositories()["shop/api"].Status; s.Tags.Listed != 2500 || s.Tags.Selected != 2 || s.Cursor != "" || len(w.images()) != 2 {
		t.Errorf("%+v", s)
	}
}

// F20, F21: an image whose tag has moved before its SBOM is made is left alone, and one whose Registry is gone as well.
func TestFaultItemsThatLeave(t *testing.T) {
	w := newWorld(t)
	w.known("shop/api", "1", 1)
	w.work()
	w.discovered(jobUID)
	old := w.image("shop/api:1")
	w.known("shop/api", "1", 2)
	w.create(w.discoveryJob("job-2"))
	w.well(withJob(w.repositoryMessage("shop/api"), "job-2"))
	if e := w.do(w.message(queue.SBOM, itemOf(old)))[0]; e.Outcome != queue.Passed || e.Row != "Deleted" {
		t.Errorf("superseded: %+v", e)
	}
	now := w.image("shop/api:1")
	if err := w.cluster.Delete(t.Context(), w.object); client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	if e := w.do(w.message(queue.SBOM, itemOf(now)))[0]; e.Outcome != queue.Passed || e.Row != "Deleted" {
		t.Errorf("no Registry: %+v", e)
	}
}

// F21: what is written late of an Image that was deleted meanwhile is refused, and made nobody's.
func TestFaultDeletedWhileWorkedOn(t *testing.T) {
	w := newWorld(t)
	w.known("shop/api", "1", 1)
	w.work()
	w.discovered(jobUID)
	image := w.image("shop/api:1")
	w.reports.answer(func(_ http.ResponseWriter, r *http.Request) bool {
		if kindOf(r) == "PUT sboms/document" {
			if err := w.client.Delete(t.Context(), namespace, "images", image.Name); err != nil {
				t.Error(err)
			}
		}
		return false
	})
	if e := w.do(w.message(queue.SBOM, itemOf(image)))[0]; e.Outcome != queue.Passed || e.Row != "Dropped" {
		t.Errorf("%+v", e)
	}
	if found := w.images(); len(found) != 0 {
		t.Errorf("%v", sorted(found))
	}
}

// F22: a Registry made anew under its name has other Images.
func TestFaultRegistryMadeAnew(t *testing.T) {
	w := newWorld(t)
	w.known("shop/api", "1", 1)
	w.work()
	w.discovered(jobUID)
	old := w.image("shop/api:1")
	if err := w.cluster.Delete(t.Context(), w.object); err != nil {
		t.Fatal(err)
	}
	w.create(&registryv1alpha1.Registry{
		ObjectMeta: metav1.ObjectMeta{Name: "prod", UID: "registry-2", Generation: 1}, Spec: w.object.Spec,
	})
	// A message of the old one does nothing.
	if e := w.do(w.message(queue.SBOM, itemOf(old)))[0]; e.Outcome != queue.Passed || e.Row != "Deleted" {
		t.Errorf("%+v", e)
	}
	if e := w.do(w.catalog())[0]; e.Outcome != queue.Passed {
		t.Errorf("%+v", e)
	}
}

// F33: a job that is cancelled ends what works for it: the item is as before, and its attempt is not counted.
func TestFaultCancelledJob(t *testing.T) {
	w := newWorld(t)
	w.known("shop/api", "1", 1)
	w.work()
	w.discovered(jobUID)
	asked := make(chan struct{})
	var once sync.Once
	w.registry.Before = func(_ http.ResponseWriter, request *http.Request) bool {
		once.Do(func() { close(asked) })
		<-request.Context().Done()
		return true
	}
	w.put(w.message(queue.SBOM, itemOf(w.image("shop/api:1"))))
	<-asked
	if err := w.nats.controller.Cancel(jobUID); err != nil {
		t.Fatal(err)
	}
	if e := w.wait(1)[0]; e.Outcome != "GivenBack" {
		t.Errorf("%+v", e)
	}
	if i := w.image("shop/api:1"); i.Status.State != reportsv1.ImagePending || i.Status.Work.Attempt != 0 || i.Status.Work.Claim != "" {
		t.Errorf("%+v", i.Status)
	}
	// What is let in of a cancelled job does nothing.
	var job registryv1alpha1.DiscoveryJob
	if err := w.cluster.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: jobUID}, &job); err != nil {
		t.Fatal(err)
	}
	job.Spec.Cancel = true
	if err := w.cluster.Update(t.Context(), &job); err != nil {
		t.Fatal(err)
	}
	if e := w.do(w.message(queue.SBOM, itemOf(w.image("shop/api:1"))))[0]; e.Row != "Cancelled" {
		t.Errorf("%+v", e)
	}
}

// due lets an image begin again at once.
func (w *world) due(i *reportsv1.Image) {
	w.t.Helper()
	w.patch("images", i.Name, object{"work": object{"notBefore": nil}})
}

func (w *world) dueRepository(r *reportsv1.Repository) {
	w.t.Helper()
	w.patch("repositories", r.Name, object{"work": object{"notBefore": nil}})
}

func (w *world) patch(resource, name string, status object) {
	w.t.Helper()
	if _, err := w.client.PatchStatus(w.t.Context(), namespace, resource, name, object{"status": status}, &struct{}{}); err != nil {
		w.t.Fatal(err)
	}
}

// resume ends the pause of the registry for those without an account, as time does.
func (w *world) resume(r *running) { r.hosts.Host(limits.Key{Host: hostOf(w.object)}).Resume() }
