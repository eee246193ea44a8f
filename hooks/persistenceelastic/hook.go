// SPDX-License-Identifier: Apache-2.0

package persistenceelastic

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/scanyard/scanyard/hooks/sdk"
	"github.com/scanyard/scanyard/hooks/sdk/delivery"
)

// Hook registers persistence-elastic.
func Hook() sdk.Hook {
	return sdk.Hook{
		Name:     "persistence-elastic",
		Summary:  "Writes the Scan and its findings into an index of Elasticsearch or OpenSearch.",
		Excepted: sdk.ExceptedMark,
		Settings: append([]sdk.Setting{
			sdk.ExceptedSetting(sdk.ExceptedMark),
			{Name: "ELASTICSEARCH_ADDRESS", Text: "where it is (http or https); or ELASTICSEARCH_ADDRESS_FILE"},
			{Name: "ELASTICSEARCH_INDEX_PREFIX", Text: "how names of indices begin; default " + defaultPrefix},
			{Name: "ELASTICSEARCH_INDEX_APPEND_NAMESPACE", Text: "any text, even false, puts the Scan's namespace into the name; leave it out to have none"},
			{Name: "ELASTICSEARCH_INDEX_SUFFIX", Text: "how names end: a date (UTC) in tokens of Luxon; default " + defaultSuffix},
			{Name: "ELASTICSEARCH_APIKEY_ID", Text: "id of an API key; or ELASTICSEARCH_APIKEY_ID_FILE"},
			{Name: "ELASTICSEARCH_APIKEY", Text: "the API key; without an id, its encoded form; or ELASTICSEARCH_APIKEY_FILE"},
			{
				Name: "ELASTICSEARCH_APIKEY_SWAPPED",
				Text: "id of an API key where ELASTICSEARCH_APIKEY_ID holds the key, as in secrets made for secureCodeBox's chart; or ELASTICSEARCH_APIKEY_SWAPPED_FILE",
			},
			{Name: "ELASTICSEARCH_USERNAME", Text: "user, where there is no API key; or ELASTICSEARCH_USERNAME_FILE"},
			{Name: "ELASTICSEARCH_PASSWORD", Text: "password; or ELASTICSEARCH_PASSWORD_FILE"},
			{
				Name: "ELASTICSEARCH_MAPPINGS",
				Text: "elasticsearch or opensearch: types of fields that a new index has for labels and attributes; default none, the remote service guesses",
			},
			{Name: "ELASTICSEARCH_INDEX_BODY", Text: "JSON that a new index is made with, instead of ELASTICSEARCH_MAPPINGS; or ELASTICSEARCH_INDEX_BODY_FILE"},
			{Name: "ELASTICSEARCH_BATCH_SIZE", Text: fmt.Sprintf("findings per request; default %d", defaultBatch)},
			{
				Name: "ELASTICSEARCH_REFRESH",
				Text: "true: findings can be searched at once; false: when the index is refreshed anyway; wait_for: the hook waits for that; default true",
			},
		}, sdk.DeliverySettings()...),
		New: newHandler,
	}
}

const (
	defaultPrefix = "scb"
	defaultSuffix = "yyyy-MM-dd"
	defaultBatch  = 50
	// maxBatch keeps an answer, which speaks of every finding, in the memory of a small pod.
	maxBatch = 5000
)

type handler struct {
	address   string // without a slash at its end
	prefix    string
	namespace string // empty: not in the name
	misread   bool   // a user wrote false where that means true
	suffix    layout
	header    http.Header
	secrets   []string
	newIndex  []byte
	batch     int
	refresh   string
}

func newHandler(env sdk.Env) (sdk.Handler, error) {
	h := &handler{prefix: defaultPrefix, header: http.Header{}}
	address, err := env.RequireSecret("ELASTICSEARCH_ADDRESS")
	if err != nil {
		return nil, err
	}
	if _, err := delivery.ParseURL(address); err != nil {
		return nil, fmt.Errorf("ELASTICSEARCH_ADDRESS %w", err)
	}
	h.address = strings.TrimRight(address, "/")
	if err := h.setName(env); err != nil {
		return nil, err
	}
	if err := h.setCredentials(env); err != nil {
		return nil, err
	}
	if h.newIndex, err = newIndexBody(env); err != nil {
		return nil, err
	}
	if h.batch, err = env.Count("ELASTICSEARCH_BATCH_SIZE", defaultBatch); err != nil {
		return nil, err
	}
	if h.batch > maxBatch {
		return nil, fmt.Errorf("ELASTICSEARCH_BATCH_SIZE is %d, want %d at most", h.batch, maxBatch)
	}
	switch h.refresh = env.Get("ELASTICSEARCH_REFRESH"); h.refresh {
	case "":
		h.refresh = "true"
	case "true", "false", "wait_for":
	default:
		return nil, fmt.Errorf("ELASTICSEARCH_REFRESH is %q, want true, false or wait_for", h.refresh)
	}
	return h, nil
}

func (h *handler) setName(env sdk.Env) (err error) {
	if prefix := env.Get("ELASTICSEARCH_INDEX_PREFIX"); prefix != "" {
		h.prefix = prefix
	}
	suffix := env.Get("ELASTICSEARCH_INDEX_SUFFIX")
	if suffix == "" {
		suffix = defaultSuffix
	}
	if h.suffix, err = parseLayout(suffix); err != nil {
		return fmt.Errorf("ELASTICSEARCH_INDEX_SUFFIX %w", err)
	}
	// Also the text false appends: who relies on the names that come of it would find nothing in others.
	if text := env.Get("ELASTICSEARCH_INDEX_APPEND_NAMESPACE"); text != "" {
		h.namespace, h.misread = env.Get("NAMESPACE"), text == "false"
	}
	return nil
}

// setCredentials takes an API key, else user and password, else nothing. Half a pair counts as none.
func (h *handler) setCredentials(env sdk.Env) error {
	values := map[string]string{}
	for _, name := range []string{"APIKEY_ID", "APIKEY", "APIKEY_SWAPPED", "USERNAME", "PASSWORD"} {
		value, err := env.Secret("ELASTICSEARCH_" + name)
		if err != nil {
			return err
		}
		values[name] = value
	}
	id, key := values["APIKEY_ID"], values["APIKEY"]
	if key == "" && values["APIKEY_SWAPPED"] != "" {
		id, key = values["APIKEY_SWAPPED"], id
	}
	user, password := values["USERNAME"], values["PASSWORD"]
	switch {
	case key != "" && id != "":
		h.header.Set("Authorization", "ApiKey "+base64.StdEncoding.EncodeToString([]byte(id+":"+key)))
	case key != "":
		h.header.Set("Authorization", "ApiKey "+key)
	case user != "" && password != "":
		h.header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(user+":"+password)))
	}
	h.secrets = []string{key, password}
	return nil
}

// flattened are types that take an object of any shape as one field. With guessed types, the first Scan decides that a
// port is a number and a label `app` a text, and findings with the port "any" or the label `app.kubernetes.io/name`
// are refused from then on.
var flattened = map[string]string{"elasticsearch": `{"type":"flattened","ignore_above":8191}`, "opensearch": `{"type":"flat_object"}`}

// newIndexBody is what a new index is made with.
func newIndexBody(env sdk.Env) ([]byte, error) {
	body, err := env.Secret("ELASTICSEARCH_INDEX_BODY")
	if err != nil {
		return nil, err
	}
	mappings := env.Get("ELASTICSEARCH_MAPPINGS")
	switch kind, known := flattened[mappings]; {
	case body != "" && mappings != "":
		return nil, errors.New("both ELASTICSEARCH_INDEX_BODY and ELASTICSEARCH_MAPPINGS are set; one is enough")
	case body != "":
		var object map[string]json.RawMessage
		if err := json.Unmarshal([]byte(body), &object); err != nil {
			return nil, fmt.Errorf("ELASTICSEARCH_INDEX_BODY is not a JSON object: %w", err)
		}
		return []byte(body), nil
	case known:
		return []byte(`{"mappings":{"properties":{"@timestamp":{"type":"date"},"attributes":` + kind +
			`,"labels":` + kind + `,"scan_labels":` + kind + `}}}`), nil
	case mappings == "" || mappings == "none":
		return []byte("{}"), nil
	}
	return nil, fmt.Errorf("ELASTICSEARCH_MAPPINGS is %q, want none, elasticsearch or opensearch", mappings)
}
