// SPDX-License-Identifier: Apache-2.0

package sink_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	forwardingv1 "github.com/scanyard/scanyard/apis/forwarding/v1"
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

// TestByStream: each producer has a stream of its own, in its order; records that came as messages, or from nobody who said a name, stay in that of the batch.
func TestByStream(t *testing.T) {
	of := func(producer string) map[string]string { return map[string]string{sink.MetadataProducer: producer} }
	b := sink.Batch{Stream: &forwardingv1.StreamId{ClusterId: "c", Tenant: "t", Name: "exporter", Uid: "q"}}
	for i, metadata := range []map[string]string{of("a"), of("b"), nil, of("a"), of("exporter"), of("b")} {
		b.Records = append(b.Records, sink.Record{Sequence: uint64(i + 1), Line: []byte("{}"), Metadata: metadata})
	}
	b.Records = append(b.Records, sink.Record{Sequence: 7, Message: &forwardingv1.Record{}})
	var got []string
	for _, part := range b.ByStream() {
		var sequences []uint64
		for _, r := range part.Records {
			sequences = append(sequences, r.Sequence)
		}
		got = append(got, fmt.Sprint(part.Stream.GetName(), part.Stream.GetUid(), part.Stream.GetTenant(), part.Stream.GetClusterId(), sequences))
	}
	if want := []string{"aqtc[1 4]", "bqtc[2 6]", "exporterqtc[3 5 7]"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	one := sink.Batch{Stream: b.Stream, Records: b.Records[:1]}
	if parts := one.ByStream(); len(parts) != 1 || parts[0].Stream.GetName() != "a" || len(parts[0].Records) != 1 {
		t.Errorf("got %+v", parts)
	}
	if parts := (sink.Batch{Stream: b.Stream}).ByStream(); len(parts) != 0 {
		t.Errorf("got %+v", parts)
	}
}
