// SPDX-License-Identifier: Apache-2.0

package reportsclient

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	reportsv1 "github.com/scanyard/scanyard/apis/reports/v1alpha1"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// clock goes on when somebody waits, and notes how long.
type clock struct {
	mutex  sync.Mutex
	now    time.Time
	waited []time.Duration
}

func (c *clock) Now() time.Time {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.now
}

func (c *clock) Wait(ctx context.Context, d time.Duration) error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.now = c.now.Add(d)
	c.waited = append(c.waited, d)
	return ctx.Err()
}

// far is a reports API that answers as a test says: one function for each try, the last one for all further ones.
type far struct {
	*Client
	*clock

	tries int
}

func answering(t *testing.T, answers ...http.HandlerFunc) *far {
	t.Helper()
	f := &far{clock: &clock{now: start}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.tries++
		answers[min(f.tries, len(answers))-1](w, r)
	}))
	t.Cleanup(server.Close)
	client, err := New(Options{Config: &rest.Config{Host: server.URL}, Clock: f.clock})
	if err != nil {
		t.Fatal(err)
	}
	f.Client = client
	return f
}

func status(code int, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(code)
	}
}

func says(value any) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(value)
	}
}

func refuses(code int32, reason string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(int(code))
		_ = json.NewEncoder(w).Encode(metav1.Status{
			TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: code, Message: reason + ": no",
			Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: metav1.CauseType(reason)}}},
		})
	}
}

func hangsUp(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

func TestTransientErrorsAreRetried(t *testing.T) {
	image := reportsv1.Image{ObjectMeta: metav1.ObjectMeta{Name: "api"}}
	f := answering(t, hangsUp, status(http.StatusTooManyRequests, "Retry-After", "7"), status(http.StatusInternalServerError),
		status(http.StatusServiceUnavailable, "Retry-After", "900"), says(image))
	var got reportsv1.Image
	f.options.Patience = time.Hour
	if _, err := f.Get(t.Context(), "shop", Images, "api", &got); err != nil || got.Name != "api" {
		t.Fatalf("%v, %q", err, got.Name)
	}
	// 900 s are not believed.
	if diff := cmp.Diff([]time.Duration{time.Second, 7 * time.Second, 4 * time.Second, 30 * time.Second}, f.waited); diff != "" {
		t.Error(diff)
	}
}

func TestServerTimeIsUsed(t *testing.T) {
	then := start.Add(-time.Hour)
	f := answering(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Date", then.Format(http.TimeFormat))
		says(reportsv1.Image{})(w, r)
	})
	var image reportsv1.Image
	if now, err := f.Get(t.Context(), "shop", Images, "api", &image); err != nil || !now.Equal(then) {
		t.Errorf("%v, %v", now, err)
	}
}

func TestRetriesEnd(t *testing.T) {
	f := answering(t, status(http.StatusServiceUnavailable))
	var image reportsv1.Image
	_, err := f.Get(t.Context(), "shop", Images, "api", &image)
	if !IsUnavailable(err) || f.Now().After(start.Add(Short)) {
		t.Errorf("%v at %v", err, f.Now())
	}
}

func TestRefusalsAreReportedAtOnce(t *testing.T) {
	for _, code := range []int32{http.StatusBadRequest, http.StatusNotFound, http.StatusConflict, http.StatusForbidden, http.StatusRequestEntityTooLarge} {
		f := answering(t, refuses(code, "ThisReason"))
		var image reportsv1.Image
		_, err := f.Get(t.Context(), "shop", Images, "api", &image)
		if ReasonOf(err) != "ThisReason" || IsUnavailable(err) || f.tries != 1 {
			t.Errorf("%d: %v after %d tries", code, err, f.tries)
		}
	}
}

func TestCanceledCallEnds(t *testing.T) {
	f := answering(t, status(http.StatusServiceUnavailable))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var image reportsv1.Image
	if _, err := f.Get(ctx, "shop", Images, "api", &image); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// A document is sent whole at each try, with the sum of all its files.
func TestUploadsBeginAnew(t *testing.T) {
	dir := t.TempDir()
	var files []string
	for i, text := range []string{strings.Repeat("first\n", 50_000), "second\n"} {
		files = append(files, filepath.Join(dir, strconv.Itoa(i)))
		if err := os.WriteFile(files[i], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var got http.Header
	length := 0
	f := answering(t, hangsUp, status(http.StatusTooManyRequests, "Retry-After", "1"), func(w http.ResponseWriter, r *http.Request) {
		got = r.Header
		decoder, err := zstd.NewReader(r.Body)
		if err != nil {
			t.Error(err)
			return
		}
		defer decoder.Close()
		body, err := io.ReadAll(decoder)
		if err != nil {
			t.Error(err)
		}
		length = len(body)
		says(reportsv1.UploadAnswer{Changed: true, Findings: 3})(w, r)
	})
	answer, err := f.PutFindings(t.Context(), "shop", "api", "mine", reportsv1.FindingsUpload{Shareable: true}, files...)
	if err != nil || !answer.Changed || answer.Findings != 3 || length != 300_007 {
		t.Fatalf("%v %+v, %d bytes", err, answer, length)
	}
	spec, err := base64.StdEncoding.DecodeString(got.Get(reportsv1.HeaderSpec))
	if err != nil || !strings.Contains(string(spec), `"shareable":true`) || got.Get(reportsv1.HeaderClaim) != "mine" || len(got.Get(reportsv1.HeaderSHA256)) != 64 {
		t.Errorf("%v: %s, %v", err, spec, got)
	}
}

func TestListsHavePages(t *testing.T) {
	page := func(next string, names ...string) http.HandlerFunc {
		list := reportsv1.ImageList{ListMeta: metav1.ListMeta{Continue: next}}
		for _, name := range names {
			list.Items = append(list.Items, reportsv1.Image{ObjectMeta: metav1.ObjectMeta{Name: name}})
		}
		return says(list)
	}
	f := answering(t, page("more", "a", "b"), page("", "c"))
	var names []string
	err := List(t.Context(), f.Client, "shop", Images, Selector("spec.repository", "a=b"), func(i *reportsv1.Image) error {
		names = append(names, i.Name)
		return nil
	})
	if err != nil || strings.Join(names, " ") != "a b c" {
		t.Errorf("%v %v", names, err)
	}
}

func TestTruncatedTagListIsAnError(t *testing.T) {
	for text, want := range map[string]int{`{"tags":[{"tag":"1"},{"tag":"2"}]}`: 2, `{"tags":[]}`: 0, `{"tags":[{"tag":"1"}`: -1, `{"tags":[{"tag":"1"},`: -1, `[]`: -1} {
		tags, err := readTags(strings.NewReader(text))
		if want < 0 != (err != nil) || err == nil && len(tags) != want {
			t.Errorf("%s: %d, %v", text, len(tags), err)
		}
	}
}

func TestReuseWithoutReport(t *testing.T) {
	f := answering(t, refuses(http.StatusNotFound, reportsv1.ReasonNothingToReuse))
	// The reason of Kubernetes is what IsNotFound asks for; the code alone tells the same.
	answer, err := f.Reuse(t.Context(), "shop", "api", "mine", reportsv1.ReuseRequest{})
	if err != nil || answer.SBOM || answer.Report {
		t.Errorf("%+v, %v", answer, err)
	}
}
