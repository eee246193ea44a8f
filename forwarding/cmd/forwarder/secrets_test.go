// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/forwarding/internal/receiver"
	"github.com/scanyard/scanyard/forwarding/internal/receiver/receivertest"
	"github.com/scanyard/scanyard/forwarding/internal/receiver/store"
	"github.com/scanyard/scanyard/forwarding/internal/trust/trusttest"
)

// notes keep what is said by several at a time.
type notes struct {
	mutex sync.Mutex
	text  bytes.Buffer
}

// Write notes.
func (n *notes) Write(said []byte) (int, error) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	return n.text.Write(said)
}

func (n *notes) String() string {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	return n.text.String()
}

// farEnds are those of one test: some refuse and repeat what they are sent, and some take records.
type farEnds struct {
	t       *testing.T
	tls     *tls.Config
	release string
	sinks   []string
	echoes  map[string]*trusttest.Echo
	// records gives everything that a far end has taken.
	records map[string]func() string
}

// secret makes a Secret, each value of which is long: what far ends say is cut.
func (f *farEnds) secret(name string, kind corev1.SecretType, keys ...string) {
	f.t.Helper()
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: f.release, Name: name}, Type: kind, StringData: map[string]string{}}
	for _, key := range keys {
		s.StringData[key] = f.word(name, key)
	}
	must(f.t, cluster.Client.Create(f.t.Context(), s))
}

// word is a secret.
func (*farEnds) word(name, key string) string {
	if key == "username" || key == "accessKey" {
		return "scanyard"
	}
	return strings.Repeat(trusttest.Sesame+"-"+name+"-"+key+".", 12)
}

// sink adds a sink with its block; CA stands for the trust in the far end.
func (f *farEnds) sink(name, provider, block string) {
	block = strings.ReplaceAll(block, "CA", `"serverCA": "far-ends"`)
	f.sinks = append(f.sinks, fmt.Sprintf(`{"name": %q, "provider": %q, "since": "All", %q: %s}`, name, provider, provider, block))
}

func (f *farEnds) echo(name string) *trusttest.Echo {
	f.echoes[name] = &trusttest.Echo{}
	return f.echoes[name]
}

func (f *farEnds) https(handler http.Handler) (address string) {
	s := httptest.NewUnstartedServer(handler)
	s.TLS = f.tls.Clone()
	s.StartTLS()
	f.t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// keeper is an HTTP server that takes everything.
func (f *farEnds) keeper(name string) (address string) {
	taken := &notes{}
	f.records[name] = taken.String
	return f.https(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(taken, r.Body); err != nil {
			f.t.Error(err)
		}
	}))
}

// refuse adds sinks whose far ends repeat what they are sent, and two whose secrets are no such.
func (f *farEnds) refuse() {
	for _, name := range []string{"no-grpc", "no-http", "no-otlp", "no-otlp-http", "no-nats"} {
		f.secret(name, "", "token")
	}
	f.secret("no-basic", "", "username", "password")
	f.secret("no-signing", "", "secret")
	f.secret("no-s3", "", "accessKey", "secretKey")
	f.secret("no-creds", "", "creds")
	f.secret("no-mtls", corev1.SecretTypeTLS, corev1.TLSCertKey, corev1.TLSPrivateKeyKey)
	creds := grpc.Creds(credentials.NewTLS(f.tls))
	const token = `"token": {"secretName": %q}`
	authentication := func(name string) string { return fmt.Sprintf(`"authentication": {CA, `+token+`}`, name) }
	hub := f.echo("no-grpc").GRPC(f.t, creds)
	f.sink("no-grpc", "grpc", fmt.Sprintf(`{"endpoint": "https://%s", %s}`, hub, authentication("no-grpc")))
	f.sink("no-mtls", "grpc", fmt.Sprintf(`{"endpoint": "https://%s", "authentication": {CA, "mtlsClientCert": "no-mtls"}}`, hub))
	f.sink("no-http", "http", fmt.Sprintf(`{"url": "https://%s", %s}`, f.https(f.echo("no-http")), authentication("no-http")))
	f.sink("no-basic", "http", fmt.Sprintf(`{"url": "https://%s", "authentication": {CA, "basic": {"secretName": "no-basic"}, "signing": {"secretName": "no-signing"}}}`,
		f.https(f.echo("no-basic"))))
	f.sink("no-otlp", "otlp", fmt.Sprintf(`{"endpoint": "https://%s", "protocol": "grpc", %s}`, f.echo("no-otlp").GRPC(f.t, creds), authentication("no-otlp")))
	f.sink("no-otlp-http", "otlp", fmt.Sprintf(`{"endpoint": "https://%s", "protocol": "http", %s}`, f.https(f.echo("no-otlp-http")), authentication("no-otlp-http")))
	f.sink("no-nats", "nats", fmt.Sprintf(`{"url": "tls://%s", "subject": "scanyard.{cluster}", %s}`, f.echo("no-nats").NATS(f.t, f.tls), authentication("no-nats")))
	f.sink("no-creds", "nats", fmt.Sprintf(`{"url": "tls://%s", "subject": "scanyard.{cluster}", "authentication": {CA, "credentialsSecret": "no-creds"}}`, (&trusttest.Echo{}).NATS(f.t, f.tls)))
	storage := httptest.NewServer(f.echo("no-s3"))
	f.t.Cleanup(storage.Close)
	f.sink("no-s3", "s3", fmt.Sprintf(`{"endpoint": %q, "bucket": "results", "region": "eu", "pathStyle": true, "credentialsSecret": "no-s3", "tls": {"insecure": true}}`, storage.URL))
}

// take adds sinks whose far ends take what comes with the right secret.
func (f *farEnds) take() {
	f.secret("grpc", "", "token")
	f.secret("basic", "", "username", "password")
	f.secret("signing", "", "secret")
	f.secret("otlp", "", "token")
	tokens, err := receiver.NewTokens(trusttest.Write(f.t, f.t.TempDir(), "tokens", []byte(f.word("grpc", "token")+"\n")), slog.New(slog.DiscardHandler))
	must(f.t, err)
	far := receivertest.Start(f.t, receivertest.Options{Receiver: receiver.Options{Tokens: tokens, Credentials: credentials.NewTLS(f.tls)}})
	f.records["grpc"] = func() string { return arrived(f.t, far.Store) }
	f.sink("grpc", "grpc", fmt.Sprintf(`{"endpoint": "https://%s", "authentication": {CA, "token": {"secretName": "grpc"}}}`, far.Address))
	f.sink("http", "http", fmt.Sprintf(`{"url": "https://%s", "authentication": {CA, "basic": {"secretName": "basic"}, "signing": {"secretName": "signing"}}}`, f.keeper("http")))
	f.sink("otlp", "otlp", fmt.Sprintf(`{"endpoint": "https://%s", "protocol": "http", "authentication": {CA, "token": {"secretName": "otlp"}}}`, f.keeper("otlp")))
}

// arrived is everything that a receiver has.
func arrived(t *testing.T, s *store.Store) string {
	t.Helper()
	var all strings.Builder
	must(t, s.Records(0, s.LastNumber(), func(a store.Arrival) error {
		text, err := json.Marshal(a)
		_, _ = all.Write(text)
		return err
	}))
	return all.String()
}

// TestSecretsAreNowhere has sinks with right secrets, and with wrong ones at far ends that repeat what they are sent. No secret is in a status,
// an Event, a line of the log, a metric, an argument or a record. What brokers have and say is looked at in the tests of their sinks: with
// their servers in this program it would not show any longer how much memory the forwarder takes.
func TestSecretsAreNowhere(t *testing.T) {
	authority := trusttest.NewAuthority(t, "far ends")
	issued := authority.Issue(t, "127.0.0.1", time.Now().Add(time.Hour))
	pair, err := tls.X509KeyPair(issued.Certificate, issued.Key)
	must(t, err)
	f := &farEnds{
		t: t, tls: &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}, release: namespace(t),
		echoes: map[string]*trusttest.Echo{}, records: map[string]func() string{},
	}
	must(t, cluster.Client.Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.release, Name: "far-ends"}, Data: map[string]string{"ca.crt": string(authority.PEM)},
	}))
	f.refuse()
	f.take()
	s := &settingsv1alpha2.ClusterScanSetting{ObjectMeta: metav1.ObjectMeta{Name: settingsv1alpha2.Name}}
	s.Spec.ResultForwarding = &settingsv1alpha2.ClusterResultForwarding{}
	must(t, json.Unmarshal([]byte(`{"sinks": [`+strings.Join(f.sinks, ",")+`]}`), s.Spec.ResultForwarding))
	must(t, cluster.Client.Create(t.Context(), s))
	removed(t, s)
	o, said := newOperator(t, f.release), &notes{}
	scan := finished(t, o, namespace(t), "told", 3)
	cmd, address := startTold(t, said, f.release, o)
	eventually(t, "every sink is healthy or says why not", func() bool {
		must(t, cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(s), s))
		for i := range s.Status.Sinks {
			if !isTold(&s.Status.Sinks[i]) {
				return false
			}
		}
		return len(s.Status.Sinks) == len(f.sinks)
	})
	eventually(t, "the Scan says what is wrong", func() bool { return forwarded(t, scan).Status == metav1.ConditionFalse })
	for _, one := range s.Status.Sinks {
		if refused := strings.HasPrefix(one.Name, "no-"); refused == (one.LastAcknowledgedTime != nil) {
			t.Errorf("%s: acknowledged at %v", one.Name, one.LastAcknowledgedTime)
		}
	}
	for name, echo := range f.echoes {
		if !echo.Heard() && name != "no-s3" { // what proves a sender to S3 is not the key itself
			t.Errorf("%s: nothing was repeated", name)
		}
	}
	events := &eventsv1.EventList{}
	must(t, cluster.Client.List(t.Context(), events))
	if len(events.Items) == 0 {
		t.Error("there are no Events")
	}
	places := map[string]string{
		"the status of the setting": written(t, s), "the status of the Scan": written(t, scan), "an Event": written(t, events), "the log": said.String(),
		"the metrics": metricsOf(t, address), "the arguments": strings.Join(cmd.Args, " "),
	}
	for name, records := range f.records {
		if places["the records of "+name] = records(); len(records()) == 0 {
			t.Errorf("%s has no records", name)
		}
	}
	for place, text := range places {
		for _, trace := range trusttest.Traces(text) {
			t.Errorf("a secret is in %s: %s", place, trace)
		}
	}
}

// isTold is true for a sink that is healthy, and for one that should fail and says why.
func isTold(s *settingsv1alpha2.SinkStatus) bool {
	if strings.HasPrefix(s.Name, "no-") {
		return s.Healthy == corev1.ConditionFalse && s.Message != ""
	}
	return s.Healthy == corev1.ConditionTrue && s.LastAcknowledgedTime != nil
}

func written(t *testing.T, object any) string {
	t.Helper()
	text, err := json.Marshal(object)
	must(t, err)
	return string(text)
}
