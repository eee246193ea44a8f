// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"google.golang.org/protobuf/proto"

	forwardingv1 "github.com/scanyard/scanyard/apis/forwarding/v1"
	"github.com/scanyard/scanyard/forwarding/internal/cloudevent"
	"github.com/scanyard/scanyard/forwarding/internal/trust"
	"github.com/scanyard/scanyard/forwarding/sink"
)

func init() { sink.Register("kafka", Open) }

// Formats of a message.
const (
	formatJSON     = "CloudEventsJSON"
	formatProtobuf = "Protobuf"
)

// linger is how long records of one broker are gathered.
const (
	linger         = 5 * time.Millisecond
	defaultTimeout = 30 * time.Second
	defaultPort    = "9092"
	enoughReplicas = 2
)

// Sink produces into one topic.
type Sink struct {
	client  *kgo.Client
	refusal *refusal
	topic   string
	format  string
	proves  bool
	timeout time.Duration
}

// Open makes the sink. It does not connect.
func Open(config sink.Config) (sink.Sink, error) {
	topic := strings.Trim(config.URL.Path, "/")
	if topic == "" || strings.Contains(topic, "/") {
		return nil, fmt.Errorf("sink %s: the URL must name one topic, such as kafka://broker.example.com:9092/results", config.Name)
	}
	s := &Sink{topic: topic, format: config.Options["format"], proves: config.Options["provesStorage"] == "true", timeout: config.Timeout}
	switch s.format {
	case "":
		s.format = formatJSON
	case formatJSON, formatProtobuf:
	default:
		return nil, fmt.Errorf("sink %s: the format %q is not known: use %s or %s", config.Name, s.format, formatJSON, formatProtobuf)
	}
	if s.timeout <= 0 {
		s.timeout = defaultTimeout
	}
	dialer := trust.New(trust.Config{
		Secrets: config.Secrets, ServerName: config.ServerName, TLS12: config.TLS12, Insecure: config.Insecure, Dial: config.Dial, Expires: config.Expires,
		Now: time.Now, //nolint:forbidigo // certificates are judged now
	})
	s.refusal = &refusal{dialer: dialer, waiting: map[*context.CancelCauseFunc]struct{}{}}
	options := []kgo.Opt{
		kgo.SeedBrokers(brokers(config)...), kgo.DefaultProduceTopic(topic), kgo.Dialer(dialer.Dial), kgo.ClientID("scanyard-forwarding"),
		kgo.RequiredAcks(kgo.AllISRAcks()), kgo.ProducerLinger(linger), kgo.RecordDeliveryTimeout(s.timeout), kgo.UnknownTopicRetries(0),
		kgo.MetadataMinAge(time.Second), kgo.RetryTimeout(s.timeout), kgo.WithHooks(s.refusal),
	}
	mechanism, err := saslOf(config, dialer)
	if err != nil {
		return nil, fmt.Errorf("sink %s: %w", config.Name, err)
	}
	if mechanism != nil {
		s.refusal.sasl = true
		options = append(options, kgo.SASL(exchange{mechanism}))
	}
	if s.client, err = kgo.NewClient(options...); err != nil {
		return nil, fmt.Errorf("sink %s: %w", config.Name, err)
	}
	return s, nil
}

// brokers are the one of the URL and those of the option.
func brokers(config sink.Config) []string {
	list := []string{config.URL.Host}
	if further := config.Options["brokers"]; further != "" {
		list = append(list, strings.Split(further, "+")...)
	}
	for i, broker := range list {
		if _, _, err := net.SplitHostPort(broker); err != nil {
			list[i] = net.JoinHostPort(strings.Trim(broker, "[]"), defaultPort)
		}
	}
	return list
}

// Deliver produces the records and waits for all of them.
func (s *Sink) Deliver(ctx context.Context, batch sink.Batch) (sink.Outcome, error) {
	return s.Gather(ctx, []sink.Batch{batch})
}

// Gather produces the records of all batches and waits for all of them.
func (s *Sink) Gather(ctx context.Context, batches []sink.Batch) (sink.Outcome, error) {
	var messages []*kgo.Record
	for _, batch := range batches {
		key := []byte(keyOf(batch.Stream))
		for _, record := range batch.Records {
			value, contentType, err := s.encode(batch.Stream, record)
			if err != nil {
				return sink.Outcome{}, &sink.Error{Class: sink.Refused, Reason: sink.RecordsRejected, Message: err.Error()}
			}
			messages = append(messages, &kgo.Record{
				// The time is the one of production: the client counts its timeout from the time of the message, and a Scan may be old.
				Key: key, Value: value,
				Headers: []kgo.RecordHeader{{Key: "id", Value: []byte(record.EventID)}, {Key: "content-type", Value: []byte(contentType)}},
			})
		}
	}
	waiting, ended := s.refusal.wait(ctx)
	defer ended()
	if err := worst(s.client.ProduceSync(waiting, messages...)); err != nil {
		return sink.Outcome{}, s.classify(waiting, err)
	}
	return sink.Outcome{}, nil
}

// worst is the error of the records that says most: what is not a fault of records says more than what is. Nil: all are acknowledged.
func worst(results kgo.ProduceResults) (err error) {
	for _, result := range results {
		if result.Err != nil && (err == nil || classify(err).Class == sink.Refused) {
			err = result.Err
		}
	}
	return err
}

// keyOf is the same for all records of a stream.
func keyOf(stream *forwardingv1.StreamId) string {
	return fmt.Sprintf("%s/%s/%s/%d", stream.GetClusterId(), stream.GetTenant(), stream.GetUid(), stream.GetRevision())
}

func (s *Sink) encode(stream *forwardingv1.StreamId, record sink.Record) (value []byte, contentType string, err error) {
	if s.format == formatProtobuf && record.Message != nil {
		value, err = proto.Marshal(record.Message)
		return value, "application/protobuf", err
	}
	value, err = cloudevent.Append(nil, stream, record)
	return value, "application/cloudevents+json", err
}

// Probe asks for the topic.
func (s *Sink) Probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	request := kmsg.NewPtrMetadataRequest()
	topic := kmsg.NewMetadataRequestTopic()
	topic.Topic = new(s.topic)
	request.Topics = append(request.Topics, topic)
	waiting, ended := s.refusal.wait(ctx)
	defer ended()
	response, err := request.RequestWith(waiting, s.client)
	if err != nil {
		return s.refusal.explain(waiting, err)
	}
	for _, t := range response.Topics {
		if err := kerr.ErrorForCode(t.ErrorCode); err != nil {
			return classify(err)
		}
	}
	return nil
}

// Proof tells whether what the topic acknowledges is kept by two brokers or more, or by the word of whoever has configured the sink.
func (s *Sink) Proof(ctx context.Context, _ *forwardingv1.StreamId) (sink.Verdict, error) {
	if s.proves {
		return sink.Verdict{Proved: true}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	request := kmsg.NewPtrDescribeConfigsRequest()
	resource := kmsg.NewDescribeConfigsRequestResource()
	resource.ResourceType, resource.ResourceName, resource.ConfigNames = kmsg.ConfigResourceTypeTopic, s.topic, []string{"min.insync.replicas"}
	request.Resources = append(request.Resources, resource)
	waiting, ended := s.refusal.wait(ctx)
	defer ended()
	response, err := request.RequestWith(waiting, s.client)
	if err != nil {
		return sink.Verdict{}, s.refusal.explain(waiting, err)
	}
	for _, r := range response.Resources {
		for _, c := range r.Configs {
			var replicas int
			if c.Value == nil || c.Name != "min.insync.replicas" {
				continue
			}
			if _, err := fmt.Sscan(*c.Value, &replicas); err == nil && replicas >= enoughReplicas {
				return sink.Verdict{Proved: true}, nil
			}
		}
	}
	return sink.Verdict{}, nil
}

// Close ends the connections.
func (s *Sink) Close() error {
	s.client.Close()
	return nil
}

// classify asks the broker where an error only says that the time was over.
func (s *Sink) classify(ctx context.Context, err error) *sink.Error {
	if !errors.Is(err, kgo.ErrRecordTimeout) && !errors.Is(err, kgo.ErrRecordRetries) && !errors.Is(err, context.DeadlineExceeded) {
		return s.refusal.explain(ctx, err)
	}
	if probing := s.Probe(context.WithoutCancel(ctx)); probing != nil {
		return sink.AsError(probing)
	}
	return &sink.Error{Class: sink.Transport, Reason: sink.Timeout, Message: fmt.Sprintf("the brokers have not acknowledged within %s", s.timeout)}
}

// classify gives an error of the protocol or of the connection its class.
func classify(err error) *sink.Error {
	class, reason := sink.Transport, sink.Disconnected
	switch {
	case errors.Is(err, kerr.MessageTooLarge), errors.Is(err, kerr.RecordListTooLarge):
		class, reason = sink.Refused, sink.TooLarge
	case errors.Is(err, kerr.InvalidRecord), errors.Is(err, kerr.PolicyViolation):
		class, reason = sink.Refused, sink.RecordsRejected
	case errors.Is(err, kerr.TopicAuthorizationFailed), errors.Is(err, kerr.ClusterAuthorizationFailed), errors.Is(err, kerr.TransactionalIDAuthorizationFailed):
		class, reason = sink.Auth, sink.PermissionDenied
	case errors.Is(err, kerr.SaslAuthenticationFailed), errors.Is(err, kerr.UnsupportedSaslMechanism), errors.Is(err, kerr.IllegalSaslState):
		class, reason = sink.Auth, sink.TokenRejected
	case errors.Is(err, kerr.UnknownTopicOrPartition), errors.Is(err, kerr.InvalidTopicException), errors.Is(err, kerr.UnsupportedVersion):
		class, reason = sink.Incompatible, sink.NotCompatible
	case errors.Is(err, kerr.ThrottlingQuotaExceeded):
		class, reason = sink.Overload, sink.Overloaded
	case errors.As(err, new(*kgo.ErrFirstReadEOF)):
		// Brokers close the connection of whoever they do not know, and of whoever comes with TLS to a plain port or the other way round.
		class, reason = sink.Auth, sink.TokenRejected
	case kerr.IsRetriable(err):
	default:
		return trust.Classify(err)
	}
	return &sink.Error{Class: class, Reason: reason, Message: fmt.Sprintf("%.256s", err.Error())}
}
