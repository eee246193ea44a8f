// SPDX-License-Identifier: Apache-2.0

package discovery_test

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/scanyard/scanyard/registry/internal/discovery"
	"github.com/scanyard/scanyard/registry/internal/distribution"
	"github.com/scanyard/scanyard/registry/internal/filter"
	"github.com/scanyard/scanyard/registry/internal/registrytest"
)

const (
	amd64 = "linux/amd64"
	arm64 = "linux/arm64"
)

func TestUnchanged(t *testing.T) {
	w := newWorld(t, `{}`)
	for i := range 2500 {
		w.Push(repository, fmt.Sprintf("v%04d", i), image(amd64, strconv.Itoa(i%250), day(1)))
	}
	first := w.discover()
	if got := w.requests(); got != "3 lists, 2500 HEADs, 250 manifests, 250 configs" {
		t.Error(got)
	}
	if len(first.Tags) != 2500 || len(first.Resolved) != 250 || !first.Complete || w.store.writes == 0 {
		t.Error(len(first.Tags), len(first.Resolved), first.Complete, w.store.writes)
	}
	second := w.discover()
	if got := w.requests(); got != "3 lists, 2500 HEADs, 0 manifests, 0 configs" {
		t.Error(got)
	}
	if diff := cmp.Diff(first.Tags, second.Tags); diff != "" || len(second.Resolved) != 0 || w.store.writes != 0 {
		t.Error(diff, len(second.Resolved), w.store.writes)
	}
	w.input.ImmutableTags = []string{"*"}
	third := w.discover()
	if got := w.requests(); got != "3 lists, 0 HEADs, 0 manifests, 0 configs" {
		t.Error(got)
	}
	if diff := cmp.Diff(first.Tags, third.Tags); diff != "" {
		t.Error(diff)
	}
	w.input.Force = true
	w.discover()
	if got := w.Count("GET manifests"); got != 250 {
		t.Errorf("%d manifests by force", got)
	}
}

func TestDigestOnce(t *testing.T) {
	w := newWorld(t, `{"platforms":["linux/amd64"]}`)
	for _, tag := range []string{"a", "b", "c"} {
		w.Index(repository, tag, image(amd64, "one", day(1)), image(arm64, "two", day(2)))
	}
	w.expect(w.discover(), "a=linux/amd64 b=linux/amd64 c=linux/amd64", "1 lists, 3 HEADs, 2 manifests, 1 configs")
	// A further tag of the digest costs no more than its HEAD.
	w.Index(repository, "d", image(amd64, "one", day(1)), image(arm64, "two", day(2)))
	w.expect(w.discover(), "a=linux/amd64 b=linux/amd64 c=linux/amd64 d=linux/amd64", "1 lists, 4 HEADs, 0 manifests, 0 configs")
	// Another filter wants another platform of the same digest.
	w.input.Filter, w.input.FilterChanged = compile(t, `{"platforms":["linux/arm64"]}`), true
	w.expect(w.discover(), "a=linux/arm64 b=linux/arm64 c=linux/arm64 d=linux/arm64", "1 lists, 4 HEADs, 2 manifests, 1 configs")
	w.input.FilterChanged = false
	w.expect(w.discover(), "a=linux/arm64 b=linux/arm64 c=linux/arm64 d=linux/arm64", "1 lists, 4 HEADs, 0 manifests, 0 configs")
	w.input.Filter, w.input.FilterChanged = compile(t, `{"platforms":["windows/*"]}`), true
	none := "a:PlatformNotSelected b:PlatformNotSelected c:PlatformNotSelected d:PlatformNotSelected; NothingSelected:1"
	w.expect(w.discover(), none, "1 lists, 4 HEADs, 0 manifests, 0 configs")
	w.input.FilterChanged = false
	w.expect(w.discover(), none, "1 lists, 4 HEADs, 0 manifests, 0 configs")
}

func TestAskedFor(t *testing.T) {
	for name, c := range map[string]struct{ filter, want, requests string }{
		"ByName":        {`{"tags":{"exclude":["b"],"semver":{}}}`, "1.0.0=linux/amd64 2.0.0=linux/amd64 3.0.0=linux/amd64 a:NotAVersion b:Excluded", "1 lists, 3 HEADs, 3 manifests, 3 configs"},
		"NewestName":    {`{"tags":{"newest":1,"newestBy":"Name"}}`, "1.0.0:NotNewest 2.0.0:NotNewest 3.0.0:NotNewest a:NotNewest b=linux/amd64", "1 lists, 5 HEADs, 1 manifests, 1 configs"},
		"NewestSemVer":  {`{"tags":{"newest":1,"newestBy":"SemVer"}}`, "1.0.0:NotNewest 2.0.0:NotNewest 3.0.0=linux/amd64 a:NotAVersion b:NotAVersion", "1 lists, 3 HEADs, 1 manifests, 1 configs"},
		"NewestCreated": {`{"tags":{"newest":1}}`, "1.0.0=linux/amd64 2.0.0:NotNewest 3.0.0:NotNewest a:NotNewest b:NotNewest", "1 lists, 5 HEADs, 5 manifests, 5 configs"},
		"MaxAge":        {`{"tags":{"maxAge":"5d"}}`, "1.0.0=linux/amd64 2.0.0:TooOld 3.0.0:TooOld a:TooOld b:TooOld", "1 lists, 5 HEADs, 5 manifests, 5 configs"},
		"Expression":    {`{"tags":{"expression":"tag == 'a'"}}`, "1.0.0:ExpressionFalse 2.0.0:ExpressionFalse 3.0.0:ExpressionFalse a=linux/amd64 b:ExpressionFalse", "1 lists, 1 HEADs, 1 manifests, 1 configs"},
		"Dated":         {`{"tags":{"expression":"created < timestamp('2025-08-02T00:00:00Z')"}}`, "1.0.0:ExpressionFalse 2.0.0:ExpressionFalse 3.0.0:ExpressionFalse a=linux/amd64 b:ExpressionFalse", "1 lists, 5 HEADs, 5 manifests, 5 configs"},
		"OneTag":        {`{"repositories":["shop/api:a","shop/api:none"]}`, "a=linux/amd64", "0 lists, 2 HEADs, 1 manifests, 1 configs"},
		"OtherOnes":     {`{"repositories":["base/*"]}`, "", "0 lists, 0 HEADs, 0 manifests, 0 configs"},
		"Glob":          {`{"repositories":["shop/api:?.0.0"]}`, "1.0.0=linux/amd64 2.0.0=linux/amd64 3.0.0=linux/amd64 a:NotListed b:NotListed", "1 lists, 3 HEADs, 3 manifests, 3 configs"},
	} {
		w := newWorld(t, c.filter)
		for i, tag := range []string{"a", "b", "3.0.0", "2.0.0", "1.0.0"} {
			w.Push(repository, tag, image(amd64, tag, day(1+7*i)))
		}
		t.Log(name)
		w.expect(w.discover(), c.want, c.requests)
		// What was read to judge is not read again.
		again := w.discover()
		if got := told(again); got != c.want || w.Count("GET manifests")+w.Count("GET blobs") != 0 {
			t.Errorf("%s: the second time %s with %s", name, got, w.requests())
		}
	}
	w := newWorld(t, `{"tags":{"expression":"int(tag) > 0","onError":"Fail"}}`)
	w.Push(repository, "a", image(amd64, "a", day(1)))
	_, err := w.try()
	if failure, ok := errors.AsType[*filter.Error](err); !ok || failure.Field != "tags.expression" || w.Count("HEAD manifests") != 0 {
		t.Error(err, w.requests())
	}
}

// TestNewlySelected has a tag whose date is known and whose image nobody has stored: it is read once it is selected.
func TestNewlySelected(t *testing.T) {
	w := newWorld(t, `{"tags":{"newest":1}}`)
	w.Push(repository, "a", image(amd64, "a", day(1)))
	w.Push(repository, "b", image(amd64, "b", day(2)))
	w.expect(w.discover(), "a:NotNewest b=linux/amd64", "1 lists, 2 HEADs, 2 manifests, 2 configs")
	w.Remove(repository, "b")
	result := w.discover()
	w.expect(result, "a=linux/amd64; gone: b", "1 lists, 1 HEADs, 1 manifests, 1 configs")
	if len(result.Resolved) != 1 {
		t.Errorf("%d digests are told", len(result.Resolved))
	}
}

func TestDates(t *testing.T) {
	w := newWorld(t, `{"platforms":["linux/*"],"tags":{"newest":3}}`)
	index := func(tag, annotations string, digests ...string) {
		var entries []string
		for _, digest := range digests {
			entries = append(entries, fmt.Sprintf(`{"mediaType":%q,"digest":%q,"size":1}`, registrytest.TypeManifest, digest))
		}
		w.Manifest(repository, tag, registrytest.TypeIndex, []byte(fmt.Sprintf(`{"schemaVersion":2,"mediaType":%q,"annotations":{%s},"manifests":[%s]}`,
			registrytest.TypeIndex, annotations, strings.Join(entries, ","))))
	}
	old, recent := w.Push(repository, "old", image(amd64, "old", day(1))), w.Push(repository, "recent", image(arm64, "recent", day(10)))
	windows := w.Push(repository, "windows", image("windows/amd64", "w", day(20)))
	undated := w.Push(repository, "undated", image(amd64, "undated", time.Time{}))
	for _, tag := range []string{"old", "recent", "windows", "undated"} {
		w.Remove(repository, tag)
	}
	index("latest", "", old, recent, windows)
	index("annotated", `"org.opencontainers.image.created":"2025-08-05T00:00:00Z"`, undated)
	index("unknown", `"org.opencontainers.image.created":"some day"`, undated)
	result := w.discover()
	if got, want := told(result), "annotated=linux/amd64 latest=linux/amd64,linux/arm64 unknown=linux/amd64"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	for i, want := range []time.Time{day(5), day(10), {}} {
		if got := result.Tags[i]; !got.Created.Equal(want) || !got.FirstSeen.Equal(start) {
			t.Errorf("%s: %v, first seen %v", got.Name, got.Created, got.FirstSeen)
		}
	}
	if got := strings.Join(result.Tags[1].Platforms, " "); got != "linux/amd64 linux/arm64 windows/amd64" {
		t.Error(got)
	}
	w.clock.Set(start.Add(24 * time.Hour))
	for _, tag := range w.discover().Tags {
		if !tag.FirstSeen.Equal(start) {
			t.Errorf("%s: first seen %v the second time", tag.Name, tag.FirstSeen)
		}
	}
}

// TestBrokenTag is fault F17: one broken manifest among many tags is one warning.
func TestBrokenTag(t *testing.T) {
	w := newWorld(t, `{}`)
	for i := range 499 {
		w.Push(repository, fmt.Sprintf("v%03d", i), image(amd64, strconv.Itoa(i), day(1)))
	}
	w.Manifest(repository, "broken", registrytest.TypeManifest, []byte(`{"schemaVersion":2,"layers":7}`))
	w.Manifest(repository, "chart", registrytest.TypeManifest, []byte(`{"schemaVersion":2,"artifactType":"application/x","config":{},"layers":[]}`))
	w.Manifest(repository, "half", registrytest.TypeIndex, []byte(`{"schemaVersion":2,"manifests":[{"mediaType":"application/vnd.oci.empty.v1+json"}]}`))
	for range 2 {
		result := w.discover()
		selected := 0
		for _, tag := range result.Tags {
			if tag.Selected {
				selected++
			}
		}
		if _, warnings, _ := strings.Cut(told(result), "; "); selected != 499 || warnings != "InvalidDescriptor:1 InvalidManifest:1" {
			t.Error(selected, warnings)
		}
		if got := result.Tags[0]; got.Name != "broken" || got.Reason != "InvalidManifest" {
			t.Error(got)
		}
	}
	if got := w.requests(); got != "1 lists, 502 HEADs, 0 manifests, 0 configs" {
		t.Errorf("the second time: %s", got)
	}
}

// TestBrokenTakesNoPlace: newest counts images, so a tag that has none makes place for the next one, whatever newest goes by.
func TestBrokenTakesNoPlace(t *testing.T) {
	for by, requests := range map[string]string{
		"SemVer": "1 lists, 5 HEADs, 4 manifests, 2 configs", "Name": "1 lists, 5 HEADs, 4 manifests, 2 configs", "Created": "1 lists, 5 HEADs, 5 manifests, 3 configs",
	} {
		w := newWorld(t, `{"tags":{"newest":2,"newestBy":"`+by+`"}}`)
		for i, tag := range []string{"1.0.0", "2.0.0", "3.0.0"} {
			w.Push(repository, tag, image(amd64, tag, day(1+i)))
		}
		w.Manifest(repository, "4.0.0", registrytest.TypeManifest, []byte(`{"schemaVersion":2,"layers":7}`))
		w.Manifest(repository, "5.0.0", registrytest.TypeManifest, []byte(`{"schemaVersion":2,"config":7}`))
		t.Log(by)
		want := "1.0.0:NotNewest 2.0.0=linux/amd64 3.0.0=linux/amd64 4.0.0:InvalidManifest 5.0.0:InvalidManifest; InvalidManifest:2"
		w.expect(w.discover(), want, requests)
		if got := told(w.discover()); got != want || w.Count("GET manifests") != 0 {
			t.Errorf("the second time: %s, %s", got, w.requests())
		}
	}
}

// TestMayHeal has an index whose image comes later.
func TestMayHeal(t *testing.T) {
	w := newWorld(t, `{}`)
	digest := w.Push(repository, "part", image(amd64, "x", day(1)))
	w.Remove(repository, "part")
	var away atomic.Bool
	away.Store(true)
	w.Before = func(out http.ResponseWriter, r *http.Request) bool {
		gone := away.Load() && strings.HasSuffix(r.URL.Path, digest)
		if gone {
			out.WriteHeader(http.StatusNotFound)
		}
		return gone
	}
	w.Manifest(repository, "index", registrytest.TypeIndex,
		[]byte(fmt.Sprintf(`{"schemaVersion":2,"manifests":[{"mediaType":%q,"digest":%q,"size":1}]}`, registrytest.TypeManifest, digest)))
	if got := told(w.discover()); got != "index:ManifestMissing; ManifestMissing:1 NothingSelected:1" {
		t.Error(got)
	}
	away.Store(false)
	if got := told(w.discover()); got != "index=linux/amd64" {
		t.Error(got)
	}
}

// TestGone is fault F18: 404 is a repository that is gone, 403 is an error.
func TestGone(t *testing.T) {
	w := newWorld(t, `{}`)
	w.Push(repository, "a", image(amd64, "a", day(1)))
	w.Push(repository, "b", image(amd64, "b", day(1)))
	w.discover()
	known := w.input.Known
	status, body := http.StatusForbidden, `{"errors":[{"code":"DENIED"}]}`
	w.Before = func(out http.ResponseWriter, _ *http.Request) bool {
		out.WriteHeader(status)
		fmt.Fprint(out, body)
		return true
	}
	result, err := w.try()
	if distribution.ReasonOf(err) != distribution.Forbidden || result.Complete || len(result.Gone) != 0 {
		t.Error(told(result), err)
	}
	if len(w.store.last.Tags) != 2 || w.store.last.Cursor != "" {
		t.Error("what is known is lost:", w.store.last)
	}
	w.input.Known = known
	status, body = http.StatusNotFound, `{"errors":[{"code":"NAME_UNKNOWN"}]}`
	w.expect(w.discover(), "; RepositoryGone:1; gone: a b", "1 lists, 0 HEADs, 0 manifests, 0 configs")
	w.input.Known = known
	w.input.Filter = compile(t, `{"excludeRepositories":["shop/*"]}`)
	if result := w.discover(); result.Selected || len(result.Gone) != 2 {
		t.Error(told(result))
	}
	w.Before = nil
}

// TestTruncatedList is fault F19: nothing is taken for gone, and the next try goes on at the cursor.
func TestTruncatedList(t *testing.T) {
	w := newWorld(t, `{}`)
	push := func(from, to int) {
		for i := from; i < to; i++ {
			w.Push(repository, fmt.Sprintf("v%04d", i), image(amd64, "same", day(1)))
		}
	}
	push(0, 2500)
	w.discover()
	w.Remove(repository, "v0001")
	w.Remove(repository, "v2400")
	push(2500, 2502)
	w.Before = func(out http.ResponseWriter, r *http.Request) bool {
		broken := r.URL.Query().Get("last") == "v2000"
		if broken {
			out.WriteHeader(http.StatusForbidden)
		}
		return broken
	}
	result, err := w.try()
	if distribution.ReasonOf(err) != distribution.Forbidden || result.Complete || len(result.Gone) != 0 || len(result.Tags) != 2000 {
		t.Error(len(result.Tags), len(result.Gone), result.Complete, err)
	}
	if w.store.last.Cursor != "v2000" || len(w.store.last.Tags) != 2500 {
		t.Error(w.store.last.Cursor, len(w.store.last.Tags))
	}
	w.Before = nil
	w.resume()
	result = w.discover()
	if got := w.requests(); got != "1 lists, 500 HEADs, 0 manifests, 0 configs" {
		t.Error(got)
	}
	_, rest, _ := strings.Cut(told(result), "; ")
	if len(result.Tags) != 2500 || rest != "gone: v0001 v2400" {
		t.Error(len(result.Tags), rest)
	}
}

// TestLoop has a list without an end.
func TestLoop(t *testing.T) {
	w := newWorld(t, `{}`)
	w.Push(repository, "a", image(amd64, "a", day(1)))
	w.discover()
	w.Push(repository, "b", image(amd64, "b", day(1)))
	w.Remove(repository, "a")
	w.Before = func(out http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "/tags/list") {
			out.Header().Set("Link", `<list?last=b>; rel="next"`)
		}
		return false
	}
	w.expect(w.discover(), "b=linux/amd64; TagLoop:1", "2 lists, 1 HEADs, 1 manifests, 1 configs")
}

// TestMoves is fault F20: a tag that points elsewhere is seen, with the new image alone.
func TestMoves(t *testing.T) {
	w := newWorld(t, `{}`)
	before := w.Push(repository, "latest", image(amd64, "one", day(1)))
	if got := w.discover().Tags[0].Digest; got != before {
		t.Error(got)
	}
	w.clock.Set(start.Add(time.Hour))
	after := w.Push(repository, "latest", image(arm64, "two", day(2)))
	result := w.discover()
	w.expect(result, "latest=linux/arm64", "1 lists, 1 HEADs, 1 manifests, 1 configs")
	if got := result.Tags[0]; got.Digest != after || !got.FirstSeen.Equal(start.Add(time.Hour)) || len(result.Resolved) != 1 {
		t.Error(got)
	}
	// A tag that goes away between the list and its HEAD is not an error.
	w.Before = func(out http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodHead {
			out.WriteHeader(http.StatusNotFound)
		}
		return r.Method == http.MethodHead
	}
	w.expect(w.discover(), "; gone: latest", "1 lists, 1 HEADs, 0 manifests, 0 configs")
}

// TestPasswordChanges is fault F16: one refusal ends the item, and a new Secret goes on where it was.
func TestPasswordChanges(t *testing.T) {
	w := newWorld(t, `{}`)
	for i := range 1500 {
		w.Push(repository, fmt.Sprintf("v%04d", i), image(amd64, "same", day(1)))
	}
	undisturbed := w.discover()
	var password atomic.Value
	password.Store("old")
	var heads, refusals atomic.Int64
	w.Before = func(out http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodHead && heads.Add(1) == 1200 {
			password.Store("new")
		}
		if _, got, _ := r.BasicAuth(); got == password.Load() {
			return false
		}
		if r.Header.Get("Authorization") != "" {
			refusals.Add(1)
		}
		out.Header().Set("WWW-Authenticate", `Basic realm="x"`)
		out.WriteHeader(http.StatusUnauthorized)
		return true
	}
	w.password, w.input.Known, w.input.Parallel = "old", nil, 1
	w.connect()
	if _, err := w.try(); distribution.ReasonOf(err) != distribution.Unauthorized {
		t.Fatal(err)
	}
	if got := refusals.Load(); got != 1 {
		t.Errorf("%d refusals", got)
	}
	w.password = "new"
	w.connect()
	w.resume()
	result := w.discover()
	if got := w.Count("HEAD manifests"); got > 500 {
		t.Errorf("%d HEADs after the break", got)
	}
	if diff := cmp.Diff(undisturbed.Tags, result.Tags); diff != "" {
		t.Error(diff)
	}
}

// TestThrottled is fault F14: a registry that wants half of the requests to come later gives the same result.
func TestThrottled(t *testing.T) {
	w := newWorld(t, `{}`)
	for i := range 20 {
		w.Push(repository, fmt.Sprintf("v%04d", i), image(amd64, strconv.Itoa(i), day(1)))
	}
	undisturbed := w.discover()
	var n atomic.Int64
	w.Before = func(out http.ResponseWriter, _ *http.Request) bool {
		if n.Add(1)%2 == 0 {
			return false
		}
		out.Header().Set("Retry-After", "2")
		out.WriteHeader(http.StatusTooManyRequests)
		return true
	}
	w.input.Known, w.input.Parallel = nil, 1
	result := w.discover()
	for i := range result.Tags {
		result.Tags[i].FirstSeen = undisturbed.Tags[i].FirstSeen
	}
	if diff := cmp.Diff(undisturbed.Tags, result.Tags); diff != "" {
		t.Error(diff)
	}
	w.Before = func(out http.ResponseWriter, _ *http.Request) bool {
		out.Header().Set("Retry-After", "120")
		out.WriteHeader(http.StatusTooManyRequests)
		return true
	}
	_, err := w.try()
	e, ok := errors.AsType[*distribution.Error](err)
	if !ok || e.Reason != distribution.RateLimited || !e.NotBefore.Equal(w.clock.Now().Add(2*time.Minute)) {
		t.Error(err)
	}
}

// TestCheckpoints breaks discoveries off everywhere and wants the result of an undisturbed one.
func TestCheckpoints(t *testing.T) {
	w := newWorld(t, `{"tags":{"newest":1500}}`)
	for i := range 2200 {
		w.Push(repository, fmt.Sprintf("v%04d", i), image(amd64, strconv.Itoa(i%40), day(1)))
	}
	undisturbed := w.discover()
	if w.store.writes != 2 || w.store.last.Cursor != "v1999" {
		t.Error(w.store.writes, w.store.last.Cursor)
	}
	var left atomic.Int64
	w.Before = func(out http.ResponseWriter, _ *http.Request) bool {
		broken := left.Add(-1) < 0
		if broken {
			out.WriteHeader(http.StatusForbidden)
		}
		return broken
	}
	w.input.Known, w.input.Cursor = nil, ""
	var result discovery.Result
	for tries := 0; ; tries++ {
		left.Store(700)
		var err error
		if result, err = w.try(); err == nil {
			break
		}
		w.resume()
		if tries > 20 {
			t.Fatal("no progress:", err)
		}
	}
	if diff := cmp.Diff(undisturbed.Tags, result.Tags); diff != "" || len(result.Gone) != 0 || !result.Complete {
		t.Error(diff, len(result.Gone), result.Complete)
	}
	w.Before = nil
	w.store.err = errors.New("not today")
	w.input.Known, w.input.Cursor = nil, ""
	if _, err := w.try(); !errors.Is(err, w.store.err) {
		t.Error(err)
	}
	w.store.err = nil
	// Without anything new a checkpoint is written after 30 s.
	w.input.Known, w.input.Cursor = result.Tags, ""
	w.Before = func(http.ResponseWriter, *http.Request) bool {
		w.clock.Add(100 * time.Millisecond)
		return false
	}
	w.discover()
	if w.store.writes < 2 || w.store.writes > 6 {
		t.Errorf("%d writes in 220 s", w.store.writes)
	}
}

func TestPins(t *testing.T) {
	w := newWorld(t, `{}`)
	one, two := w.Push(repository, "v1", image(amd64, "one", day(1))), w.Push(repository, "v2", image(arm64, "two", day(1)))
	missing := registrytest.Digest([]byte("missing"))
	w.input.Filter = compile(t, fmt.Sprintf(`{"repositories":["shop/api@%s","shop/api@%s","shop/api:v2@%s"]}`, one, missing, one))
	result := w.discover()
	w.expect(result, "=linux/amd64 :ManifestMissing v2=linux/amd64; DigestMoved:1 ManifestMissing:1", "0 lists, 1 HEADs, 2 manifests, 1 configs")
	if result.Tags[0].Digest != one || result.Tags[2].Digest != one {
		t.Error(result.Tags)
	}
	w.input.Filter = compile(t, fmt.Sprintf(`{"repositories":["shop/api:v2@%s"]}`, two))
	w.expect(w.discover(), "v2=linux/arm64; gone:  ", "0 lists, 1 HEADs, 1 manifests, 1 configs")
}

func TestNoHead(t *testing.T) {
	w := newWorld(t, `{}`)
	for _, tag := range []string{"a", "b", "c"} {
		w.Push(repository, tag, image(amd64, "same", day(1)))
	}
	var same atomic.Int64
	w.Before = func(out http.ResponseWriter, r *http.Request) bool {
		switch {
		case r.Method == http.MethodHead:
			out.WriteHeader(http.StatusMethodNotAllowed)
			return true
		case r.Header.Get("If-None-Match") == `"x"`:
			same.Add(1)
			out.WriteHeader(http.StatusNotModified)
			return true
		}
		out.Header().Set("ETag", `"x"`)
		return false
	}
	w.input.Parallel = 1
	// The document of the GET by tag is that of the digest: it is not fetched again.
	w.expect(w.discover(), "a=linux/amd64 b=linux/amd64 c=linux/amd64; NoHead:1", "1 lists, 1 HEADs, 3 manifests, 1 configs")
	w.connect()
	w.expect(w.discover(), "a=linux/amd64 b=linux/amd64 c=linux/amd64; NoHead:1", "1 lists, 1 HEADs, 3 manifests, 0 configs")
	if got := same.Load(); got != 3 {
		t.Errorf("%d answers of 304", got)
	}
}
