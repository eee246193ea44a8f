// SPDX-License-Identifier: Apache-2.0

package persistenceelastic

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/scanyard/scanyard/hooks/sdk/sdktest"
)

// cluster stands in for Elasticsearch or OpenSearch, as strict as their documentation of the index, document and bulk
// APIs, and of dynamic mapping, says they are.
type cluster struct {
	// authorization is the header it wants. Empty wants none.
	authorization string
	// busy says for an item of a bulk request whether it is rejected for now.
	busy func(id string) bool

	indices map[string]*index
	// bulks are the sizes of the bulk requests.
	bulks []int
}

type index struct {
	documents map[string]map[string]any
	versions  map[string]int
	types     map[string]string // by path of a field
}

func newCluster() *cluster {
	return &cluster{busy: func(string) bool { return false }, indices: map[string]*index{}}
}

// all are the documents of all indices, by id; an id that is there twice is an error.
func (c *cluster) all() (map[string]map[string]any, error) {
	all := map[string]map[string]any{}
	for name, i := range c.indices {
		for id, document := range i.documents {
			if _, twice := all[id]; twice {
				return nil, fmt.Errorf("%s is also in %s", id, name)
			}
			all[id] = document
		}
	}
	return all, nil
}

func answer(status int, v any) sdktest.Reply {
	text, err := json.Marshal(v)
	if err != nil {
		return sdktest.Reply{Status: http.StatusTeapot}
	}
	return sdktest.Reply{Status: status, Body: string(text), Header: map[string]string{"Content-Type": "application/json"}}
}

func refusal(status int, kind, reason string) sdktest.Reply {
	return answer(status, map[string]any{"status": status, "error": map[string]any{
		"type": kind, "reason": reason, "root_cause": []any{map[string]any{"type": kind, "reason": reason}},
	}})
}

func (c *cluster) take(r sdktest.Request) sdktest.Reply {
	if c.authorization != "" && r.Header.Get("Authorization") != c.authorization {
		return refusal(http.StatusUnauthorized, "security_exception", "missing authentication credentials for REST request")
	}
	target, err := url.Parse(r.URL)
	if err != nil {
		return refusal(http.StatusBadRequest, "illegal_argument_exception", "invalid path")
	}
	parts := strings.Split(strings.TrimPrefix(target.Path, "/"), "/")
	switch {
	case r.Method == http.MethodPost && target.Path == "/_bulk":
		return c.bulk(r, target.Query())
	case r.Header.Get("Content-Type") != "application/json":
		return refusal(http.StatusNotAcceptable, "media_type_header_exception", "Content-Type header is not supported")
	case r.Method == http.MethodPut && len(parts) == 1:
		return c.create(parts[0], r.Body)
	case r.Method == http.MethodPut && len(parts) == 3 && parts[1] == "_doc":
		status, result := c.write(parts[0], parts[2], r.Body)
		return answer(status, result)
	}
	return refusal(http.StatusMethodNotAllowed, "illegal_argument_exception", "no handler found for "+r.Method+" "+target.Path)
}

var indexName = regexp.MustCompile(`^[^-_+\\/*?"<>| ,#:A-Z][^\\/*?"<>| ,#:A-Z]*$`)

func (c *cluster) create(name string, body []byte) sdktest.Reply {
	switch {
	case !indexName.MatchString(name) || len(name) > 255:
		return refusal(http.StatusBadRequest, "invalid_index_name_exception", "Invalid index name ["+name+"], must be lowercase")
	case c.indices[name] != nil:
		return refusal(http.StatusBadRequest, "resource_already_exists_exception", "index ["+name+"/x] already exists")
	}
	var settings struct {
		Mappings struct {
			Properties map[string]struct{ Type string } `json:"properties"`
		} `json:"mappings"`
	}
	if err := json.Unmarshal(body, &settings); err != nil {
		return refusal(http.StatusBadRequest, "parse_exception", err.Error())
	}
	c.make(name)
	for field, property := range settings.Mappings.Properties {
		c.indices[name].types[field] = property.Type
	}
	return answer(http.StatusOK, map[string]any{"acknowledged": true, "shards_acknowledged": true, "index": name})
}

func (c *cluster) make(name string) *index {
	if c.indices[name] == nil {
		c.indices[name] = &index{documents: map[string]map[string]any{}, versions: map[string]int{}, types: map[string]string{}}
	}
	return c.indices[name]
}

// write is what becomes of one document, as a status and what is said about it.
func (c *cluster) write(name, id string, source []byte) (int, map[string]any) {
	failed := func(status int, kind, reason string) (int, map[string]any) {
		return status, map[string]any{"_index": name, "_id": id, "status": status, "error": map[string]any{"type": kind, "reason": reason}}
	}
	var document map[string]any
	switch err := json.Unmarshal(source, &document); {
	case id == "" || len(id) > 512:
		return failed(http.StatusBadRequest, "illegal_argument_exception", "id is too long, must be no longer than 512 bytes")
	case err != nil || document == nil:
		return failed(http.StatusBadRequest, "document_parsing_exception", "failed to parse")
	}
	i := c.make(name)
	if reason := i.fit("", document); reason != "" {
		return failed(http.StatusBadRequest, "document_parsing_exception", reason)
	}
	i.versions[id]++
	i.documents[id] = document
	status, result := http.StatusCreated, "created"
	if i.versions[id] > 1 {
		status, result = http.StatusOK, "updated"
	}
	return status, map[string]any{"_index": name, "_id": id, "_version": i.versions[id], "result": result, "status": status}
}

// fit is dynamic mapping: the first value of a field decides about its type.
func (i *index) fit(path string, object map[string]any) string {
	for key, value := range object {
		// A dot in a key is a level like any other.
		field := strings.TrimPrefix(path+"."+key, ".")
		levels := strings.Split(field, ".")
		for n := range len(levels) - 1 {
			if reason := i.is(strings.Join(levels[:n+1], "."), "object"); reason != "" {
				return reason
			}
		}
		if reason := i.fitValue(field, value); reason != "" {
			return reason
		}
	}
	return ""
}

func (i *index) fitValue(field string, value any) string {
	if known := i.types[field]; known == "flattened" || known == "flat_object" || known == "date" {
		return ""
	}
	switch v := value.(type) {
	case map[string]any:
		if reason := i.is(field, "object"); reason != "" {
			return reason
		}
		return i.fit(field, v)
	case []any:
		for _, element := range v {
			if reason := i.fitValue(field, element); reason != "" {
				return reason
			}
		}
	case string:
		return i.is(field, "text")
	case float64:
		return i.is(field, "long")
	case bool:
		return i.is(field, "boolean")
	}
	return ""
}

func (i *index) is(field, kind string) string {
	known := i.types[field]
	switch {
	case known == "flattened" || known == "flat_object":
		return ""
	case known == "":
		i.types[field] = kind
	case known == kind, known == "text" && kind != "object":
	case kind == "object" || known == "object":
		return "object mapping for [" + field + "] tried to parse field [" + field + "] as object, but found a concrete value"
	default:
		return "failed to parse field [" + field + "] of type [" + known + "]"
	}
	return ""
}

func (c *cluster) bulk(r sdktest.Request, query url.Values) sdktest.Reply {
	switch refresh := query.Get("refresh"); {
	case r.Header.Get("Content-Type") != "application/x-ndjson":
		return refusal(http.StatusNotAcceptable, "media_type_header_exception", "Content-Type header is not supported")
	case refresh != "" && refresh != "true" && refresh != "false" && refresh != "wait_for":
		return refusal(http.StatusBadRequest, "illegal_argument_exception", "Unknown value for refresh")
	case !bytes.HasSuffix(r.Body, []byte("\n")):
		return refusal(http.StatusBadRequest, "illegal_argument_exception", "The bulk request must be terminated by a newline [\\n]")
	}
	lines := bytes.Split(bytes.TrimSuffix(r.Body, []byte("\n")), []byte("\n"))
	if len(lines)%2 != 0 {
		return refusal(http.StatusBadRequest, "illegal_argument_exception", "Malformed action/metadata line")
	}
	c.bulks = append(c.bulks, len(lines)/2)
	var items []any
	failed := false
	for n := 0; n < len(lines); n += 2 {
		var action struct {
			Index *struct {
				Index string `json:"_index"`
				ID    string `json:"_id"`
			} `json:"index"`
		}
		decoder := json.NewDecoder(bytes.NewReader(lines[n]))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&action); err != nil || action.Index == nil {
			return refusal(http.StatusBadRequest, "illegal_argument_exception", "Malformed action/metadata line")
		}
		if c.busy(action.Index.ID) {
			failed = true
			items = append(items, map[string]any{"index": map[string]any{"_index": action.Index.Index, "_id": action.Index.ID, "status": 429, "error": map[string]any{
				"type": "es_rejected_execution_exception", "reason": "rejected execution of coordinating operation",
			}}})
			continue
		}
		status, result := c.write(action.Index.Index, action.Index.ID, lines[n+1])
		failed = failed || status > 299
		items = append(items, map[string]any{"index": result})
	}
	return answer(http.StatusOK, map[string]any{"took": 1, "errors": failed, "items": items})
}
