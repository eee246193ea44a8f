// SPDX-License-Identifier: Apache-2.0

package transfer

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/scanyard/scanyard/podkit/retry"
)

const secret = "X-Amz-Signature=c0ffee"

// clock moves only when a caller sleeps.
type clock struct {
	mu     sync.Mutex
	time   time.Time
	pauses []time.Duration
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.time
}

func (c *clock) sleep(ctx context.Context, d time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.time = c.time.Add(d)
	c.pauses = append(c.pauses, d)
	return ctx.Err()
}

func newClient(t *testing.T, options ...Option) (*Client, *clock) {
	t.Helper()
	c := &clock{time: time.Unix(1_800_000_000, 0)}
	client, err := New(append([]Option{WithClock(retry.Clock{Now: c.now, Sleep: c.sleep})}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	return client, c
}

func serve(t *testing.T, handler http.HandlerFunc) URL {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return URL(server.URL + "/bucket/raw.xml?" + secret)
}

// noSecret fails if a text shows any part of the query.
func noSecret(t *testing.T, text string) {
	t.Helper()
	if strings.Contains(text, "Signature") || strings.Contains(text, "c0ffee") {
		t.Errorf("the query of the URL is shown: %s", text)
	}
}

func s3Error(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	fmt.Fprintf(w, `<?xml version="1.0" encoding="UTF-8"?><Error><Code>%s</Code><Message>%s</Message></Error>`, code, message)
}

func TestURLPrintsWithoutItsQuery(t *testing.T) {
	u := URL("https://key:pass@s3.example.com/bucket/a%20b?" + secret + "#frag")
	const want = "https://s3.example.com/bucket/a%20b"
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "url", u, "any", map[string]URL{"u": u})
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "url", u)
	marshalled, err := json.Marshal(map[string]URL{"u": u})
	if err != nil {
		t.Fatal(err)
	}
	for verb, got := range map[string]string{
		"s": fmt.Sprintf("%s", u), "v": fmt.Sprint(u), "+v": fmt.Sprintf("%+v", u), "struct": fmt.Sprintf("%+v", struct{ U URL }{u}),
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s: want %s in %s", verb, want, got)
		}
		noSecret(t, got)
	}
	for _, got := range []string{
		fmt.Sprintf("%q %x %d %#v %#v", u, u, u, u, []URL{u}), log.String(), string(marshalled), URL("::bad?" + secret).String(),
	} {
		noSecret(t, got)
		if strings.Contains(got, "pass") {
			t.Errorf("the user is shown: %s", got)
		}
	}
}

func TestDownload(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept-Encoding") != "" || r.Header.Get("Range") != "" {
			t.Errorf("unexpected header %v", r.Header)
		}
		fmt.Fprint(w, "content")
	})
	c, _ := newClient(t)
	body, size, err := c.Download(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(body)
	if err != nil || string(got) != "content" || size != 7 {
		t.Errorf("got %q, size %d, error %v", got, size, err)
	}
	if err := body.Close(); err != nil {
		t.Error(err)
	}
}

func TestDownloadWaitsForTheStore(t *testing.T) {
	answers := []func(http.ResponseWriter){
		func(w http.ResponseWriter) { s3Error(w, 503, "SlowDown", "Please reduce your request rate.") },
		func(w http.ResponseWriter) {
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(http.StatusTooManyRequests)
		},
		func(w http.ResponseWriter) { w.WriteHeader(http.StatusRequestTimeout) },
		func(w http.ResponseWriter) { s3Error(w, 400, "RequestTimeout", "idle") },
		func(w http.ResponseWriter) { w.WriteHeader(http.StatusInternalServerError) },
		func(http.ResponseWriter) { panic(http.ErrAbortHandler) },
		func(w http.ResponseWriter) { fmt.Fprint(w, "content") },
	}
	calls := 0
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		calls++
		answers[calls-1](w)
	})
	var notices []string
	c, clock := newClient(t, WithRetryNotice(func(err error, _ time.Duration) { notices = append(notices, err.Error()) }))
	body, _, err := c.Download(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	if got, err := io.ReadAll(body); err != nil || string(got) != "content" {
		t.Errorf("got %q, %v", got, err)
	}
	// net/http itself repeats a GET whose reused connection breaks, so there may be one pause less.
	if len(clock.pauses) < 5 || clock.pauses[1] < 7*time.Second {
		t.Errorf("pauses %v, want five or six, the second at least 7s", clock.pauses)
	}
	noSecret(t, strings.Join(notices, "\n"))
}

func TestDownloadGivesUp(t *testing.T) {
	tests := map[string]struct {
		answer  func(http.ResponseWriter)
		want    string
		once    bool
		expired bool
	}{
		"Expired": {
			func(w http.ResponseWriter) { s3Error(w, 403, "AccessDenied", "Request has expired") },
			"the store answers 403 Forbidden (AccessDenied: Request has expired)", true, true,
		},
		"ExpiredToken": {func(w http.ResponseWriter) { s3Error(w, 400, "ExpiredToken", "The provided token has expired.") }, "ExpiredToken", true, true},
		"Denied":       {func(w http.ResponseWriter) { s3Error(w, 403, "AccessDenied", "Access Denied") }, "AccessDenied: Access Denied", true, false},
		"NotThere":     {func(w http.ResponseWriter) { s3Error(w, 404, "NoSuchKey", "?"+secret) }, "404 Not Found (NoSuchKey", true, false},
		"NotXML":       {func(w http.ResponseWriter) { w.WriteHeader(http.StatusForbidden); fmt.Fprint(w, "<html>no") }, "403 Forbidden", true, false},
		"NoContent":    {func(w http.ResponseWriter) { w.WriteHeader(http.StatusNoContent) }, "answers 204 without the object", true, false},
		"EndlessError": {func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusNotFound)
			for range 1000 {
				if _, err := w.Write(bytes.Repeat([]byte("x"), 1<<16)); err != nil {
					return
				}
			}
		}, "404", true, false},
		"Overloaded": {func(w http.ResponseWriter) { s3Error(w, 503, "SlowDown", "slow\n\x1b[31mdown") }, "given up after", false, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			calls := 0
			url := serve(t, func(w http.ResponseWriter, _ *http.Request) { calls++; tt.answer(w) })
			c, clock := newClient(t, WithPatience(2*time.Minute))
			_, _, err := c.Download(t.Context(), url)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("want %q, got %v", tt.want, err)
			}
			noSecret(t, err.Error())
			if strings.ContainsAny(err.Error(), "\n\x1b") {
				t.Errorf("control characters in %q", err)
			}
			if IsExpired(err) != tt.expired {
				t.Errorf("IsExpired is %t", IsExpired(err))
			}
			if tt.once != (calls == 1) {
				t.Errorf("%d calls", calls)
			}
			if waited := clock.now().Sub(time.Unix(1_800_000_000, 0)); waited > 2*time.Minute {
				t.Errorf("waited %s, patience is 2m", waited)
			}
		})
	}
}

// object serves content with ranges and breaks off after some bytes of each answer.
type object struct {
	content  string
	etag     string
	breakAt  int
	requests []http.Header
}

func (o *object) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	o.requests = append(o.requests, r.Header.Clone())
	from := 0
	if match := r.Header.Get("If-Match"); match != "" && match != o.etag {
		w.WriteHeader(http.StatusPreconditionFailed)
		return
	}
	if rng, ok := strings.CutPrefix(r.Header.Get("Range"), "bytes="); ok {
		from, _ = strconv.Atoi(strings.TrimSuffix(rng, "-"))
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(o.content)-1, len(o.content)))
	}
	if o.etag != "" {
		w.Header().Set("ETag", o.etag)
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(o.content)-from))
	if from > 0 {
		w.WriteHeader(http.StatusPartialContent)
	}
	rest := o.content[from:]
	if len(rest) > o.breakAt {
		_, _ = io.WriteString(w, rest[:o.breakAt])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	_, _ = io.WriteString(w, rest)
}

func TestDownloadGoesOnWhereItBroke(t *testing.T) {
	for _, etag := range []string{`"v1"`, ``} {
		o := &object{content: strings.Repeat("0123456789", 100_000), etag: etag, breakAt: 300_000}
		url := serve(t, o.ServeHTTP)
		c, _ := newClient(t)
		body, size, err := c.Download(t.Context(), url)
		if err != nil || size != int64(len(o.content)) {
			t.Fatal(size, err)
		}
		got, err := io.ReadAll(body)
		if err != nil || string(got) != o.content {
			t.Fatalf("got %d bytes, error %v", len(got), err)
		}
		if err := body.Close(); err != nil {
			t.Error(err)
		}
		if len(o.requests) != 4 {
			t.Errorf("%d requests", len(o.requests))
		}
		for i, r := range o.requests[1:] {
			if r.Get("Range") == "" || r.Get("If-Match") != etag {
				t.Errorf("request %d: %v", i+1, r)
			}
		}
	}
}

func TestDownloadOfWhatChanges(t *testing.T) {
	for name, change := range map[string]func(*object){
		"OtherETag": func(o *object) { o.etag = `"v2"` },
		"OtherSize": func(o *object) { o.etag = ""; o.content += "x" },
	} {
		t.Run(name, func(t *testing.T) {
			o := &object{content: strings.Repeat("0123456789", 100_000), etag: `"v1"`, breakAt: 300_000}
			if name == "OtherSize" {
				o.etag = ""
			}
			url := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if len(o.requests) == 1 {
					change(o)
				}
				o.ServeHTTP(w, r)
			})
			c, _ := newClient(t)
			body, _, err := c.Download(t.Context(), url)
			if err != nil {
				t.Fatal(err)
			}
			defer body.Close()
			if _, err = io.ReadAll(body); !errors.Is(err, ErrChanged) {
				t.Errorf("want ErrChanged, got %v", err)
			}
			noSecret(t, fmt.Sprint(err))
		})
	}
}

func TestDownloadFromAStoreWithoutRanges(t *testing.T) {
	content := strings.Repeat("0123456789", 50_000)
	calls := 0
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(len(content)))
		if calls++; calls == 1 {
			_, _ = io.WriteString(w, content[:200_000])
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
		_, _ = io.WriteString(w, content)
	})
	c, _ := newClient(t)
	body, _, err := c.Download(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	if got, err := io.ReadAll(body); err != nil || string(got) != content {
		t.Errorf("got %d bytes, %v", len(got), err)
	}
}

func TestDownloadThatStandsStill(t *testing.T) {
	calls := 0
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if calls++; calls == 1 {
			w.Header().Set("Content-Length", "10")
			_, _ = io.WriteString(w, "01234")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done() // the client has had enough
			return
		}
		w.Header().Set("Content-Range", "bytes 5-9/10")
		w.WriteHeader(http.StatusPartialContent)
		_, _ = io.WriteString(w, "56789")
	})
	var notice error
	c, _ := newClient(t, WithTimeouts(50*time.Millisecond, time.Minute), WithRetryNotice(func(err error, _ time.Duration) { notice = err }))
	body, _, err := c.Download(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	if got, err := io.ReadAll(body); err != nil || string(got) != "0123456789" {
		t.Errorf("got %q, %v", got, err)
	}
	if !errors.Is(notice, errIdle) {
		t.Errorf("want errIdle, got %v", notice)
	}
}

// upload is what a store got.
type upload struct {
	body             string
	contentType      []string
	length           int64
	transferEncoding []string
	expect           string
}

func record(r *http.Request) (upload, error) {
	body, err := io.ReadAll(r.Body)
	return upload{string(body), r.Header["Content-Type"], r.ContentLength, r.TransferEncoding, r.Header.Get("Expect")}, err
}

func textOf(s string) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(s)), nil }
}

func TestUpload(t *testing.T) {
	for name, content := range map[string]string{"Empty": "", "Small": "content", "Large": strings.Repeat("x", 3<<20)} {
		t.Run(name, func(t *testing.T) {
			var got upload
			url := serve(t, func(_ http.ResponseWriter, r *http.Request) {
				var err error
				if got, err = record(r); err != nil {
					t.Error(err)
				}
				if r.Method != http.MethodPut || r.URL.RawQuery != secret || r.Header.Get("X-More") != "y" {
					t.Errorf("got %s %s %v", r.Method, r.URL, r.Header)
				}
			})
			c, _ := newClient(t)
			if err := c.Upload(t.Context(), url, int64(len(content)), textOf(content), http.Header{"X-More": {"y"}}); err != nil {
				t.Fatal(err)
			}
			if got.body != content || got.length != int64(len(content)) || got.transferEncoding != nil ||
				len(got.contentType) != 1 || got.contentType[0] != "" || (got.expect != "") != (name == "Large") {
				t.Errorf("got %d bytes, %+v", len(got.body), upload{"", got.contentType, got.length, got.transferEncoding, got.expect})
			}
		})
	}
}

// TestUploadOnTheWire reads what is really sent, since servers hide some of it.
func TestUploadOnTheWire(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	wire := make(chan string, 2)
	go func() {
		for range 2 {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			var all []byte
			buf := make([]byte, 4096)
			for !bytes.Contains(all, []byte("\r\n\r\n")) {
				n, err := conn.Read(buf)
				if err != nil {
					break
				}
				all = append(all, buf[:n]...)
			}
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
			_ = conn.Close()
			wire <- string(all)
		}
	}()
	c, _ := newClient(t)
	for _, content := range []string{"", "ab"} {
		url := URL("http://" + listener.Addr().String() + "/x?" + secret)
		if err := c.Upload(t.Context(), url, int64(len(content)), textOf(content), nil); err != nil {
			t.Fatal(err)
		}
		got := <-wire
		for _, want := range []string{
			"PUT /x?" + secret + " HTTP/1.1\r\n", "Content-Length: " + strconv.Itoa(len(content)) + "\r\n", "Content-Type: \r\n",
		} {
			if !strings.Contains(got, want) {
				t.Errorf("want %q in\n%s", want, got)
			}
		}
		if strings.Contains(got, "chunked") {
			t.Errorf("chunked:\n%s", got)
		}
	}
}

func TestUploadOpensItsSourceForEachAttempt(t *testing.T) {
	content := strings.Repeat("x", 100_000)
	calls, opened := 0, 0
	var got upload
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch calls++; calls {
		case 1:
			s3Error(w, 503, "SlowDown", "slow")
		case 2:
			panic(http.ErrAbortHandler)
		default:
			got, _ = record(r)
		}
	})
	c, _ := newClient(t)
	err := c.Upload(t.Context(), url, int64(len(content)), func() (io.ReadCloser, error) {
		opened++
		return textOf(content)()
	}, nil)
	if err != nil || opened != 3 || got.body != content {
		t.Errorf("opened %d times, got %d bytes, error %v", opened, len(got.body), err)
	}
}

func TestUploadRefusedBeforeItsBody(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) { s3Error(w, 403, "AccessDenied", "Request has expired") })
	c, _ := newClient(t)
	size := int64(1 << 30)
	err := c.Upload(t.Context(), url, size, func() (io.ReadCloser, error) {
		return io.NopCloser(io.LimitReader(zeros{}, size)), nil
	}, nil)
	if !IsExpired(err) {
		t.Errorf("want an expired URL, got %v", err)
	}
	noSecret(t, err.Error())
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

func TestUploadWithABadSource(t *testing.T) {
	broken := errors.New("broken source")
	tests := map[string]struct {
		size int64
		open func() (io.ReadCloser, error)
		want error
	}{
		"Short": {10, textOf("123"), ErrSizeMismatch},
		"Long":  {2, textOf("123"), ErrSizeMismatch},
		"None":  {0, textOf("1"), ErrSizeMismatch},
		"Open":  {1, func() (io.ReadCloser, error) { return nil, broken }, broken},
		"Read": {10, func() (io.ReadCloser, error) {
			return io.NopCloser(io.MultiReader(strings.NewReader("123"), failing{broken})), nil
		}, broken},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			stored := false
			url := serve(t, func(_ http.ResponseWriter, r *http.Request) {
				_, err := record(r)
				stored = err == nil
			})
			c, clock := newClient(t)
			if err := c.Upload(t.Context(), url, tt.size, tt.open, nil); !errors.Is(err, tt.want) {
				t.Errorf("want %v, got %v", tt.want, err)
			}
			if len(clock.pauses) > 0 {
				t.Errorf("tried again: %v", clock.pauses)
			}
			if stored {
				t.Error("a wrong object was stored")
			}
		})
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func TestConnectionRefused(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	url := URL(server.URL + "/x?" + secret)
	server.Close()
	c, clock := newClient(t, WithPatience(time.Minute))
	err := c.Upload(t.Context(), url, 1, textOf("x"), nil)
	if err == nil || !strings.Contains(err.Error(), "connection refused") || len(clock.pauses) < 4 {
		t.Errorf("got %v after pauses %v", err, clock.pauses)
	}
	noSecret(t, fmt.Sprint(err))
	for i, p := range clock.pauses {
		if p > defaultMaxBackoff || i > 0 && i < 4 && p < defaultMinBackoff {
			t.Errorf("pauses %v", clock.pauses)
		}
	}
}

func TestBadURL(t *testing.T) {
	c, _ := newClient(t)
	for _, url := range []URL{"", "x?" + secret, "ftp://a/b?" + secret, "http://?" + secret, "http://a b/?" + secret, "%zz?" + secret} {
		_, _, err := c.Download(t.Context(), url)
		if err == nil {
			t.Errorf("%q was taken", string(url))
		}
		noSecret(t, fmt.Sprint(err))
		if err := c.Upload(t.Context(), url, 0, textOf(""), nil); err == nil {
			t.Errorf("%q was taken", string(url))
		}
	}
}

func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		cancel()
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	c, _ := newClient(t)
	if _, _, err := c.Download(ctx, url); !errors.Is(err, context.Canceled) {
		t.Errorf("want context.Canceled, got %v", err)
	}
}

func TestExtraCA(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") }))
	defer server.Close()
	server.Config.ErrorLog = slog.NewLogLogger(slog.NewTextHandler(io.Discard, nil), 0)
	url := URL(server.URL + "/x?" + secret)

	stranger, clock := newClient(t)
	_, _, err := stranger.Download(t.Context(), url)
	if err == nil || !strings.Contains(err.Error(), "certificate") || len(clock.pauses) > 0 {
		t.Errorf("want one refusal of the certificate, got %v after %v", err, clock.pauses)
	}

	file := filepath.Join(t.TempDir(), "ca.pem")
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(file, certificate, 0o600); err != nil {
		t.Fatal(err)
	}
	friend, _ := newClient(t, WithExtraCA(file))
	body, _, err := friend.Download(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	if got, err := io.ReadAll(body); err != nil || string(got) != "ok" {
		t.Errorf("got %q, %v", got, err)
	}

	if _, err := New(WithExtraCA(filepath.Join(t.TempDir(), "none"))); err == nil {
		t.Error("a missing file was taken")
	}
	if err := os.WriteFile(file, []byte("no pem"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := New(WithExtraCA(file)); err == nil {
		t.Error("a file without certificates was taken")
	}
}

func TestRedirect(t *testing.T) {
	var referer string
	target := serve(t, func(w http.ResponseWriter, r *http.Request) {
		referer = r.Header.Get("Referer")
		fmt.Fprint(w, "moved")
	})
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, string(target), http.StatusTemporaryRedirect)
	})
	c, _ := newClient(t)
	body, _, err := c.Download(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	if got, err := io.ReadAll(body); err != nil || string(got) != "moved" || referer != "" {
		t.Errorf("got %q, %v, referer %q", got, err, referer)
	}
}

func TestDownloadFromAByteOn(t *testing.T) {
	o := &object{content: strings.Repeat("0123456789", 100_000), etag: `"v1"`, breakAt: 300_000}
	url := serve(t, o.ServeHTTP)
	c, _ := newClient(t)
	for _, offset := range []int64{0, 1, 999_999} {
		body, size, err := c.DownloadAt(t.Context(), url, o.etag, offset)
		if err != nil || size != int64(len(o.content)) {
			t.Fatal(size, err)
		}
		if got, err := io.ReadAll(body); err != nil || string(got) != o.content[offset:] {
			t.Errorf("from %d: got %d bytes, error %v", offset, len(got), err)
		}
		if err := body.Close(); err != nil {
			t.Error(err)
		}
	}
	for _, offset := range []int64{0, 10} {
		if _, _, err := c.DownloadAt(t.Context(), url, `"v0"`, offset); !errors.Is(err, ErrChanged) {
			t.Errorf("from %d of another object: %v", offset, err)
		}
	}
}
