// SPDX-License-Identifier: Apache-2.0

package sink_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/scanyard/scanyard/forwarding/sink"
)

func TestOpenNamesTheKnownSchemes(t *testing.T) {
	sink.Register("test-a", func(sink.Config) (sink.Sink, error) { return nil, errors.New("reached") })
	_, err := sink.Open(sink.Config{Name: "hub", URL: &url.URL{Scheme: "gopher"}})
	if err == nil || !strings.Contains(err.Error(), `sink hub: the scheme "gopher" is not known: use one of `) || !strings.Contains(err.Error(), "test-a") {
		t.Errorf("got %v", err)
	}
	if _, err := sink.Open(sink.Config{URL: &url.URL{Scheme: "test-a"}}); err == nil || err.Error() != "reached" {
		t.Errorf("the factory was not asked: %v", err)
	}
}

func TestSecretsAreNotPrinted(t *testing.T) {
	material := sink.Material{Token: "hunter2", Password: "hunter2", Further: map[string]sink.Secret{"secret": "hunter2"}}
	encoded, err := json.Marshal(material)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{fmt.Sprint(material), fmt.Sprintf("%+v", material), fmt.Sprintf("%#v", material), fmt.Sprintf("%q", material.Token), string(encoded)} {
		if strings.Contains(text, "hunter2") {
			t.Errorf("the secret is in %s", text)
		}
	}
	if material.Token.Reveal() != "hunter2" {
		t.Error("the secret is lost")
	}
}

func TestAsError(t *testing.T) {
	wrapped := fmt.Errorf("sending: %w", &sink.Error{Class: sink.Auth, Reason: sink.TokenRejected, Message: "401"})
	if e := sink.AsError(wrapped); e.Class != sink.Auth || e.Reason != sink.TokenRejected {
		t.Errorf("got %+v", e)
	}
	if e := sink.AsError(errors.New("boom")); e.Class != sink.Transport || e.Reason != sink.Unknown || e.Message != "boom" {
		t.Errorf("a foreign error must be kept and retried: %+v", e)
	}
}
