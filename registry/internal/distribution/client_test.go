// SPDX-License-Identifier: Apache-2.0

package distribution_test

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/scanyard/scanyard/registry/internal/distribution"
	"github.com/scanyard/scanyard/registry/internal/egress"
	"github.com/scanyard/scanyard/registry/internal/manifest"
	"github.com/scanyard/scanyard/registry/internal/registrytest"
)

var amd64 = registrytest.Image{Platform: "linux/amd64"}

func TestTag(t *testing.T) {
	r := registrytest.NewTLS(t)
	digest := r.Push("shop/api", "v1", amd64)
	f := connect(t, r)
	p, found, err := f.Tag(t.Context(), "shop/api", "v1", distribution.Pointer{})
	if err != nil || !found || p.Digest != digest || p.MediaType != registrytest.TypeManifest || p.Document != nil {
		t.Fatal(p, found, err)
	}
	if _, found, err = f.Tag(t.Context(), "shop/api", "v2", distribution.Pointer{}); err != nil || found {
		t.Error("a tag that is not there:", found, err)
	}
	document, found, err := f.Manifest(t.Context(), "shop/api", digest)
	if err != nil || !found || registrytest.Digest(document.Body) != digest || document.ContentType != registrytest.TypeManifest {
		t.Error(document, found, err)
	}
	if _, found, err = f.Config(t.Context(), "shop/api", digest); err != nil || found {
		t.Error("a config that is not there:", found, err)
	}
	if f.NoHead() || r.Count("GET manifests") != 1 {
		t.Error("tags are asked for by GET")
	}
}

func TestNoHead(t *testing.T) {
	for name, hide := range map[string]func(w http.ResponseWriter, r *http.Request) bool{
		"NotAllowed": func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method == http.MethodHead {
				w.WriteHeader(http.StatusMethodNotAllowed)
			}
			return r.Method == http.MethodHead
		},
		"NoDigest": func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method == http.MethodHead {
				w.WriteHeader(http.StatusOK)
			}
			return r.Method == http.MethodHead
		},
	} {
		r := registrytest.New(t)
		digest := r.Push("a", "v1", amd64)
		r.Before = func(w http.ResponseWriter, request *http.Request) bool {
			if hide(w, request) {
				return true
			}
			w.Header().Set("ETag", `"one"`)
			if request.Header.Get("If-None-Match") == `"one"` {
				w.WriteHeader(http.StatusNotModified)
				return true
			}
			return false
		}
		f := connect(t, r)
		p, found, err := f.Tag(t.Context(), "a", "v1", distribution.Pointer{})
		if err != nil || !found || p.Digest != digest || p.ETag != `"one"` || p.Document == nil || registrytest.Digest(p.Document.Body) != digest {
			t.Fatal(name, p, found, err)
		}
		p.Document = nil
		again, found, err := f.Tag(t.Context(), "a", "v1", p)
		if err != nil || !found || again.Digest != digest || again.Document != nil {
			t.Error(name, again, found, err)
		}
		if !f.NoHead() || r.Count("HEAD manifests") != 1 || r.Count("GET manifests") != 2 {
			t.Errorf("%s: %d HEADs, %d GETs", name, r.Count("HEAD manifests"), r.Count("GET manifests"))
		}
	}
}

// collect lists tags and gives names, cursors and the end.
func collect(t *testing.T, f fixture, cursor string) (names, cursors []string, listing distribution.Listing, err error) {
	t.Helper()
	listing, err = f.Tags(t.Context(), "a", cursor, func(p distribution.Page) error {
		names, cursors = append(names, p.Names...), append(cursors, p.Cursor)
		return nil
	})
	return names, cursors, listing, err
}

func many(r *registrytest.Registry, n int) []string {
	var names []string
	body := []byte(`{"schemaVersion":2}`)
	for i := range n {
		names = append(names, fmt.Sprintf("v%05d", i))
		r.Manifest("a", names[i], registrytest.TypeManifest, body)
	}
	return names
}

func TestTags(t *testing.T) {
	r := registrytest.New(t)
	all := many(r, 2500)
	f := connect(t, r)
	names, cursors, listing, err := collect(t, f, "")
	if err != nil || !listing.Complete || !slices.Equal(names, all) || !slices.Equal(cursors, []string{all[999], all[1999], all[2499]}) {
		t.Fatal(len(names), cursors, listing, err)
	}
	if got := r.Count("GET tags"); got != 3 {
		t.Errorf("%d lists, want 3", got)
	}
	if names, _, listing, err = collect(t, f, all[1999]); err != nil || !listing.Complete || !slices.Equal(names, all[2000:]) {
		t.Error(len(names), listing, err)
	}
	if _, _, listing, err = collect(t, connect(t, r), all[2499]); err != nil || !listing.Complete {
		t.Error(listing, err)
	}
	if _, err = f.Tags(t.Context(), "b", "", nil); distribution.ReasonOf(err) != distribution.RepositoryGone {
		t.Error(err)
	}
	mine := errors.New("stop")
	if _, err = f.Tags(t.Context(), "a", "", func(distribution.Page) error { return mine }); !errors.Is(err, mine) {
		t.Error(err)
	}
}

// TestPlainPages has the registry of go-containerregistry, which pages without Link.
func TestPlainPages(t *testing.T) {
	r := registrytest.New(t)
	all := many(r, 2000)
	r.Before = func(w http.ResponseWriter, request *http.Request) bool {
		n, last := request.URL.Query().Get("n"), request.URL.Query().Get("last")
		if n != "1000" {
			t.Errorf("n is %s", n)
		}
		from := 0
		if last != "" {
			from = slices.Index(all, last) + 1
		}
		if from == len(all) {
			fmt.Fprint(w, `{"tags":[]}`)
			return true
		}
		fmt.Fprintf(w, `{"tags":["%s"]}`, strings.Join(all[from:min(from+1000, len(all))], `","`))
		return true
	}
	names, _, listing, err := collect(t, connect(t, r), "")
	if err != nil || !listing.Complete || !slices.Equal(names, all) {
		t.Error(len(names), listing, err)
	}
}

func TestOddLists(t *testing.T) {
	page := func(link string, tags ...string) func(w http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			if link != "" {
				w.Header().Set("Link", link)
			}
			fmt.Fprintf(w, `{"tags":["%s"]}`, strings.Join(tags, `","`))
		}
	}
	text := func(status int, body string) func(w http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			w.WriteHeader(status)
			fmt.Fprint(w, body)
		}
	}
	for name, c := range map[string]struct {
		pages   []func(w http.ResponseWriter)
		want    string
		listing distribution.Listing
		reason  distribution.Reason
	}{
		"Null":       {[]func(http.ResponseWriter){text(200, `{"name":"a","tags":null}`)}, "", distribution.Listing{Complete: true}, ""},
		"Absent":     {[]func(http.ResponseWriter){text(200, `{"name":"a"}`)}, "", distribution.Listing{Complete: true}, ""},
		"Loop":       {[]func(http.ResponseWriter){page(`</v2/a/tags/list?last=x>; rel="next"`, "x"), page(`</v2/a/tags/list?last=x>; rel="next"`, "x")}, "x", distribution.Listing{Code: "TagLoop"}, ""},
		"EmptyLoop":  {[]func(http.ResponseWriter){page(`</v2/a/tags/list?last=x>; rel="next"`, "x"), func(w http.ResponseWriter) { w.Header().Set("Link", `<?last=y>; rel=next`); text(200, `{}`)(w) }}, "x", distribution.Listing{Code: "TagLoop"}, ""},
		"Foreign":    {[]func(http.ResponseWriter){page(`<https://evil.example.org/v2/a/tags/list?last=x>; rel="next"`, "x")}, "x", distribution.Listing{Code: "ForeignLink"}, ""},
		"Relative":   {[]func(http.ResponseWriter){page(`<list?last=x>; rel="next"`, "x"), page("", "y")}, "x y", distribution.Listing{Complete: true}, ""},
		"BreaksOff":  {[]func(http.ResponseWriter){page(`<list?last=x>; rel="next"`, "x"), text(404, `{"errors":[{"code":"UNKNOWN"}]}`)}, "x", distribution.Listing{}, distribution.NotFound},
		"NoJSON":     {[]func(http.ResponseWriter){text(200, "<html>")}, "", distribution.Listing{}, distribution.NoRegistry},
		"TooLarge":   {[]func(http.ResponseWriter){text(200, `{"tags":["x"]}`+strings.Repeat(" ", 4<<20))}, "", distribution.Listing{Code: "ListTooLong"}, ""},
		"Gone":       {[]func(http.ResponseWriter){text(404, `{"errors":[{"code":"NAME_UNKNOWN"}]}`)}, "", distribution.Listing{}, distribution.RepositoryGone},
		"OtherGone":  {[]func(http.ResponseWriter){text(404, "not here")}, "", distribution.Listing{}, distribution.NotFound},
		"Forbidden":  {[]func(http.ResponseWriter){text(403, `{"errors":[{"code":"DENIED"}]}`)}, "", distribution.Listing{}, distribution.Forbidden},
		"Teapot":     {[]func(http.ResponseWriter){text(418, "")}, "", distribution.Listing{}, distribution.NoRegistry},
		"Duplicates": {[]func(http.ResponseWriter){page("", "x", "x", "y")}, "x y", distribution.Listing{Complete: true}, ""},
	} {
		r := registrytest.New(t)
		r.Before = func(w http.ResponseWriter, _ *http.Request) bool {
			c.pages[min(r.Count("GET tags"), len(c.pages))-1](w)
			return true
		}
		names, _, listing, err := collect(t, connect(t, r), "")
		if strings.Join(names, " ") != c.want || listing != c.listing || distribution.ReasonOf(err) != c.reason {
			t.Errorf("%s: %v %+v %v", name, names, listing, err)
		}
		if got := r.Count("GET tags"); got != len(c.pages) {
			t.Errorf("%s: %d lists, want %d", name, got, len(c.pages))
		}
	}
}

func TestTooManyTags(t *testing.T) {
	r := registrytest.New(t)
	r.Before = func(w http.ResponseWriter, request *http.Request) bool {
		from := 0
		if last := request.URL.Query().Get("last"); last != "" {
			from, _ = strconv.Atoi(last)
		}
		names := make([]string, 50_000)
		for i := range names {
			names[i] = strconv.Itoa(from + i + 1)
		}
		w.Header().Set("Link", fmt.Sprintf(`<list?last=%d>; rel="next"`, from+len(names)))
		fmt.Fprintf(w, `{"tags":["%s"]}`, strings.Join(names, `","`))
		return true
	}
	names, _, listing, err := collect(t, connect(t, r), "")
	if err != nil || len(names) != 200_000 || listing != (distribution.Listing{Code: "ListTooLong"}) || r.Count("GET tags") != 4 {
		t.Error(len(names), listing, err)
	}
}

func TestCatalog(t *testing.T) {
	r := registrytest.New(t)
	for _, name := range []string{"base/debian", "shop/api", "shop/web"} {
		r.Push(name, "v1", amd64)
	}
	var names []string
	listing, err := connect(t, r).Catalog(t.Context(), "", func(p distribution.Page) error {
		names = append(names, p.Names...)
		return nil
	})
	slices.Sort(names)
	if err != nil || !listing.Complete || strings.Join(names, " ") != "base/debian shop/api shop/web" {
		t.Error(names, listing, err)
	}
	for status, want := range map[int]distribution.Reason{
		401: distribution.CatalogForbidden, 403: distribution.CatalogForbidden, 404: distribution.CatalogNotSupported, 405: distribution.CatalogNotSupported,
		501: distribution.CatalogNotSupported, 400: distribution.NoRegistry,
	} {
		r.Before = func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
			w.WriteHeader(status)
			return true
		}
		if _, err := connect(t, r).Catalog(t.Context(), "", nil); distribution.ReasonOf(err) != want {
			t.Errorf("%d: %v, want %s", status, err, want)
		}
	}
	for _, c := range []struct {
		kind, host string
		want       bool
	}{
		{"oci", "registry.example.com", true},
		{"docker", "docker.io", false},
		{"docker", "registry.example.com", true},
		{"GHCR", "ghcr.example.com", false},
		{"oci", "ghcr.io", false},
		{"ecr", "public.ecr.aws", false},
		{"ecr", "1.dkr.ecr.eu-west-1.amazonaws.com", true},
		{"gcr", "europe-docker.pkg.dev", false},
		{"gcr", "gcr.io", true},
		{"ACR", "shop.azurecr.io", true},
		{"oci", "index.docker.io", false},
	} {
		if got := distribution.HasCatalog(c.kind, c.host); got != c.want {
			t.Errorf("%s %s: %v", c.kind, c.host, got)
		}
	}
}

// TestEgressRedirect has redirects of a registry, good ones and those into the cluster.
func TestEgressRedirect(t *testing.T) {
	r := registrytest.NewTLS(t)
	digest := r.Push("a", "v1", amd64)
	cdn := registrytest.NewTLS(t)
	var authorization atomic.Value
	authorization.Store("")
	cdn.Before = func(w http.ResponseWriter, request *http.Request) bool {
		authorization.Store(request.Header.Get("Authorization"))
		fmt.Fprint(w, "config")
		return true
	}
	target := ""
	hops := 0
	r.Before = func(w http.ResponseWriter, request *http.Request) bool {
		if _, _, ok := request.BasicAuth(); !ok {
			w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
			w.WriteHeader(http.StatusUnauthorized)
			return true
		}
		hops++
		w.Header().Set("Location", strings.ReplaceAll(target, "HOP", strconv.Itoa(hops)))
		w.WriteHeader(http.StatusTemporaryRedirect)
		return true
	}
	config := func(t *testing.T) (manifest.Document, error) {
		hops = 0
		d, _, err := connect(t, r, secret(t, "registry.example.com", "registry.example.com=u:p")).Config(t.Context(), "a", digest)
		return d, err
	}
	target = "https://cdn.example.com:" + cdn.Port() + "/blob?signature=secret"
	document, err := config(t)
	if err != nil || string(document.Body) != "config" {
		t.Fatal(document, err)
	}
	if got := authorization.Load(); got != "" {
		t.Errorf("the other host got %q", got)
	}
	for name, c := range map[string]struct{ target, want string }{
		"Inner":     {"https://inner.example.org/blob?signature=secret", "HostNotAllowed: registry.example.com leads to an address that is not allowed"},
		"Address":   {"https://169.254.169.254/latest", "HostNotAllowed: registry.example.com leads to an address that is not allowed"},
		"Downwards": {"http://cdn.example.com:" + cdn.Port(), "HostNotAllowed: registry.example.com redirects from https to http"},
		"Port":      {"https://cdn.example.com:22/", "HostNotAllowed: registry.example.com redirects to a port that is not allowed"},
		"Endless":   {"/v2/HOP", "HostNotAllowed: registry.example.com redirects more than 5 times"},
		"Scheme":    {"gopher://cdn.example.com", "HostNotAllowed: registry.example.com redirects to what is not an https address"},
	} {
		target = c.target
		if _, err := config(t); said(err) != c.want {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
	cdn.Before = func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
		w.WriteHeader(http.StatusUnauthorized)
		return true
	}
	target = "https://cdn.example.com:" + cdn.Port() + "/blob"
	if _, err := config(t); said(err) != "Unauthorized: status 401: a redirect leads to a host that wants credentials of its own" || cdn.Count("GET other") != 2 {
		t.Error(err, cdn.Count("GET other"))
	}
}

func TestTLS(t *testing.T) {
	r := registrytest.NewTLS(t)
	r.Push("a", "v1", amd64)
	bundle := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: r.Certificate().Raw})
	strange := func(o *distribution.Options) { o.Roots = nil }
	for name, c := range map[string]struct {
		change func(*distribution.Options)
		want   distribution.Reason
	}{
		"Trusted":    {func(*distribution.Options) {}, ""},
		"NotTrusted": {strange, distribution.TLSFailed},
		"Bundle":     {func(o *distribution.Options) { strange(o); o.CABundle = bundle }, ""},
		"SkipVerify": {func(o *distribution.Options) { strange(o); o.SkipVerify = true }, ""},
		"OtherName":  {func(o *distribution.Options) { o.URL = "https://registry.example.org:" + r.Port() }, distribution.TLSFailed},
		"PlainHTTP":  {func(o *distribution.Options) { o.URL, o.PlainHTTP = "http://registry.example.com:"+r.Port(), true }, distribution.NoRegistry},
		"NotLoopback": {func(o *distribution.Options) {
			o.Dialer = egress.NewDialer(egress.Rules{}, egress.WithResolve(loopback))
		}, distribution.HostNotAllowed},
		"NameNotThere": {func(o *distribution.Options) { o.Dialer = egress.NewDialer(egress.Rules{}, egress.WithResolve(nobody)) }, distribution.NameNotResolved},
	} {
		if err := connect(t, r, c.change).Ping(t.Context()); distribution.ReasonOf(err) != c.want || (err == nil) != (c.want == "") {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
	plain := registrytest.New(t)
	f := connect(t, plain, func(o *distribution.Options) { o.URL = "https://registry.example.com:" + plain.Port() })
	if err := f.Ping(t.Context()); distribution.ReasonOf(err) != distribution.TLSFailed {
		t.Error(err)
	}
	for _, url := range []string{"http://registry.example.com", "registry.example.com", "https://u:p@registry.example.com", "ftp://registry.example.com"} {
		if _, err := distribution.New(distribution.Options{URL: url, Dialer: dialer()}); err == nil {
			t.Errorf("%s is taken", url)
		}
	}
	if _, err := distribution.New(distribution.Options{URL: "https://a.example.com", Dialer: dialer(), CABundle: []byte("none"), Clock: &registrytest.Clock{}}); err == nil {
		t.Error("a bundle without certificates is taken")
	}
}

func nobody(_ context.Context, host string) ([]netip.Addr, error) {
	return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
}

// TestSkipVerifyIsForOneHost has a redirect to a host whose certificate nobody trusts.
func TestSkipVerifyIsForOneHost(t *testing.T) {
	r, cdn := registrytest.NewTLS(t), registrytest.NewTLS(t)
	r.Before = func(w http.ResponseWriter, request *http.Request) bool {
		http.Redirect(w, request, "https://cdn.example.com:"+cdn.Port()+"/", http.StatusFound)
		return true
	}
	f := connect(t, r, func(o *distribution.Options) { o.Roots, o.SkipVerify = nil, true })
	if _, _, err := f.Config(t.Context(), "a", "sha256:"); distribution.ReasonOf(err) != distribution.TLSFailed {
		t.Error(err)
	}
}

func TestThrottled(t *testing.T) {
	r := registrytest.New(t)
	r.Push("a", "v1", amd64)
	n := 0
	// Every second request is let in.
	r.Before = func(w http.ResponseWriter, _ *http.Request) bool {
		if n++; n%2 == 0 {
			return false
		}
		w.Header().Set("Retry-After", "2")
		w.WriteHeader(http.StatusTooManyRequests)
		return true
	}
	f := connect(t, r)
	for range 50 {
		if _, found, err := f.Tag(t.Context(), "a", "v1", distribution.Pointer{}); err != nil || !found {
			t.Fatal(err)
		}
	}
	if got := f.clock.Now().Sub(start); got != 100*time.Second {
		t.Errorf("waited %v, want 2 s for each of 50", got)
	}
	// Without end: the step ends, the host is paused, other hosts are not.
	r.Before = func(w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(http.StatusTooManyRequests)
		return true
	}
	r.Forget()
	f = connect(t, r)
	_, _, err := f.Tag(t.Context(), "a", "v1", distribution.Pointer{})
	e, ok := errors.AsType[*distribution.Error](err)
	// 5 + 10 + 20 + 40 s are waited for; 80 s are too long.
	if !ok || e.Reason != distribution.RateLimited || !e.NotBefore.Equal(start.Add(155*time.Second)) || r.Count("HEAD manifests") != 5 {
		t.Error(err, e.NotBefore, r.Count("HEAD manifests"))
	}
	if !f.host.PausedUntil(f.clock.Now()).Equal(start.Add(155 * time.Second)) {
		t.Error("the host is not paused")
	}
	if _, _, err := f.Tag(t.Context(), "a", "v1", distribution.Pointer{}); distribution.ReasonOf(err) != distribution.RateLimited || r.Count("HEAD manifests") != 5 {
		t.Error("a paused host is asked:", err)
	}
}

func TestAllowance(t *testing.T) {
	r := registrytest.New(t)
	digest := r.Push("a", "v1", amd64)
	r.Before = func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("RateLimit-Limit", "100;w=21600")
		w.Header().Set("RateLimit-Remaining", "0;w=21600")
		return false
	}
	f := connect(t, r)
	for range 2 {
		if _, _, err := f.Tag(t.Context(), "a", "v1", distribution.Pointer{}); err != nil {
			t.Fatal(err)
		}
	}
	_, _, err := f.Manifest(t.Context(), "a", digest)
	e, ok := errors.AsType[*distribution.Error](err)
	if !ok || e.Reason != distribution.RateLimited || !e.NotBefore.Equal(start.Add(6*time.Hour)) || r.Count("GET manifests") != 0 {
		t.Error(err)
	}
}

func TestBroken(t *testing.T) {
	r := registrytest.New(t)
	r.Push("a", "v1", amd64)
	var bad atomic.Int64
	reset := func(w http.ResponseWriter) {
		connection, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		connection.Close()
	}
	fail := func(w http.ResponseWriter) { w.WriteHeader(http.StatusInternalServerError) }
	var how atomic.Pointer[func(w http.ResponseWriter)]
	r.Before = func(w http.ResponseWriter, _ *http.Request) bool {
		if bad.Add(-1) < 0 {
			return false
		}
		(*how.Load())(w)
		return true
	}
	for name, way := range map[string]func(w http.ResponseWriter){"Reset": reset, "Fails": fail} {
		how.Store(&way)
		bad.Store(2)
		f := connect(t, r)
		if _, found, err := f.Tag(t.Context(), "a", "v1", distribution.Pointer{}); err != nil || !found {
			t.Error(name, err)
		}
		if got := f.clock.Now().Sub(start); got != 3*time.Second {
			t.Errorf("%s: waited %v, want 1 s and 2 s", name, got)
		}
		bad.Store(1_000_000)
		_, _, err := f.Tag(t.Context(), "a", "v1", distribution.Pointer{})
		e, ok := errors.AsType[*distribution.Error](err)
		if !ok || e.Reason != distribution.Unreachable || !e.NotBefore.Equal(f.clock.Now().Add(30*time.Second)) {
			t.Error(name, err)
		}
		how.Store(&fail)
		_, _, err = f.Tag(t.Context(), "a", "v1", distribution.Pointer{})
		if e, ok = errors.AsType[*distribution.Error](err); !ok || !e.NotBefore.Equal(f.clock.Now().Add(time.Minute)) {
			t.Error(name, "the pause is not doubled:", err)
		}
	}
}

// TestSlow has a registry that never answers, and one that never ends.
func TestSlow(t *testing.T) {
	done := make(chan struct{})
	hang := func(w http.ResponseWriter, _ *http.Request) bool {
		<-done
		return true
	}
	trickle := func(w http.ResponseWriter, _ *http.Request) bool {
		fmt.Fprint(w, "{")
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Error(err)
		}
		<-done
		return true
	}
	defer close(done)
	for name, way := range map[string]func(w http.ResponseWriter, r *http.Request) bool{"Hangs": hang, "Trickles": trickle} {
		r := registrytest.New(t)
		r.Before = way
		pace := distribution.Pace{FirstByte: 100 * time.Millisecond, Window: time.Hour, MinBytes: 60_000}
		if name == "Trickles" {
			pace = distribution.Pace{FirstByte: time.Hour, Window: 100 * time.Millisecond, MinBytes: 60_000}
		}
		f := connect(t, r, func(o *distribution.Options) { o.Pace = pace })
		_, _, err := f.Manifest(t.Context(), "a", "sha256:x")
		if distribution.ReasonOf(err) != distribution.Unreachable {
			t.Error(name, err)
		}
		if slow := strings.Contains(said(err), "more slowly than 1 kB/s"); slow != (name == "Trickles") {
			t.Error(name, err)
		}
	}
}

func TestCancelled(t *testing.T) {
	r := registrytest.New(t)
	ctx, cancel := context.WithCancel(t.Context())
	r.Before = func(_ http.ResponseWriter, request *http.Request) bool {
		cancel()
		<-request.Context().Done()
		return true
	}
	f := connect(t, r)
	_, _, err := f.Manifest(ctx, "a", "sha256:x")
	if !errors.Is(err, context.Canceled) || distribution.ReasonOf(err) != "" || !f.host.PausedUntil(start).IsZero() {
		t.Error(err)
	}
}

func TestPing(t *testing.T) {
	r := registrytest.New(t)
	if err := connect(t, r).Ping(t.Context()); err != nil {
		t.Error(err)
	}
	for status, want := range map[int]string{404: "NoRegistry: status 404", 403: "Forbidden: status 403: DENIED", 302: "NoRegistry: status 302"} {
		r.Before = func(w http.ResponseWriter, _ *http.Request) bool {
			w.WriteHeader(status)
			fmt.Fprint(w, `{"errors":[{"code":"DENIED","message":"<script>"}]}`)
			return true
		}
		if err := connect(t, r).Ping(t.Context()); !strings.HasPrefix(said(err), want) || strings.Contains(said(err), "script") {
			t.Errorf("%d: %v, want %s", status, err, want)
		}
	}
}

func TestLargeDocument(t *testing.T) {
	r := registrytest.New(t)
	body := bytes.Repeat([]byte(" "), manifest.MaxDocument+5)
	digest := r.Manifest("a", "v1", registrytest.TypeManifest, body)
	document, found, err := connect(t, r).Manifest(t.Context(), "a", digest)
	if err != nil || !found || len(document.Body) != manifest.MaxDocument+1 {
		t.Error(len(document.Body), found, err)
	}
}
