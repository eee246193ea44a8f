// SPDX-License-Identifier: Apache-2.0

package discovery_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	registryv1alpha1 "github.com/scanyard/scanyard/apis/registry/v1alpha1"
	"github.com/scanyard/scanyard/registry/internal/credentials"
	"github.com/scanyard/scanyard/registry/internal/discovery"
	"github.com/scanyard/scanyard/registry/internal/distribution"
	"github.com/scanyard/scanyard/registry/internal/egress"
	"github.com/scanyard/scanyard/registry/internal/filter"
	"github.com/scanyard/scanyard/registry/internal/limits"
	"github.com/scanyard/scanyard/registry/internal/registrytest"
)

var start = time.Date(2025, 9, 1, 0, 0, 0, 0, time.UTC)

// store keeps the last checkpoint.
type store struct {
	last   discovery.Checkpoint
	writes int
	err    error
}

func (s *store) Checkpoint(_ context.Context, c discovery.Checkpoint) error {
	s.last = c
	s.writes++
	return s.err
}

// world is a registry, a client of it, and what is stored of the repository shop/api.
type world struct {
	*registrytest.Registry

	t        testing.TB
	clock    *registrytest.Clock
	client   *distribution.Client
	store    *store
	input    discovery.Input
	password string
}

const repository = "shop/api"

func newWorld(t testing.TB, filterText string) *world {
	t.Helper()
	w := &world{Registry: registrytest.New(t), t: t, clock: registrytest.NewClock(start), store: &store{}}
	w.input = discovery.Input{
		Registry: "registry.example.com", Repository: repository, Filter: compile(t, filterText), MaxImageBytes: 1 << 30, Parallel: 4, Now: w.clock.Now,
	}
	w.connect()
	return w
}

func compile(t testing.TB, text string) *filter.Compiled {
	t.Helper()
	var f registryv1alpha1.Filter
	if err := json.Unmarshal([]byte(text), &f); err != nil {
		t.Fatal(err)
	}
	compiled, err := filter.Compile(f)
	if err != nil {
		t.Fatal(err)
	}
	return compiled
}

// connect begins a new item: with a client that knows nothing of the last one.
func (w *world) connect() {
	w.t.Helper()
	o := distribution.Options{
		URL: w.URL, PlainHTTP: true, Dialer: egress.NewDialer(egress.Rules{AllowCIDRs: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}}),
		Item:  limits.NewHosts(limits.Bounds{}).Host(limits.Key{Host: "127.0.0.1"}).NewItem(w.clock.Now(), 0, 0),
		Clock: w.clock, Chance: func() float64 { return 0.5 },
	}
	if w.password != "" {
		set, err := credentials.Read("Opaque", map[string][]byte{"username": []byte("u"), "password": []byte(w.password)}, "127.0.0.1")
		if err != nil {
			w.t.Fatal(err)
		}
		o.Credentials = set
	}
	client, err := distribution.New(o)
	if err != nil {
		w.t.Fatal(err)
	}
	if w.client != nil {
		w.client.Close()
	}
	w.client = client
	w.t.Cleanup(client.Close)
}

// try discovers with what is known, and counts requests and writes of this time alone.
func (w *world) try() (discovery.Result, error) {
	w.t.Helper()
	w.Forget()
	w.store.writes = 0
	return discovery.Discover(w.t.Context(), w.input, w.client, w.store)
}

// discover discovers without an error, and knows the result the next time.
func (w *world) discover() discovery.Result {
	w.t.Helper()
	result, err := w.try()
	if err != nil {
		w.t.Fatal(err)
	}
	w.input.Known, w.input.Cursor = result.Tags, ""
	return result
}

// resume knows the last checkpoint.
func (w *world) resume() { w.input.Known, w.input.Cursor = w.store.last.Tags, w.store.last.Cursor }

// requests writes how many lists, HEADs, GETs of manifests and GETs of blobs there were.
func (w *world) requests() string {
	return fmt.Sprintf("%d lists, %d HEADs, %d manifests, %d configs", w.Count("GET tags"), w.Count("HEAD manifests"), w.Count("GET manifests"), w.Count("GET blobs"))
}

// told writes a result as "tag=platform,platform tag:Reason; Warning:count; gone: tag".
func told(result discovery.Result) string {
	var tags, warnings, gone []string
	for _, t := range result.Tags {
		if !t.Selected {
			tags = append(tags, t.Name+":"+t.Reason)
			continue
		}
		var platforms []string
		for _, image := range t.Images {
			platforms = append(platforms, image.Platform)
		}
		tags = append(tags, t.Name+"="+strings.Join(platforms, ","))
	}
	for _, warning := range result.Warnings {
		warnings = append(warnings, fmt.Sprintf("%s:%d", warning.Code, warning.Count))
	}
	for _, t := range result.Gone {
		gone = append(gone, t.Name)
	}
	text := strings.Join(tags, " ")
	if len(warnings) > 0 {
		text += "; " + strings.Join(warnings, " ")
	}
	if len(gone) > 0 {
		text += "; gone: " + strings.Join(gone, " ")
	}
	return text
}

func (w *world) expect(result discovery.Result, want, requests string) {
	w.t.Helper()
	if got := told(result); got != want {
		w.t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := w.requests(); got != requests {
		w.t.Errorf("%s, want %s", got, requests)
	}
}

func day(n int) time.Time { return time.Date(2025, 8, n, 0, 0, 0, 0, time.UTC) }

func image(platform, name string, created time.Time) registrytest.Image {
	return registrytest.Image{Platform: platform, Name: name, Created: created}
}
