// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/scanyard/scanyard/apis/pki"
)

// world is an embedded server, and who may ask it.
type world struct {
	server *Server
	roots  *x509.CertPool
}

func start(t *testing.T) *world {
	t.Helper()
	authority, err := pki.NewAuthority("queue", time.Now(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := authority.Issue([]string{"127.0.0.1"}, time.Now(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := tls.X509KeyPair(pair.CertPEM, pair.KeyPEM)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(authority.Cert)
	server, err := StartServer(ServerOptions{
		Address: "127.0.0.1:0", TLS: &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12},
		StoreDir: t.TempDir(), ControllerPassword: "c", WorkerPassword: "w",
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	return &world{server, roots}
}

func (w *world) connect(t *testing.T, user, password string, change ...func(*Options)) *Queue {
	t.Helper()
	o := Options{URLs: []string{w.server.URL()}, User: user, Password: password, TLS: &tls.Config{RootCAs: w.roots, MinVersion: tls.VersionTLS12}, Name: user}
	for _, c := range change {
		c(&o)
	}
	q, err := Connect(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(q.Close)
	return q
}

// ready gives a controller with its streams and the consumer of SBOMs, and a worker.
func (w *world) ready(t *testing.T, change ...func(*Options)) (controller, worker *Queue) {
	t.Helper()
	controller, worker = w.connect(t, ControllerUser, "c", change...), w.connect(t, WorkerUser, "w", change...)
	if err := controller.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := controller.Window(t.Context(), SBOM, "trivy", 10); err != nil {
		t.Fatal(err)
	}
	return controller, worker
}

// hasty lets messages come again at once, and gives them up after two deliveries.
func hasty(o *Options) { o.AckWait, o.MaxDeliver = 200*time.Millisecond, 2 }

func image(name string) Message {
	return Message{
		Step: SBOM, Namespace: "shop", Registry: &Ref{Name: "prod", UID: "r"}, Job: &Ref{Kind: "DiscoveryJob", Name: "j", UID: "ju"},
		Items: []Item{{Name: name, UID: "u-" + name, Bytes: 5}}, Adapter: "trivy", ID: "id-" + name, TraceParent: "00-trace",
	}
}

func put(t *testing.T, q *Queue, m Message) {
	t.Helper()
	if err := q.Put(t.Context(), m); err != nil {
		t.Fatal(err)
	}
}

func take(t *testing.T, q *Queue) *Delivery {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	d, err := q.Take(ctx, SBOM, "trivy")
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestWorkIsCarried(t *testing.T) {
	controller, worker := start(t).ready(t)
	put(t, controller, image("a"))
	put(t, controller, image("a")) // the publisher was not sure
	put(t, controller, image("b"))
	d := take(t, worker)
	want := image("a")
	want.Schema = 1
	if diff := cmp.Diff(want, d.Message, cmpopts.IgnoreFields(Message{}, "ID")); diff != "" || d.Redelivered {
		t.Errorf("redelivered %t (-want +got):\n%s", d.Redelivered, diff)
	}
	if waiting, inFlight, err := controller.Waiting(t.Context(), SBOM, "trivy"); err != nil || waiting != 1 || inFlight != 1 {
		t.Errorf("%d waiting, %d in flight, error %v", waiting, inFlight, err)
	}
	if err := d.InProgress(); err != nil {
		t.Error(err)
	}
	if err := d.Done(t.Context()); err != nil {
		t.Error(err)
	}
	if d := take(t, worker); d.Items[0].Name != "b" {
		t.Errorf("the second one is %v", d.Items)
	}
}

// TestUnacknowledgedMessageIsRedelivered: a worker that does not speak loses its message to the next one, with the word that it was delivered before.
func TestUnacknowledgedMessageIsRedelivered(t *testing.T) {
	controller, worker := start(t).ready(t, hasty)
	put(t, controller, image("a"))
	if d := take(t, worker); d.Redelivered {
		t.Error("the first delivery is one again")
	}
	if d := take(t, worker); !d.Redelivered {
		t.Error("the second delivery does not say so")
	}
}

func TestReturnedMessageIsRedeliveredAtOnce(t *testing.T) {
	controller, worker := start(t).ready(t)
	put(t, controller, image("a"))
	if err := take(t, worker).GiveBack(); err != nil {
		t.Fatal(err)
	}
	if d := take(t, worker); !d.Redelivered || d.Items[0].Name != "a" {
		t.Errorf("given back: %+v", d.Message)
	}
}

func TestWindow(t *testing.T) {
	controller, worker := start(t).ready(t)
	if err := controller.Window(t.Context(), SBOM, "trivy", 1); err != nil {
		t.Fatal(err)
	}
	put(t, controller, image("a"))
	put(t, controller, image("b"))
	first := take(t, worker)
	taken := make(chan *Delivery, 1)
	go func() {
		d, err := worker.Take(t.Context(), SBOM, "trivy")
		if err == nil {
			taken <- d
		}
	}()
	if waiting, inFlight, err := controller.Waiting(t.Context(), SBOM, "trivy"); err != nil || waiting != 1 || inFlight != 1 {
		t.Errorf("%d waiting, %d in flight, error %v", waiting, inFlight, err)
	}
	if err := first.Done(t.Context()); err != nil {
		t.Fatal(err)
	}
	if d := <-taken; d.Items[0].Name != "b" {
		t.Errorf("then comes %v", d.Items)
	}
}

// dead reads the dead letters.
func dead(t *testing.T, q *Queue, count int) []*jetstream.RawStreamMsg {
	t.Helper()
	stream, err := q.js.Stream(t.Context(), DeadStream)
	if err != nil {
		t.Fatal(err)
	}
	var list []*jetstream.RawStreamMsg
	for sequence := uint64(1); len(list) < count; {
		m, err := stream.GetMsg(t.Context(), sequence)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			select {
			case <-t.Context().Done():
				t.Fatalf("%d dead letters, want %d", len(list), count)
			case <-time.After(20 * time.Millisecond): // dead letters are written by others
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, m)
		sequence++
	}
	return list
}

// TestUnreadableMessageIsDeadLettered: an unknown schema is not guessed at, and what comes after is not held up.
func TestUnreadableMessageIsDeadLettered(t *testing.T) {
	controller, worker := start(t).ready(t)
	bodies := []string{
		"garbage", `{"schema":2,"step":"SBOM"}`, `{"schema":1,"step":"Dance","adapter":"trivy"}`,
		`{"schema":1,"step":"SBOM","adapter":"trivy","namespace":"shop","registry":{"name":"prod","uid":"r"},"items":[]}`,
	}
	for _, body := range bodies {
		if _, err := controller.js.Publish(t.Context(), subjectOf(SBOM, "trivy"), []byte(body)); err != nil {
			t.Fatal(err)
		}
	}
	put(t, controller, image("good"))
	if d := take(t, worker); d.Items[0].Name != "good" {
		t.Errorf("taken: %+v", d.Message)
	}
	for i, m := range dead(t, controller, len(bodies)) {
		if string(m.Data) != bodies[i] || m.Header.Get(headerDeadReason) == "" || m.Subject != subjectDead+".sbom.trivy" {
			t.Errorf("dead letter %s %v: %s", m.Subject, m.Header, m.Data)
		}
	}
}

// TestBuriedTwice: who was not sure that a message is buried buries it again, which changes nothing.
func TestBuriedTwice(t *testing.T) {
	controller, worker := start(t).ready(t, hasty)
	if _, err := controller.js.Publish(t.Context(), subjectOf(SBOM, "trivy"), []byte("garbage")); err != nil {
		t.Fatal(err)
	}
	consumer, err := worker.js.Consumer(t.Context(), Stream, consumerOf(SBOM, "trivy"))
	if err != nil {
		t.Fatal(err)
	}
	message, err := consumer.Next()
	if err != nil {
		t.Fatal(err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel() // a worker that ends
	for range 2 {
		if err := worker.bury(gone, message, "garbage"); err != nil && !errors.Is(err, jetstream.ErrMsgAlreadyAckd) {
			t.Fatal(err)
		}
	}
	stream, err := controller.js.Stream(t.Context(), DeadStream)
	if err != nil {
		t.Fatal(err)
	}
	if n := stream.CachedInfo().State.Msgs; n != 1 {
		t.Errorf("%d dead letters", n)
	}
}

// TestDeliveredTooOften: such a message leaves the work queue, by the server's word or by the sweep.
func TestDeliveredTooOften(t *testing.T) {
	for _, byAdvisory := range []bool{true, false} {
		controller, worker := start(t).ready(t, hasty)
		ctx, cancel := context.WithCancel(t.Context())
		var listener sync.WaitGroup
		if byAdvisory {
			listener.Go(func() {
				if err := controller.BuryDelivered(ctx, func(err error) { t.Error(err) }); err != nil {
					t.Error(err)
				}
			})
		}
		put(t, controller, image("poison"))
		take(t, worker)
		take(t, worker)
		// The server gives the message up when somebody asks for the next one.
		put(t, controller, image("good"))
		if d := take(t, worker); d.Items[0].Name != "good" {
			t.Errorf("taken: %+v", d.Message)
		} else if err := d.Done(t.Context()); err != nil {
			t.Fatal(err)
		}
		// An idle worker asks, and gets nothing.
		listener.Go(func() {
			if d, err := worker.Take(ctx, SBOM, "trivy"); err == nil {
				t.Errorf("taken: %+v", d.Message)
			}
		})
		for buried := 0; !byAdvisory && buried == 0; {
			var err error
			if buried, err = controller.Sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		m := dead(t, controller, 1)[0]
		if !strings.Contains(string(m.Data), "u-poison") || m.Header.Get(headerDeadReason) != deadReasonDelivered || m.Header.Get(headerNamespace) != "shop" {
			t.Errorf("dead letter %v: %s", m.Header, m.Data)
		}
		cancel()
		listener.Wait()
	}
}

// TestSweepLeavesWork: what waits and what a worker has is not a dead letter.
func TestSweepLeavesWork(t *testing.T) {
	controller, worker := start(t).ready(t)
	for _, name := range []string{"a", "b", "c"} {
		put(t, controller, image(name))
	}
	a, b := take(t, worker), take(t, worker)
	if err := b.Done(t.Context()); err != nil {
		t.Fatal(err)
	}
	if buried, err := controller.Sweep(t.Context()); err != nil || buried != 0 {
		t.Errorf("%d messages buried, error %v", buried, err)
	}
	if err := a.Done(t.Context()); err != nil {
		t.Error(err)
	}
	if d := take(t, worker); d.Items[0].Name != "c" {
		t.Errorf("then comes %v", d.Items)
	}
}

// TestNewLeader: what nobody has taken goes, what a worker has stays until the worker is done.
func TestNewLeader(t *testing.T) {
	controller, worker := start(t).ready(t)
	for _, name := range []string{"a", "b", "c"} {
		put(t, controller, image(name))
	}
	a := take(t, worker)
	if err := controller.PurgeWaiting(t.Context()); err != nil {
		t.Fatal(err)
	}
	if waiting, inFlight, err := controller.Waiting(t.Context(), SBOM, "trivy"); err != nil || waiting != 0 || inFlight != 1 {
		t.Errorf("%d waiting, %d in flight, error %v", waiting, inFlight, err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if idle, _ := controller.WaitIdle(over, time.Millisecond); idle {
		t.Error("a worker has a message, and the queue is idle")
	}
	if err := a.Done(t.Context()); err != nil {
		t.Fatal(err)
	}
	if idle, err := controller.WaitIdle(t.Context(), time.Millisecond); err != nil || !idle {
		t.Errorf("idle %t, error %v", idle, err)
	}
}

func TestStreamsOfOthersAreReported(t *testing.T) {
	w := start(t)
	controller := w.connect(t, ControllerUser, "c")
	for range 2 { // a second time changes nothing
		if err := controller.Ensure(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := controller.js.DeleteStream(t.Context(), Stream); err != nil {
		t.Fatal(err)
	}
	other := controller.work()
	other.MaxMsgs = 5
	if _, err := controller.js.CreateStream(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	var mismatch *MismatchError
	if err := controller.Ensure(t.Context()); !errors.As(err, &mismatch) || !strings.Contains(err.Error(), "max messages is 5, not 10000") {
		t.Errorf("error %v", err)
	}
}

// TestForgedMessage: whoever has a worker's password cannot put work, change streams, hear others' messages or speak as the controller;
// without a password nothing is possible.
func TestForgedMessage(t *testing.T) {
	w := start(t)
	controller, worker := w.ready(t)
	short, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if err := worker.Put(short, image("forged")); err == nil {
		t.Error("a worker puts work")
	}
	if err := worker.js.DeleteStream(short, Stream); err == nil {
		t.Error("a worker deletes the stream")
	}
	if err := worker.Cancel("ju"); err != nil {
		t.Error(err)
	}
	if waiting, _, err := controller.Waiting(t.Context(), SBOM, "trivy"); err != nil || waiting != 0 {
		t.Errorf("%d messages wait, error %v", waiting, err)
	}
	if _, err := worker.conn.Subscribe(subjectWork+".>", func(*nats.Msg) { t.Error("a worker hears work") }); err != nil {
		t.Error(err)
	}
	put(t, controller, image("a"))
	if d := take(t, worker); d.Items[0].Name != "a" {
		t.Errorf("taken: %+v", d.Message)
	}
	tlsOnly := &tls.Config{RootCAs: w.roots, MinVersion: tls.VersionTLS12}
	for name, o := range map[string]Options{
		"NoPassword":     {TLS: tlsOnly},
		"WrongPassword":  {TLS: tlsOnly, User: WorkerUser, Password: "x"},
		"OtherAuthority": {TLS: &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}, User: WorkerUser, Password: "w"},
	} {
		o.URLs = []string{w.server.URL()}
		if q, err := Connect(o); err == nil {
			q.Close()
			t.Errorf("%s: connected", name)
		}
	}
}

func TestHints(t *testing.T) {
	controller, worker := start(t).ready(t)
	ended, workers, cancelled, limited := make(chan Ended, 1), make(chan Worker, 1), make(chan string, 1), make(chan Limits, 1)
	ctx, cancel := context.WithCancel(t.Context())
	var listeners sync.WaitGroup
	var ready sync.WaitGroup
	for q, h := range map[*Queue]Heard{
		controller: {Ended: func(e Ended) { ended <- e }, Worker: func(w Worker) { workers <- w }},
		worker:     {Cancel: func(uid string) { cancelled <- uid }, Limited: func(l Limits) { limited <- l }},
	} {
		ready.Add(1)
		listeners.Go(func() {
			if err := q.Listen(ctx, h, ready.Done); err != nil {
				t.Error(err)
				ready.Done()
			}
		})
	}
	ready.Wait()
	until := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	// What cannot be read is passed over.
	if err := controller.conn.Publish(subjectDone, []byte("garbage")); err != nil {
		t.Error(err)
	}
	for _, err := range []error{
		worker.Say(Ended{Namespace: "shop", Name: "a", Step: SBOM, Outcome: "Done", Bytes: 7}),
		worker.SayWorker(Worker{Name: "w-0", Slots: map[Step]int{SBOM: 1}}),
		controller.Cancel("ju"),
		controller.Limit(Limits{Host: "r.example.com", Until: until}),
	} {
		if err != nil {
			t.Error(err)
		}
	}
	if err := worker.SayWorker(Worker{Name: "a.b"}); err == nil {
		t.Error("a name that is a subject is taken")
	}
	if e := <-ended; e.Name != "a" || e.Bytes != 7 {
		t.Errorf("ended %+v", e)
	}
	if w := <-workers; w.Name != "w-0" || w.Slots[SBOM] != 1 {
		t.Errorf("worker %+v", w)
	}
	if uid := <-cancelled; uid != "ju" {
		t.Errorf("cancelled %s", uid)
	}
	if l := <-limited; l.Host != "r.example.com" || !l.Until.Equal(until) {
		t.Errorf("limits %+v", l)
	}
	cancel()
	listeners.Wait()
}

// TestMessagesOnTheWire holds the form of 4.3: other versions of the programs read it.
func TestMessagesOnTheWire(t *testing.T) {
	m := image("a")
	m.Schema, m.Deadline, m.BudgetBytes, m.RequestsPerSecond = 1, time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), 9, 2.5
	raw, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"schema":1,"step":"SBOM","namespace":"shop","registry":{"name":"prod","uid":"r"},"job":{"kind":"DiscoveryJob","name":"j","uid":"ju"},` +
		`"items":[{"name":"a","uid":"u-a","bytes":5}],"adapter":"trivy","deadline":"2026-03-01T12:00:00Z","budgetBytes":9,"requestsPerSecond":2.5}`
	if string(raw) != want {
		t.Errorf("on the wire\n  %s\nwant\n  %s", raw, want)
	}
	for name, change := range map[string]func(*Message){
		"Adapter":   func(m *Message) { m.Adapter = "a.b" },
		"Wildcard":  func(m *Message) { m.Adapter = ">" },
		"Namespace": func(m *Message) { m.Namespace = "" },
		"Registry":  func(m *Message) { m.Registry = nil },
		"Batch":     func(m *Message) { m.Items = append(m.Items, m.Items...) },
		"ItemUID":   func(m *Message) { m.Items = []Item{{Name: "a"}} },
	} {
		bad := m
		change(&bad)
		if bad.check() == nil {
			t.Errorf("%s: taken", name)
		}
	}
	if err := (Message{Schema: 1, Step: Database, Adapter: "trivy"}).check(); err != nil {
		t.Error(err)
	}
}

// The Repository of a catalogue has no UID before a worker has made it. Images have one.
func TestOnlyDiscoveryNeedsNoUID(t *testing.T) {
	m := image("a")
	m.Schema, m.Items[0].UID = schema, ""
	if err := m.check(); err == nil {
		t.Error("an image without a UID is taken")
	}
	if m.Step = Discover; m.check() != nil {
		t.Error(m.check())
	}
}
