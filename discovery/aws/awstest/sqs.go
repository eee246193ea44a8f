// SPDX-License-Identifier: Apache-2.0

package awstest

import (
	"bytes"
	"context"
	"crypto/md5" //nolint:gosec // SQS's answers carry MD5 sums, which the SDK checks
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"k8s.io/utils/clock"
)

const (
	region   = "eu-central-1"
	account  = "123456789012"
	pollReal = 2 * time.Millisecond
)

// Server is SQS and ECS.
type Server struct {
	// Fault may refuse a request before it has had an effect: it returns the HTTP status, or 0.
	Fault func(operation string) int

	http  *httptest.Server
	clock clock.PassiveClock

	mu     sync.Mutex
	queues map[string]*Queue
	tasks  map[string][]Task
	calls  map[string]int
	fields map[string]map[string]any
	// waiting counts requests that wait for messages.
	waiting int
}

// Queue is a queue of a Server.
type Queue struct {
	// URL is what the program is given.
	URL string

	server   *Server
	fifo     bool
	messages []*Message
	next     int
	// dead is where messages go that were received maxReceives times.
	dead        *Queue
	maxReceives int
}

// Message is a message of a Queue.
type Message struct {
	ID, Body, Group string
	Deleted         bool
	Receives        int

	handle    string
	visibleAt time.Time
}

// New starts a Server, which stops with the test.
func New(t testing.TB, c clock.PassiveClock) *Server {
	t.Helper()
	s := &Server{clock: c, queues: map[string]*Queue{}, tasks: map[string][]Task{}, calls: map[string]int{}, fields: map[string]map[string]any{}}
	s.http = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(func() {
		s.http.CloseClientConnections()
		s.http.Close()
	})
	return s
}

// URL is where both services are found.
func (s *Server) URL() string { return s.http.URL }

func (s *Server) config() awssdk.Config {
	return awssdk.Config{
		Region: region,
		Credentials: awssdk.CredentialsProviderFunc(func(context.Context) (awssdk.Credentials, error) {
			return awssdk.Credentials{AccessKeyID: "AKIDTEST", SecretAccessKey: "secret"}, nil
		}),
		BaseEndpoint: &s.http.URL,
	}
}

// SQS returns a client.
func (s *Server) SQS() *sqs.Client { return sqs.NewFromConfig(s.config()) }

// ECS returns a client.
func (s *Server) ECS() *ecs.Client { return ecs.NewFromConfig(s.config()) }

// Queue makes a queue; one whose name ends in .fifo keeps the order of each group.
func (s *Server) Queue(name string) *Queue {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := &Queue{URL: "https://sqs." + region + ".amazonaws.com/" + account + "/" + name, server: s, fifo: strings.HasSuffix(name, ".fifo")}
	s.queues[q.URL] = q
	return q
}

// Redrive lets messages go to another queue when they have been received too often.
func (q *Queue) Redrive(dead *Queue, maxReceives int) {
	q.server.mu.Lock()
	defer q.server.mu.Unlock()
	q.dead, q.maxReceives = dead, maxReceives
}

// Send puts a message in, of group in a FIFO queue. It returns its id.
func (q *Queue) Send(group, body string) string {
	q.server.mu.Lock()
	defer q.server.mu.Unlock()
	q.next++
	m := &Message{ID: fmt.Sprintf("message-%d", q.next), Body: body, Group: group}
	q.messages = append(q.messages, m)
	return m.ID
}

// Message returns a copy of a message.
func (q *Queue) Message(id string) Message {
	q.server.mu.Lock()
	defer q.server.mu.Unlock()
	for _, m := range q.messages {
		if m.ID == id {
			return *m
		}
	}
	return Message{}
}

// Left is how many messages have not been deleted.
func (q *Queue) Left() int {
	q.server.mu.Lock()
	defer q.server.mu.Unlock()
	return len(slices.DeleteFunc(slices.Clone(q.messages), func(m *Message) bool { return m.Deleted }))
}

// Calls is how often an operation was called, refused ones included.
func (s *Server) Calls(operation string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[operation]
}

// Last returns the fields of the last request of an operation.
func (s *Server) Last(operation string) map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fields[operation]
}

// Waiting is how many requests wait for messages. A request whose client is gone may still get a
// message, as with SQS, until the server notices; then the request is not counted.
func (s *Server) Waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waiting
}

func (s *Server) wait(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting += n
}

// refusal is an error of the service.
type refusal struct {
	status           int
	code, queryError string
	message          string
}

func refuse(code, message string, args ...any) *refusal {
	return &refusal{status: http.StatusBadRequest, code: code, message: fmt.Sprintf(message, args...)}
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	service, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client has gone
	}
	answer, refused := s.answer(r, service, operation, body)
	version := "1.0"
	if service != "AmazonSQS" {
		version = "1.1"
	}
	w.Header().Set("Content-Type", "application/x-amz-json-"+version)
	w.Header().Set("X-Amzn-Requestid", "00000000-0000-0000-0000-000000000000")
	if refused != nil {
		if refused.queryError != "" {
			w.Header().Set("X-Amzn-Query-Error", refused.queryError+";Sender")
		}
		w.WriteHeader(refused.status)
		answer = map[string]string{"__type": refused.code, "message": refused.message}
	}
	_ = json.NewEncoder(w).Encode(answer) // where it fails, the client has gone
}

func (s *Server) answer(r *http.Request, service, operation string, body []byte) (any, *refusal) {
	if r.Method != http.MethodPost || r.URL.Path != "/" {
		return nil, refuse("UnknownOperationException", "%s %s", r.Method, r.URL.Path)
	}
	if !strings.Contains(r.Header.Get("Authorization"), "/"+region+"/") || !strings.HasPrefix(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256 Credential=") {
		return nil, &refusal{status: http.StatusForbidden, code: "MissingAuthenticationToken", message: "the request is not signed for " + region}
	}
	var fields map[string]any
	if err := json.Unmarshal(body, &fields); err != nil {
		return nil, refuse("SerializationException", "%v", err)
	}
	s.mu.Lock()
	s.calls[operation]++
	s.fields[operation] = fields
	fault := s.Fault
	s.mu.Unlock()
	if fault != nil {
		if status := fault(operation); status != 0 {
			return nil, &refusal{status: status, code: "InternalError", message: "a fault of the test"}
		}
	}
	switch service + "." + operation {
	case "AmazonSQS.ReceiveMessage":
		return s.receive(r, body)
	case "AmazonSQS.DeleteMessage":
		return s.remove(body)
	case "AmazonSQS.ChangeMessageVisibility":
		return s.changeVisibility(body)
	case "AmazonSQS.GetQueueAttributes":
		return s.attributes(body)
	case ecsService + ".ListClusters":
		return s.listClusters(body)
	case ecsService + ".ListTasks":
		return s.listTasks(body)
	case ecsService + ".DescribeTasks":
		return s.describeTasks(body)
	default:
		return nil, refuse("UnknownOperationException", "%s.%s is not played", service, operation)
	}
}

// decode refuses fields that are not documented.
func decode(body []byte, into any) *refusal {
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return refuse("SerializationException", "%v", err)
	}
	return nil
}

func (s *Server) queue(url string) (*Queue, *refusal) {
	q := s.queues[url]
	if q == nil {
		r := refuse("com.amazonaws.sqs#QueueDoesNotExist", "The specified queue does not exist.")
		r.queryError = "AWS.SimpleQueueService.NonExistentQueue"
		return nil, r
	}
	return q, nil
}

func (s *Server) receive(r *http.Request, body []byte) (any, *refusal) {
	var in struct {
		QueueURL                    string   `json:"QueueUrl"`
		MaxNumberOfMessages         int      `json:"MaxNumberOfMessages"`
		VisibilityTimeout           int      `json:"VisibilityTimeout"`
		WaitTimeSeconds             int      `json:"WaitTimeSeconds"`
		MessageSystemAttributeNames []string `json:"MessageSystemAttributeNames"`
		AttributeNames              []string `json:"AttributeNames"`
		MessageAttributeNames       []string `json:"MessageAttributeNames"`
		ReceiveRequestAttemptID     string   `json:"ReceiveRequestAttemptId"`
	}
	if refused := decode(body, &in); refused != nil {
		return nil, refused
	}
	if in.MaxNumberOfMessages < 1 || in.MaxNumberOfMessages > 10 || in.WaitTimeSeconds < 0 || in.WaitTimeSeconds > 20 || in.VisibilityTimeout < 0 ||
		in.VisibilityTimeout > 43200 {
		return nil, refuse("com.amazonaws.sqs#InvalidParameterValueException", "out of bounds: %+v", in)
	}
	s.wait(1)
	defer s.wait(-1)
	deadline := time.NewTimer(time.Duration(in.WaitTimeSeconds) * time.Second)
	defer deadline.Stop()
	poll := time.NewTicker(pollReal)
	defer poll.Stop()
	for {
		s.mu.Lock()
		q, refused := s.queue(in.QueueURL)
		var taken []map[string]any
		if refused == nil {
			taken = q.take(in.MaxNumberOfMessages, time.Duration(in.VisibilityTimeout)*time.Second, s.clock.Now(), in.MessageSystemAttributeNames)
		}
		s.mu.Unlock()
		if refused != nil {
			return nil, refused
		}
		if len(taken) > 0 {
			return map[string]any{"Messages": taken}, nil
		}
		select {
		case <-r.Context().Done():
			return nil, refuse("RequestExpired", "the client has gone")
		case <-deadline.C:
			return map[string]any{}, nil
		case <-poll.C:
		}
	}
}

// take hands messages out.
func (q *Queue) take(most int, hidden time.Duration, now time.Time, attributes []string) []map[string]any {
	var taken []map[string]any
	blocked := map[string]bool{}
	for _, m := range q.messages {
		if m.Deleted || q.fifo && blocked[m.Group] || len(taken) == most {
			continue
		}
		if m.visibleAt.After(now) {
			blocked[m.Group] = true // a group waits for the first of its messages
			continue
		}
		if q.dead != nil && m.Receives >= q.maxReceives {
			m.Deleted = true
			q.dead.next++
			q.dead.messages = append(q.dead.messages, &Message{ID: m.ID, Body: m.Body, Group: m.Group})
			continue
		}
		m.Receives++
		m.visibleAt = now.Add(hidden)
		m.handle = m.ID + "#" + strconv.Itoa(m.Receives)
		sum := md5.Sum([]byte(m.Body)) //nolint:gosec // see above
		out := map[string]any{"MessageId": m.ID, "ReceiptHandle": m.handle, "Body": m.Body, "MD5OfBody": hex.EncodeToString(sum[:])}
		if slices.Contains(attributes, "ApproximateReceiveCount") || slices.Contains(attributes, "All") {
			out["Attributes"] = map[string]string{"ApproximateReceiveCount": strconv.Itoa(m.Receives)}
		}
		taken = append(taken, out)
	}
	return taken
}

// inFlight finds a message by its newest receipt handle.
func (q *Queue) inFlight(handle string) *Message {
	for _, m := range q.messages {
		if m.handle != "" && m.handle == handle && !m.Deleted {
			return m
		}
	}
	return nil
}

func (s *Server) remove(body []byte) (any, *refusal) {
	var in struct {
		QueueURL      string `json:"QueueUrl"`
		ReceiptHandle string `json:"ReceiptHandle"`
	}
	if refused := decode(body, &in); refused != nil {
		return nil, refused
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	q, refused := s.queue(in.QueueURL)
	if refused != nil {
		return nil, refused
	}
	m := q.inFlight(in.ReceiptHandle)
	if m == nil || q.fifo && !m.visibleAt.After(s.clock.Now()) {
		return nil, refuse("com.amazonaws.sqs#ReceiptHandleIsInvalid", "The receipt handle has expired")
	}
	m.Deleted = true
	return map[string]any{}, nil
}

func (s *Server) changeVisibility(body []byte) (any, *refusal) {
	var in struct {
		QueueURL          string `json:"QueueUrl"`
		ReceiptHandle     string `json:"ReceiptHandle"`
		VisibilityTimeout *int   `json:"VisibilityTimeout"`
	}
	if refused := decode(body, &in); refused != nil {
		return nil, refused
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	q, refused := s.queue(in.QueueURL)
	if refused != nil {
		return nil, refused
	}
	if in.VisibilityTimeout == nil || *in.VisibilityTimeout < 0 || *in.VisibilityTimeout > 43200 {
		return nil, refuse("com.amazonaws.sqs#InvalidParameterValueException", "VisibilityTimeout must be 0 to 43200")
	}
	m := q.inFlight(in.ReceiptHandle)
	if m == nil || !m.visibleAt.After(s.clock.Now()) {
		return nil, refuse("com.amazonaws.sqs#MessageNotInflight", "The message is not in flight")
	}
	m.visibleAt = s.clock.Now().Add(time.Duration(*in.VisibilityTimeout) * time.Second)
	return map[string]any{}, nil
}

func (s *Server) attributes(body []byte) (any, *refusal) {
	var in struct {
		QueueURL       string   `json:"QueueUrl"`
		AttributeNames []string `json:"AttributeNames"`
	}
	if refused := decode(body, &in); refused != nil {
		return nil, refused
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	q, refused := s.queue(in.QueueURL)
	if refused != nil {
		return nil, refused
	}
	if q.dead == nil || !slices.Contains(in.AttributeNames, "RedrivePolicy") {
		return map[string]any{}, nil
	}
	policy := fmt.Sprintf(`{"deadLetterTargetArn":"arn:aws:sqs:%s:%s:dead","maxReceiveCount":%d}`, region, account, q.maxReceives)
	return map[string]any{"Attributes": map[string]string{"RedrivePolicy": policy}}, nil
}
