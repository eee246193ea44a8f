// SPDX-License-Identifier: Apache-2.0

package console

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

func options(t *testing.T, address string) Options {
	t.Helper()
	return Options{
		Config: &rest.Config{Host: "http://127.0.0.1:1"}, Address: address, Version: "test", Now: time.Now,
		Failed: func(err error) { t.Logf("told: %v", err) },
	}
}

func TestOnlyThisMachineIsServed(t *testing.T) {
	for _, address := range []string{"0.0.0.0:0", ":0", "[::]:0", "192.0.2.1:0", "localhost", "example.com:80", ""} {
		if l, err := Listen(t.Context(), options(t, address)); err == nil {
			t.Errorf("%q is served at %s", address, l.URL)
		}
	}
}

func TestServe(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	l, err := Listen(ctx, options(t, "127.0.0.1:0"))
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- l.Serve(ctx) }()
	base, _, _ := strings.Cut(l.URL, "/login")
	get := func(url, host string) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = host
		client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		response, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		return response.StatusCode, response.Header.Get("Location") + string(body) + errorText(err)
	}
	if code, _ := get(base+"/", "evil.example"); code != http.StatusMisdirectedRequest {
		t.Errorf("a foreign name answers %d", code)
	}
	if code, text := get(base+"/", ""); code != http.StatusSeeOther || !strings.HasPrefix(text, "/login") {
		t.Errorf("without a session: %d %s", code, text)
	}
	if code, text := get(l.URL, ""); code != http.StatusSeeOther || !strings.HasPrefix(text, "/") || strings.Contains(text, "login") {
		t.Errorf("the code answers %d %s", code, text)
	}
	if code, text := get(l.URL, ""); code != http.StatusOK || !strings.Contains(text, "It works once") {
		t.Errorf("the code answers %d a second time", code)
	}
	cancel()
	if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func errorText(err error) string {
	if err != nil {
		return err.Error()
	}
	return ""
}
