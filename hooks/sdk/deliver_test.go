// SPDX-License-Identifier: Apache-2.0

package sdk_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/scanyard/scanyard/findings/compare"
	"github.com/scanyard/scanyard/hooks/sdk"
	"github.com/scanyard/scanyard/hooks/sdk/delivery"
	"github.com/scanyard/scanyard/hooks/sdk/sdktest"
)

// bulkHook sends findings in batches to a remote service that answers for each of them.
func bulkHook(with func(s *sdk.Session, b *delivery.Batch) *delivery.Request) sdk.Hook {
	var address string
	return sdk.Hook{Name: "bulk", New: func(env sdk.Env) (_ sdk.Handler, err error) {
		address, err = env.Require("ADDRESS")
		return sdk.HandlerFunc(func(ctx context.Context, s *sdk.Session) error {
			client := s.Sender(delivery.Options{Remote: "Bulk"})
			batches := client.NewBatcher(delivery.Limits{Count: 1000}, func(ctx context.Context, b *delivery.Batch) ([]delivery.Failure, error) {
				r := with(s, b)
				r.URL = address
				answer, err := client.Do(ctx, r)
				if err != nil {
					return nil, err
				}
				var busy []int
				if err := answer.JSON(&busy); err != nil {
					return nil, err
				}
				var failures []delivery.Failure
				for _, i := range busy {
					failures = append(failures, delivery.Failure{Index: i, Err: errors.New("429 busy"), Again: true})
				}
				return failures, nil
			})
			return s.Deliver(ctx, batches, func(id string, _ []byte) ([]byte, error) { return json.Marshal(id) })
		}), err
	}}
}

func idsOf(r sdktest.Request) (ids []string) {
	for line := range bytes.Lines(r.Body) {
		var id string
		if json.Unmarshal(line, &id) == nil {
			ids = append(ids, id)
		}
	}
	return ids
}

const tenThousand = 10_000

func address(url string) map[string]string { return map[string]string{"ADDRESS": url} }

func prepare(w *sdktest.World) { w.Objects["/findings.json"] = sdktest.Findings(tenThousand) }

// TestKilledEverywhere delivers 10,000 findings to three kinds of remote services.
func TestKilledEverywhere(t *testing.T) {
	keyed := func(s *sdk.Session, b *delivery.Batch) *delivery.Request {
		return &delivery.Request{Body: b.Lines(), Key: s.Key(b.IDs()...)}
	}
	t.Run("DocumentIDs", func(t *testing.T) {
		sdktest.Delivery{Hook: bulkHook(keyed), Env: address, Prepare: prepare, Remote: func() (func(sdktest.Request) sdktest.Reply, func() error) {
			documents, requests := sdktest.Tally{}, 0
			return func(r sdktest.Request) sdktest.Reply {
				requests++
				var busy []int
				for i, id := range idsOf(r) {
					// Some items are not taken at first. Which ones depends on the request alone.
					if len(r.Body) > 1000 && i%100 == 7 {
						busy = append(busy, i)
						continue
					}
					documents[id] = 1 // a document that is there already is replaced
				}
				text, err := json.Marshal(busy)
				if err != nil {
					return sdktest.Reply{Status: http.StatusTeapot}
				}
				return sdktest.Reply{Body: string(text)}
			}, func() error { return documents.Exactly(tenThousand) }
		}}.KillEverywhere(t)
	})
	t.Run("IdempotencyKeys", func(t *testing.T) {
		sdktest.Delivery{Hook: bulkHook(keyed), Env: address, Prepare: prepare, Remote: func() (func(sdktest.Request) sdktest.Reply, func() error) {
			arrived, known := sdktest.Tally{}, map[string]bool{}
			return func(r sdktest.Request) sdktest.Reply {
				if key := r.Header.Get("Idempotency-Key"); !known[key] {
					known[key] = true
					for _, id := range idsOf(r) {
						arrived[id]++
					}
				}
				return sdktest.Reply{Body: "[]"}
			}, func() error { return arrived.Exactly(tenThousand) }
		}}.KillEverywhere(t)
	})
	t.Run("NoMemory", func(t *testing.T) {
		sdktest.Delivery{Hook: bulkHook(keyed), Env: address, Prepare: prepare, Remote: func() (func(sdktest.Request) sdktest.Reply, func() error) {
			arrived := sdktest.Tally{}
			return func(r sdktest.Request) sdktest.Reply {
				for _, id := range idsOf(r) {
					arrived[id]++
				}
				return sdktest.Reply{Body: "[]"}
			}, func() error { return arrived.AtLeast(tenThousand) }
		}}.KillEverywhere(t)
	})
}

// TestFaultyFarEnd delivers 10,000 findings to a remote service that has each fault now and then.
func TestFaultyFarEnd(t *testing.T) {
	keyed := func(s *sdk.Session, b *delivery.Batch) *delivery.Request {
		return &delivery.Request{Body: b.Lines(), Key: s.Key(b.IDs()...)}
	}
	w := sdktest.New(t)
	prepare(w)
	arrived, known := sdktest.Tally{}, map[string]bool{}
	far := w.NewRemote(t, func(n int, r sdktest.Request) sdktest.Reply {
		take := func() {
			if key := r.Header.Get("Idempotency-Key"); !known[key] {
				known[key] = true
				for _, id := range idsOf(r) {
					arrived[id]++
				}
			}
		}
		switch n % 8 {
		case 0:
			return sdktest.Reply{Status: 429, Header: map[string]string{"Retry-After": "3"}}
		case 1:
			return sdktest.Reply{Status: 500}
		case 2:
			take() // and the response is lost
			return sdktest.Reply{Status: 503}
		case 3:
			take()
			return sdktest.Reply{Body: "[]", Half: true}
		case 4:
			take()
			return sdktest.Reply{Hang: time.Minute}
		}
		take()
		return sdktest.Reply{Body: "[]"}
	})
	env := address(far.URL)
	env["DELIVERY_BUDGET"] = "24h"
	if got := w.Run(t, bulkHook(keyed), env); got.ExitCode != 0 {
		t.Fatal(got.Stderr)
	}
	if err := arrived.Exactly(tenThousand); err != nil {
		t.Error(err)
	}
}

// TestDeadFarEnd ends in one sentence that names remote service, host and status.
func TestDeadFarEnd(t *testing.T) {
	w := sdktest.New(t)
	prepare(w)
	far := w.NewRemote(t, func(int, sdktest.Request) sdktest.Reply { return sdktest.Reply{Status: 502} })
	got := w.Run(t, bulkHook(func(_ *sdk.Session, b *delivery.Batch) *delivery.Request { return &delivery.Request{Body: b.Lines()} }),
		map[string]string{"ADDRESS": far.URL + "/?token=s3cr3t", "DELIVERY_ATTEMPTS": "2"})
	host := strings.TrimPrefix(far.URL, "http://")
	want := "hook bulk: Bulk at " + host + " answers 502 Bad Gateway; trying again in 1s\n" +
		"hook bulk: given up after 2 attempts: Bulk at " + host + " answers 502 Bad Gateway\n"
	if diff := cmp.Diff(want, got.Stderr); diff != "" || got.ExitCode != 1 {
		t.Errorf("exit code %d (-want +got):\n%s", got.ExitCode, diff)
	}
}

// in runs a function in a session.
func in(t *testing.T, w *sdktest.World, env map[string]string, do func(ctx context.Context, s *sdk.Session) error) sdktest.Result {
	t.Helper()
	return w.Run(t, hookOf(false, do), env)
}

func TestFindingID(t *testing.T) {
	w := sdktest.New(t)
	in(t, w, nil, func(_ context.Context, s *sdk.Session) error {
		id := func(element string) string {
			id, err := s.FindingID([]byte(element))
			if err != nil {
				t.Error(err)
			}
			return id
		}
		derived := id(`{"name":"a","category":"c"}`)
		for element, want := range map[string]string{
			`{"id":"x","name":"a"}`:                 "x",
			`{"id":17}`:                             "17",
			`{"id":"","name":"a","category":"c"}`:   derived,
			`{"id":null,"name":"a","category":"c"}`: derived,
			`{"parsed_at":"t","scan":{"name":"n"},"name":"a","category":"c"}`:   derived,
			`{ "name": "a", "category": "c", "fingerprint": "f", "id": false }`: "false",
		} {
			if got := id(element); got != want {
				t.Errorf("%s: id %s, want %s", element, got, want)
			}
		}
		if len(derived) != 36 || derived == id(`{"name":"b","category":"c"}`) {
			t.Errorf("derived id %s", derived)
		}
		if _, err := s.FindingID([]byte("[]")); err == nil {
			t.Error("a list has an id")
		}
		return nil
	})
}

func TestKeyOfSession(t *testing.T) {
	keys := map[string]string{}
	for name, c := range map[string]struct{ scan, hook string }{
		"A": {`{"metadata":{"uid":"u","name":"n"}}`, ""}, "Again": {`{"metadata":{"uid":"u","name":"n"},"status":{"state":"Errored"}}`, ""},
		"OtherScan": {`{"metadata":{"uid":"v","name":"n"}}`, ""}, "OtherHook": {`{"metadata":{"uid":"u","name":"n"}}`, "second"},
		"NoUID": {`{"metadata":{"name":"n","namespace":"x"}}`, ""},
	} {
		w := sdktest.New(t)
		w.Scan = c.scan
		in(t, w, map[string]string{"HOOK_NAME": c.hook}, func(_ context.Context, s *sdk.Session) error {
			keys[name] = s.Key("p")
			return nil
		})
	}
	if keys["A"] != keys["Again"] {
		t.Error("another run of the hook has another key")
	}
	delete(keys, "Again")
	seen := map[string]string{}
	for name, key := range keys {
		if other, ok := seen[key]; ok {
			t.Errorf("%s has the key of %s", name, other)
		}
		seen[key] = name
	}
}

func TestSecrets(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	cases := map[string]struct {
		env         map[string]string
		want, fails string
	}{
		"Unset":     {nil, "", ""},
		"Variable":  {map[string]string{"KEY": " v "}, " v ", ""},
		"File":      {map[string]string{"KEY_FILE": write("a", "from file\r\n")}, "from file", ""},
		"TwoLines":  {map[string]string{"KEY_FILE": write("b", "a\n\n")}, "a\n", ""},
		"Both":      {map[string]string{"KEY": "s3cr3t", "KEY_FILE": write("c", "x")}, "", "both KEY and KEY_FILE are set"},
		"NoFile":    {map[string]string{"KEY_FILE": filepath.Join(dir, "none")}, "", "read KEY_FILE: open"},
		"Directory": {map[string]string{"KEY_FILE": dir}, "", "read KEY_FILE: read"},
		"TooLarge":  {map[string]string{"KEY_FILE": write("d", strings.Repeat("x", 1<<17))}, "", "longer than"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := sdktest.Env(c.env).Secret("KEY")
			if got != c.want || (err != nil) != (c.fails != "") || err != nil && (!strings.Contains(err.Error(), c.fails) || strings.Contains(err.Error(), "s3cr3t")) {
				t.Errorf("got %q, %v, want %q, %q", got, err, c.want, c.fails)
			}
		})
	}
	if _, err := sdktest.Env(nil).RequireSecret("KEY"); err == nil || !strings.Contains(err.Error(), "KEY is not set") {
		t.Errorf("error %v", err)
	}
}

func TestDeliverySettings(t *testing.T) {
	for name, value := range map[string]string{"DELIVERY_ATTEMPTS": "0", "DELIVERY_BUDGET": "-1s", "DELIVERY_TIMEOUT": "5", "HTTPS_PROXY": "ftp://u:s3cr3t@p"} {
		w := sdktest.New(t)
		got := in(t, w, map[string]string{name: value}, func(context.Context, *sdk.Session) error { return nil })
		if got.ExitCode != 1 || !strings.Contains(got.Stderr, name) || strings.Contains(got.Stderr, "s3cr3t") {
			t.Errorf("%s: exit code %d, %s", name, got.ExitCode, got.Stderr)
		}
	}
	for text, want := range map[string]bool{"true": true, "True": true, "false": false, "": true} {
		if got, err := sdktest.Env(map[string]string{"B": text}).Bool("B", true); err != nil || got != want {
			t.Errorf("%q: %t, %v", text, got, err)
		}
	}
	if _, err := sdktest.Env(map[string]string{"B": "1"}).Bool("B", true); err == nil {
		t.Error("1 is taken for a truth value")
	}
}

func TestCompare(t *testing.T) {
	one := func(name string) string {
		return fmt.Sprintf(`{"name":%q,"fingerprint":"%032x","parsed_at":"now"}`, name, name)
	}
	list := func(names string) []byte {
		var all []string
		for name := range strings.FieldsSeq(names) {
			all = append(all, one(name))
		}
		return []byte("[" + strings.Join(all, ",") + "]")
	}
	cases := map[string]struct {
		previous, current string
		absent            bool
		status            int
		want              map[string]compare.State
		has               bool
		fails             string
	}{
		"Both":     {previous: "a b c", current: "b d", has: true, want: map[string]compare.State{"a": compare.Fixed, "b": compare.Known, "c": compare.Fixed, "d": compare.New}},
		"AllNew":   {previous: "", current: "a", has: true, want: map[string]compare.State{"a": compare.New}},
		"AllFixed": {previous: "a", current: "", has: true, want: map[string]compare.State{"a": compare.Fixed}},
		"FirstRun": {absent: true, current: "a b", want: map[string]compare.State{"a": compare.New, "b": compare.New}},
		"Gone":     {status: 404, current: "a", want: map[string]compare.State{"a": compare.New}},
		"Expired":  {status: 403, current: "a", fails: "previous run: get findings"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			w := sdktest.New(t)
			w.Objects["/previous.json"], w.Objects["/findings.json"] = list(c.previous), list(c.current)
			w.Faults = func(_, path string) int {
				if path == "/previous.json" {
					return c.status
				}
				return 0
			}
			env := map[string]string{"PREVIOUS_FINDINGS_URL": w.URLs("/previous.json")[0]}
			if c.absent {
				env = nil
			}
			states, has := map[string]compare.State{}, false
			note := func(element []byte, state compare.State) error {
				var f struct{ Name string }
				err := json.Unmarshal(element, &f)
				states[f.Name] = state
				return err
			}
			got := in(t, w, env, func(ctx context.Context, s *sdk.Session) error {
				previous, err := s.Compare(ctx)
				if err != nil {
					return err
				}
				has = previous.HasPrevious()
				err = s.EachFinding(ctx, func(element []byte) error {
					state, err := previous.State(element)
					return errors.Join(err, note(element, state))
				})
				return errors.Join(err, previous.EachFixed(ctx, func(element []byte) error { return note(element, compare.Fixed) }))
			})
			if (got.ExitCode != 0) != (c.fails != "") || !strings.Contains(got.Stderr, c.fails) {
				t.Fatalf("exit code %d: %s", got.ExitCode, got.Stderr)
			}
			if c.fails != "" {
				return
			}
			if diff := cmp.Diff(c.want, states); diff != "" || has != c.has {
				t.Errorf("previous run: %t (-want +got):\n%s", has, diff)
			}
		})
	}
}
