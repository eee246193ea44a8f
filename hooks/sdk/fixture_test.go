// SPDX-License-Identifier: Apache-2.0

package sdk_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/scanyard/scanyard/hooks/sdk"
	"github.com/scanyard/scanyard/hooks/sdk/sdktest"
)

type fixture struct {
	Env       map[string]string `json:"env"`
	Arguments []string          `json:"arguments"`
	Findings  []json.RawMessage `json:"findings"`
	Hook      string            `json:"hook"`
	PutStatus int               `json:"putStatus"`
	Expected  struct {
		ExitCode   int                `json:"exitCode"`
		Operations []fixtureOperation `json:"operations"`
	} `json:"expected"`
}

type fixtureOperation struct {
	API         string          `json:"api"`
	Namespace   string          `json:"namespace"`
	Plural      string          `json:"plural"`
	Name        string          `json:"name"`
	HTTP        string          `json:"http"`
	URL         string          `json:"url"`
	ContentType string          `json:"contentType"`
	JSON        json.RawMessage `json:"json"`
	Body        json.RawMessage `json:"body"`
	Options     struct {
		Header []string `json:"header"`
	} `json:"options"`
}

// fixtureHook does what the hook of a case does.
func fixtureHook(t *testing.T, c fixture) sdk.Hook {
	write := func(ctx context.Context, s *sdk.Session) error {
		return s.UpdateFindings(ctx, func(_ context.Context, out *sdk.Output) error {
			for _, f := range c.Findings {
				if err := out.WriteRaw(f); err != nil {
					return err
				}
			}
			return nil
		})
	}
	read := func(ctx context.Context, s *sdk.Session) error {
		raw, err := s.RawResult(ctx)
		if err != nil {
			return err
		}
		if _, err := io.Copy(io.Discard, raw); err != nil {
			return err
		}
		return errors.Join(raw.Close(), s.EachFinding(ctx, func([]byte) error { return nil }))
	}
	raw := func(ctx context.Context, s *sdk.Session) error {
		const text = "RAW-changed"
		return s.UpdateRawResult(ctx, int64(len(text)), func() (io.ReadCloser, error) {
			return io.NopCloser(strings.NewReader(text)), nil
		})
	}
	throw := func(context.Context, *sdk.Session) error { return errors.New("the hook has a defect") }
	handle, ok := map[string]sdk.HandlerFunc{
		"": write, "write": write, "update": write, "read": read, "raw": raw, "throw": throw, "error": throw,
	}[c.Hook]
	if !ok {
		t.Fatalf("no hook %q", c.Hook)
	}
	return sdk.Hook{Name: "fixture", New: func(sdk.Env) (sdk.Handler, error) { return handle, nil }}
}

func TestFixtureHookSDK(t *testing.T) {
	sdktest.Cases(t, "hook-sdk", func(t *testing.T, c fixture) {
		w := sdktest.New(t)
		findings, err := json.Marshal(c.Findings)
		if err != nil {
			t.Fatal(err)
		}
		w.Objects["/findings.json"] = findings
		w.Faults = func(method, _ string) int {
			if method == http.MethodPut {
				return c.PutStatus
			}
			return 0
		}
		env := func(name string) (string, bool) { value, ok := c.Env[name]; return value, ok }
		got := w.RunArgs(t, fixtureHook(t, c), env, w.URLs(c.Arguments...))
		if got.ExitCode != c.Expected.ExitCode {
			t.Errorf("exit code %d, want %d: %s", got.ExitCode, c.Expected.ExitCode, got.Stderr)
		}
		want := make([]sdktest.Operation, 0, len(c.Expected.Operations))
		for _, o := range c.Expected.Operations {
			want = append(want, o.operation(t))
		}
		ignoreLength := cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".Length" }, cmp.Ignore())
		sameJSON := cmp.Comparer(func(a, b []byte) bool {
			return bytes.Equal(a, b) || json.Valid(a) && json.Valid(b) && cmp.Equal(sdktest.JSON(t, a), sdktest.JSON(t, b))
		})
		if diff := cmp.Diff(want, append([]sdktest.Operation{}, got.Operations...), ignoreLength, sameJSON); diff != "" {
			t.Errorf("operations (-want +got):\n%s", diff)
		}
	})
}

func (o fixtureOperation) operation(t *testing.T) sdktest.Operation {
	path := "/apis/execution.securecodebox.io/v1/namespaces/" + o.Namespace + "/" + o.Plural + "/" + o.Name
	switch {
	case o.HTTP != "" && o.JSON != nil:
		return sdktest.Operation{Method: o.HTTP, Path: o.URL, ContentType: o.ContentType, Body: o.JSON}
	case o.HTTP != "":
		var text string
		if err := json.Unmarshal(o.Body, &text); err != nil {
			t.Fatal(err)
		}
		return sdktest.Operation{Method: o.HTTP, Path: o.URL, ContentType: o.ContentType, Body: []byte(text)}
	case o.API == "get":
		return sdktest.Operation{Method: http.MethodGet, Path: path, Body: []byte{}}
	case o.API == "patchStatus":
		return sdktest.Operation{Method: http.MethodPatch, Path: path + "/status", ContentType: o.Options.Header[1], Body: o.Body}
	}
	t.Fatalf("unknown operation %+v", o)
	return sdktest.Operation{}
}
