// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"google.golang.org/protobuf/proto"

	forwardingv1 "github.com/scanyard/scanyard/apis/forwarding/v1"
	"github.com/scanyard/scanyard/forwarding/internal/discreet"
	"github.com/scanyard/scanyard/forwarding/internal/trust/trusttest"
	"github.com/scanyard/scanyard/forwarding/sink"
)

// secrets are what a test says they are.
type secrets sink.Material

func (s secrets) Read(context.Context) (sink.Material, error) { return sink.Material(s), nil }

func newCluster(t *testing.T, options ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	c, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1), kfake.SeedTopics(1, "results")}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func open(t *testing.T, broker, topic string, change func(*sink.Config)) *Sink {
	t.Helper()
	config := sink.Config{Name: "k", URL: &url.URL{Scheme: "kafka", Host: broker, Path: "/" + topic}, Options: map[string]string{}, Insecure: true, Timeout: 10 * time.Second}
	if change != nil {
		change(&config)
	}
	s, err := Open(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s.(*Sink)
}

// batch has n Results.
func batch(n int) sink.Batch {
	b := sink.Batch{Stream: &forwardingv1.StreamId{ClusterId: "c", Tenant: "team-a", Kind: forwardingv1.StreamKind_STREAM_KIND_SCAN, Name: "nightly", Uid: "u", Revision: 1}}
	for i := range n {
		sequence := uint64(i) + 1
		message := &forwardingv1.Record{
			EventId: forwardingv1.EventID(b.Stream, sequence), Sequence: sequence, Schema: forwardingv1.Schema,
			Body: &forwardingv1.Record_Result{Result: &forwardingv1.Result{Title: fmt.Sprintf("finding %d", i)}},
		}
		message.Digest = forwardingv1.Digest(message)
		b.Records = append(b.Records, sink.Record{EventID: message.GetEventId(), Sequence: sequence, ObservedAt: time.Unix(1, 0), Message: message})
	}
	return b
}

// consume reads n messages of the topic.
func consume(t *testing.T, c *kfake.Cluster, n int, more ...kgo.Opt) []*kgo.Record {
	t.Helper()
	client, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(c.ListenAddrs()...), kgo.ConsumeTopics("results"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	}, more...)...)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	var records []*kgo.Record
	for len(records) < n {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatalf("%d of %d messages came: %v", len(records), n, fetches.Errors())
		}
		records = append(records, fetches.Records()...)
	}
	return records
}

func TestDeliver(t *testing.T) {
	c := newCluster(t)
	s := open(t, c.ListenAddrs()[0], "results", nil)
	if err := s.Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := batch(100)
	if outcome, err := s.Deliver(t.Context(), want); err != nil || len(outcome.Rejected) != 0 {
		t.Fatalf("got %+v, %v", outcome, err)
	}
	for i, message := range consume(t, c, 100) {
		var event struct{ ID, Type string }
		if err := json.Unmarshal(message.Value, &event); err != nil {
			t.Fatal(err)
		}
		if event.ID != want.Records[i].EventID || !strings.HasSuffix(event.Type, ".result") || string(message.Key) != "c/team-a/u/1" ||
			string(message.Headers[0].Value) != event.ID || string(message.Headers[1].Value) != "application/cloudevents+json" {
			t.Fatalf("message %d: %s %v %+v", i, message.Key, message.Headers, event)
		}
	}
}

func TestDeliverProtobuf(t *testing.T) {
	c := newCluster(t)
	s := open(t, c.ListenAddrs()[0], "results", func(config *sink.Config) { config.Options["format"] = formatProtobuf })
	want := batch(1)
	if _, err := s.Deliver(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	got := &forwardingv1.Record{}
	if err := proto.Unmarshal(consume(t, c, 1)[0].Value, got); err != nil || !proto.Equal(got, want.Records[0].Message) {
		t.Errorf("got %v, %v", got, err)
	}
}

// TestAnswers gives each answer of a broker its class.
func TestAnswers(t *testing.T) {
	tests := map[string]struct {
		answer *kerr.Error
		class  sink.Class
		reason sink.Reason
	}{
		"TooLarge":     {kerr.MessageTooLarge, sink.Refused, sink.TooLarge},
		"Invalid":      {kerr.InvalidRecord, sink.Refused, sink.RecordsRejected},
		"Policy":       {kerr.PolicyViolation, sink.Refused, sink.RecordsRejected},
		"NotAllowed":   {kerr.TopicAuthorizationFailed, sink.Auth, sink.PermissionDenied},
		"UnknownTopic": {kerr.UnknownTopicOrPartition, sink.Incompatible, sink.NotCompatible},
		"Sasl":         {kerr.SaslAuthenticationFailed, sink.Auth, sink.TokenRejected},
		"FewReplicas":  {kerr.NotEnoughReplicas, sink.Transport, sink.Disconnected},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := classify(fmt.Errorf("produce: %w", tt.answer)); got.Class != tt.class || got.Reason != tt.reason {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// refuse answers each partition of a request with an error.
func refuse(asked *kmsg.ProduceRequest, with *kerr.Error) kmsg.Response {
	response := asked.ResponseKind().(*kmsg.ProduceResponse)
	for _, topic := range asked.Topics {
		answer := kmsg.NewProduceResponseTopic()
		answer.Topic, answer.TopicID = topic.Topic, topic.TopicID
		for _, partition := range topic.Partitions {
			p := kmsg.NewProduceResponseTopicPartition()
			p.Partition, p.ErrorCode = partition.Partition, with.Code
			answer.Partitions = append(answer.Partitions, p)
		}
		response.Topics = append(response.Topics, answer)
	}
	return response
}

// TestBrokerRefuses lets a broker refuse what it is given.
func TestBrokerRefuses(t *testing.T) {
	for name, tt := range map[string]struct {
		answer *kerr.Error
		class  sink.Class
	}{"Invalid": {kerr.InvalidRecord, sink.Refused}, "NotAllowed": {kerr.TopicAuthorizationFailed, sink.Auth}} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			c.ControlKey(int16(kmsg.Produce), func(request kmsg.Request) (kmsg.Response, error, bool) {
				c.KeepControl()
				return refuse(request.(*kmsg.ProduceRequest), tt.answer), nil, true
			})
			_, err := open(t, c.ListenAddrs()[0], "results", nil).Deliver(t.Context(), batch(3))
			if sink.AsError(err).Class != tt.class {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestNoBrokerAndNoTopic(t *testing.T) {
	c := newCluster(t)
	if err := open(t, c.ListenAddrs()[0], "missing", nil).Probe(t.Context()); sink.AsError(err).Class != sink.Incompatible {
		t.Errorf("a topic that is not there: %v", err)
	}
	if _, err := open(t, c.ListenAddrs()[0], "missing", nil).Deliver(t.Context(), batch(1)); sink.AsError(err).Class != sink.Incompatible {
		t.Errorf("a topic that is not there: %v", err)
	}
	closed, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	address := closed.ListenAddrs()[0]
	closed.Close()
	s := open(t, address, "results", func(config *sink.Config) { config.Timeout = time.Second })
	if _, err := s.Deliver(t.Context(), batch(1)); sink.AsError(err).Reason != sink.ConnectionRefused {
		t.Errorf("nobody listens: %v", err)
	}
}

func TestSASL(t *testing.T) {
	c := newCluster(t, kfake.EnableSASL(), kfake.Superuser("SCRAM-SHA-256", "user", "right"))
	known := open(t, c.ListenAddrs()[0], "results", func(config *sink.Config) {
		config.Options["mechanism"] = "SCRAM-SHA-256"
		config.Secrets = secrets{Username: "user", Password: "right"}
	})
	if err := known.Probe(t.Context()); err != nil {
		t.Error(err)
	}
	// The broker closes the connection of a client that does not say who it is.
	if err := open(t, c.ListenAddrs()[0], "results", nil).Probe(t.Context()); sink.AsError(err).Class != sink.Auth {
		t.Errorf("got %v", err)
	}
}

func TestProof(t *testing.T) {
	c := newCluster(t)
	if v, err := open(t, c.ListenAddrs()[0], "results", nil).Proof(t.Context(), nil); err != nil || v.Proved {
		t.Errorf("one replica proves nothing: %+v, %v", v, err)
	}
	s := open(t, c.ListenAddrs()[0], "results", func(config *sink.Config) { config.Options["provesStorage"] = "true" })
	if v, err := s.Proof(t.Context(), nil); err != nil || !v.Proved {
		t.Errorf("got %+v, %v", v, err)
	}
}

func TestOpenRefuses(t *testing.T) {
	for want, config := range map[string]sink.Config{
		"must name one topic":                           {URL: &url.URL{Host: "a:1", Path: "/"}},
		"is not known: use CloudEventsJSON or Protobuf": {URL: &url.URL{Host: "a:1", Path: "/t"}, Options: map[string]string{"format": "XML"}},
		"is not known: use PLAIN":                       {URL: &url.URL{Host: "a:1", Path: "/t"}, Options: map[string]string{"mechanism": "GSSAPI"}},
		"password in plain text":                        {URL: &url.URL{Host: "a:1", Path: "/t"}, Options: map[string]string{"mechanism": "PLAIN"}, Insecure: true},
	} {
		if _, err := Open(config); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	if got := fmt.Sprint(brokers(sink.Config{URL: &url.URL{Host: "a"}, Options: map[string]string{"brokers": "b:1+[::1]"}})); got != "[a:9092 b:1 [::1]:9092]" {
		t.Errorf("got %s", got)
	}
}

// patience is longer than any of these tests may take: a sink that is told why does not wait for its timeout.
const patience = 10 * time.Minute

// TestRefusalIsReportedAtOnce has secrets that a broker does not accept. Some brokers say so, and some hang up without a word; some answer
// in a way that ends the exchange.
func TestRefusalIsReportedAtOnce(t *testing.T) {
	answer := func(change func(*kmsg.SASLAuthenticateResponse)) func(*kfake.Cluster) {
		return func(c *kfake.Cluster) {
			c.ControlKey(int16(kmsg.SASLAuthenticate), func(request kmsg.Request) (kmsg.Response, error, bool) {
				c.KeepControl()
				response := request.ResponseKind().(*kmsg.SASLAuthenticateResponse)
				change(response)
				return response, nil, true
			})
		}
	}
	for name, test := range map[string]struct {
		mechanism string
		broker    func(*kfake.Cluster)
	}{
		"Answers":         {"SCRAM-SHA-256", answer(func(r *kmsg.SASLAuthenticateResponse) { r.ErrorCode = kerr.SaslAuthenticationFailed.Code })},
		"EndsTheExchange": {"SCRAM-SHA-512", answer(func(r *kmsg.SASLAuthenticateResponse) { r.SASLAuthBytes = []byte("e=invalid-proof") })},
		"HangsUp":         {"SCRAM-SHA-256", func(*kfake.Cluster) {}},
		"HangsUpAtOnce":   {"PLAIN", func(*kfake.Cluster) {}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, kfake.EnableSASL(), kfake.Superuser(test.mechanism, "user", "right"))
			test.broker(c)
			wrong := open(t, c.ListenAddrs()[0], "results", func(config *sink.Config) {
				config.Options["mechanism"] = test.mechanism
				config.Secrets, config.Timeout = secrets{Username: "user", Password: "wrong"}, patience
			})
			for what, err := range map[string]error{"records": deliver(t, wrong, 3), "a probe": wrong.Probe(t.Context())} {
				if e := sink.AsError(err); e.Class != sink.Auth || e.Reason != sink.TokenRejected {
					t.Errorf("%s: got %v", what, err)
				}
			}
			if got := c.PartitionInfo("results", 0).HighWatermark; got != 0 {
				t.Errorf("%d records came through", got)
			}
		})
	}
}

func deliver(t *testing.T, to sink.Sink, records int) error {
	t.Helper()
	_, err := to.Deliver(t.Context(), batch(records))
	return err
}

// TestWorst: one error stands for all records, so that the broker is asked once why, and not once for each record.
func TestWorst(t *testing.T) {
	for name, test := range map[string]struct {
		records []error
		want    error
	}{
		"Acknowledged":     {[]error{nil, nil}, nil},
		"OneOfMany":        {[]error{nil, kgo.ErrRecordTimeout, nil}, kgo.ErrRecordTimeout},
		"NoFaultOfRecords": {[]error{kerr.InvalidRecord, kgo.ErrRecordTimeout, kerr.InvalidRecord}, kgo.ErrRecordTimeout},
		"FaultOfRecords":   {[]error{nil, kerr.InvalidRecord}, kerr.InvalidRecord},
	} {
		t.Run(name, func(t *testing.T) {
			var results kgo.ProduceResults
			for _, err := range test.records {
				results = append(results, kgo.ProduceResult{Err: err})
			}
			if got := worst(results); !errors.Is(got, test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

// content is what a producer has sent, without its compression.
func content(t *testing.T, sent []byte) []byte {
	t.Helper()
	var b kmsg.RecordBatch
	if err := b.ReadFrom(sent); err != nil {
		t.Error(err)
	}
	const codecBits = 7
	plain, err := kgo.DefaultDecompressor().Decompress(b.Records, kgo.CompressionCodecType(b.Attributes&codecBits))
	if err != nil {
		t.Error(err)
	}
	return plain
}

// TestFaultPartial lets a broker refuse one record of many, which it does by refusing what it came with: cut in halves, only that one is left.
func TestFaultPartial(t *testing.T) {
	c := newCluster(t)
	all := batch(8)
	poison := all.Records[5].EventID
	c.ControlKey(int16(kmsg.Produce), func(request kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		asked := request.(*kmsg.ProduceRequest)
		for _, topic := range asked.Topics {
			for _, partition := range topic.Partitions {
				if bytes.Contains(content(t, partition.Records), []byte(poison)) {
					return refuse(asked, kerr.InvalidRecord), nil, true
				}
			}
		}
		return nil, nil, false
	})
	s := open(t, c.ListenAddrs()[0], "results", nil)
	var refused []string
	var deliver func(records []sink.Record)
	deliver = func(records []sink.Record) {
		_, err := s.Deliver(t.Context(), sink.Batch{Stream: all.Stream, Records: records})
		switch {
		case err == nil:
		case sink.AsError(err).Class != sink.Refused:
			t.Fatal(err)
		case len(records) == 1:
			refused = append(refused, records[0].EventID)
		default:
			deliver(records[:len(records)/2])
			deliver(records[len(records)/2:])
		}
	}
	deliver(all.Records)
	if len(refused) != 1 || refused[0] != poison {
		t.Errorf("refused: %v", refused)
	}
	for _, message := range consume(t, c, 7) {
		if string(message.Headers[0].Value) == poison {
			t.Error("the refused record is in the topic")
		}
	}
}

// TestSecretsAreNowhere: the password is in no message of the topic, and not in what the sink says of a broker that repeats it.
func TestSecretsAreNowhere(t *testing.T) {
	const mechanism, password = "PLAIN", trusttest.Sesame + " of kafka"
	authority := trusttest.NewAuthority(t, "brokers")
	issued := authority.Issue(t, "127.0.0.1", time.Now().Add(time.Hour))
	certificate, err := tls.X509KeyPair(issued.Certificate, issued.Key)
	if err != nil {
		t.Fatal(err)
	}
	config := &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	c := newCluster(t, kfake.EnableSASL(), kfake.Superuser(mechanism, "user", password), kfake.TLS(config))
	known := trusttest.NewSecrets(sink.Material{Username: "user", Password: password, Roots: authority.PEM})
	opened := func() sink.Sink {
		s, err := discreet.Open(sink.Config{
			Name: "k", URL: &url.URL{Scheme: "kafka", Host: c.ListenAddrs()[0], Path: "/results"}, Options: map[string]string{"mechanism": mechanism},
			Secrets: known, Timeout: patience,
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	if _, err := opened().Deliver(t.Context(), batch(3)); err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority.PEM)
	for _, message := range consume(t, c, 3, kgo.DialTLSConfig(&tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}), kgo.SASL(plain.Auth{User: "user", Pass: password}.AsMechanism())) {
		if traces := trusttest.Traces(fmt.Sprint(string(message.Key), message.Headers, string(message.Value))); len(traces) > 0 {
			t.Errorf("a secret is in a message: %v", traces)
		}
	}
	echo := &trusttest.Echo{}
	c.ControlKey(int16(kmsg.SASLAuthenticate), func(request kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		answer := request.ResponseKind().(*kmsg.SASLAuthenticateResponse)
		answer.ErrorCode = kerr.SaslAuthenticationFailed.Code
		answer.ErrorMessage = new(echo.Repeats(string(request.(*kmsg.SASLAuthenticateRequest).SASLAuthBytes)))
		return answer, nil, true
	})
	_, err = opened().Deliver(t.Context(), batch(3))
	if e := sink.AsError(err); e.Reason != sink.TokenRejected || !echo.Heard() || len(trusttest.Traces(e.Message)) > 0 {
		t.Errorf("got %v; repeated: %t", err, echo.Heard())
	}
}
