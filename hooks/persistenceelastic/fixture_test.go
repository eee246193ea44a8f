// SPDX-License-Identifier: Apache-2.0

package persistenceelastic

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/scanyard/scanyard/hooks/sdk"
	"github.com/scanyard/scanyard/hooks/sdk/sdktest"
)

type fixture struct {
	Env      map[string]string `json:"env"`
	Now      time.Time         `json:"now"`
	Scan     json.RawMessage   `json:"scan"`
	Findings json.RawMessage   `json:"findings"`
	Expected struct {
		Operations []operation `json:"operations"`
	} `json:"expected"`
}

// operation is a call of the client that secureCodeBox uses.
type operation struct {
	Op      string          `json:"op"`
	Index   string          `json:"index"`
	Refresh bool            `json:"refresh"`
	Body    json.RawMessage `json:"body"`
}

// yes takes everything, also names of indices that no cluster would take.
func yes(_ int, r sdktest.Request) sdktest.Reply {
	var items []any
	for line := range bytes.Lines(r.Body) {
		var action map[string]struct {
			ID string `json:"_id"`
		}
		if json.Unmarshal(line, &action) == nil && action["index"].ID != "" {
			items = append(items, map[string]any{"index": map[string]any{"_id": action["index"].ID, "status": 201}})
		}
	}
	return answer(http.StatusOK, map[string]any{"items": items})
}

func TestFixturePersistenceElastic(t *testing.T) {
	sdktest.Cases(t, "persistence-elastic", func(t *testing.T, c fixture) {
		w := sdktest.New(t)
		w.Scan, w.Objects["/findings.json"] = string(c.Scan), c.Findings
		w.Clock.Set(c.Now)
		far := w.NewRemote(t, yes)
		env := maps.Clone(c.Env)
		env["ELASTICSEARCH_ADDRESS"] = far.URL + "/"
		// The world has one namespace, the case another: the hook alone sees that of the case.
		hook := Hook()
		hook.New = func(sdk.Env) (sdk.Handler, error) { return Hook().New(sdktest.Env(env)) }
		if got := w.Run(t, hook, nil); got.ExitCode != 0 {
			t.Fatal(got.Stderr)
		}
		scan := struct{ Metadata struct{ UID string } }{}
		if err := json.Unmarshal(c.Scan, &scan); err != nil {
			t.Fatal(err)
		}
		var got []map[string]any
		for _, r := range far.Requests() {
			got = append(got, operationOf(t, r, scan.Metadata.UID))
		}
		var want []map[string]any
		for _, o := range c.Expected.Operations {
			want = append(want, map[string]any{"op": o.Op, "index": o.Index, "refresh": o.Refresh, "body": sdktest.JSON(t, o.Body)})
		}
		if diff := cmp.Diff(withoutEmpty(want), withoutEmpty(got)); diff != "" {
			t.Errorf("operations (-want +got):\n%s", diff)
		}
	})
}

// operationOf turns a request into the call that makes it, without ids, which are an addition; they must be there.
func operationOf(t *testing.T, r sdktest.Request, uid string) map[string]any {
	t.Helper()
	path, query, _ := strings.Cut(strings.TrimPrefix(r.URL, "/"), "?")
	o := map[string]any{"index": "", "refresh": query == "refresh=true"}
	switch name, id, isDocument := strings.Cut(path, "/_doc/"); {
	case path == "_bulk":
		o["op"] = "bulk"
		var body []any
		for line := range bytes.Lines(r.Body) {
			value := sdktest.JSON(t, line)
			if len(body)%2 == 0 {
				action := value.(map[string]any)["index"].(map[string]any)
				if id, ok := action["_id"].(string); !ok || !strings.HasPrefix(id, uid+"_") {
					t.Errorf("document has the id %v", action["_id"])
				}
				delete(action, "_id")
			}
			body = append(body, value)
		}
		o["body"] = body
		return o
	case isDocument:
		o["op"], o["index"] = "index", name
		if id != uid {
			t.Errorf("the Scan has the id %s, want %s", id, uid)
		}
	default:
		o["op"], o["index"] = "createIndex", name
	}
	o["body"] = sdktest.JSON(t, r.Body)
	return o
}

// withoutEmpty leaves out what counts as absent: members that are null, or an empty list or object.
func withoutEmpty(operations []map[string]any) []map[string]any {
	var prune func(v any) any
	prune = func(v any) any {
		switch v := v.(type) {
		case []any:
			for i := range v {
				v[i] = prune(v[i])
			}
		case map[string]any:
			for key := range v {
				switch member := prune(v[key]).(type) {
				case nil:
					delete(v, key)
				case []any:
					if len(member) == 0 {
						delete(v, key)
					}
				case map[string]any:
					if len(member) == 0 {
						delete(v, key)
					}
				}
			}
		}
		return v
	}
	for _, o := range operations {
		body := prune(o["body"])
		o["body"] = body
	}
	return operations
}
