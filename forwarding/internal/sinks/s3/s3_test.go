// SPDX-License-Identifier: Apache-2.0

package s3

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	forwardingv1 "github.com/scanyard/scanyard/apis/forwarding/v1"
	"github.com/scanyard/scanyard/forwarding/internal/trust/trusttest"
	"github.com/scanyard/scanyard/forwarding/sink"
	"github.com/scanyard/scanyard/tests/testcluster"
)

var cluster *testcluster.Cluster

func TestMain(m *testing.M) {
	os.Exit(testcluster.Main(m, func(c *testcluster.Cluster) { cluster = c }))
}

// bucket is what a test sees of the storage without the sink.
type bucket struct {
	*minio.Client

	name string
}

func theBucket(t *testing.T) bucket {
	t.Helper()
	at := cluster.Storage
	c, err := minio.New(at.Endpoint, &minio.Options{Creds: credentials.NewStaticV4(at.AccessKey, at.SecretKey, ""), Region: at.Region, BucketLookup: minio.BucketLookupPath})
	if err != nil {
		t.Fatal(err)
	}
	return bucket{c, at.Bucket}
}

// keys lists what is below a prefix.
func (b bucket) keys(t *testing.T, prefix string) (all []string) {
	t.Helper()
	for o := range b.ListObjects(t.Context(), b.name, minio.ListObjectsOptions{Prefix: prefix + "/", Recursive: true}) {
		if o.Err != nil {
			t.Fatal(o.Err)
		}
		all = append(all, strings.TrimPrefix(o.Key, prefix+"/"))
	}
	return all
}

func (b bucket) read(t *testing.T, key string) []byte {
	t.Helper()
	o, err := b.GetObject(t.Context(), b.name, key, minio.GetObjectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(o)
	if err != nil {
		t.Fatalf("%s: %v", key, err)
	}
	return data
}

// ids are the event IDs in an object.
func (b bucket) ids(t *testing.T, key string) (all []string) {
	t.Helper()
	decoder, err := zstd.NewReader(bytes.NewReader(b.read(t, key)))
	if err != nil {
		t.Fatal(err)
	}
	defer decoder.Close()
	lines := json.NewDecoder(decoder)
	for {
		var event struct{ ID string }
		if err := lines.Decode(&event); err == io.EOF {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, event.ID)
	}
}

func material() sink.Material {
	return sink.Material{Username: cluster.Storage.AccessKey, Password: sink.Secret(cluster.Storage.SecretKey)}
}

// open opens a sink; a change comes last.
func open(t *testing.T, prefix string, change func(*sink.Config)) *Sink {
	t.Helper()
	config := sink.Config{
		Name: "s", URL: &url.URL{Scheme: "s3", Host: cluster.Storage.Bucket, Path: "/" + prefix}, Insecure: true, Secrets: trusttest.NewSecrets(material()),
		Options: map[string]string{"endpoint": "http://" + cluster.Storage.Endpoint, "region": cluster.Storage.Region, "pathStyle": "true"},
		Timeout: 30 * time.Second,
	}
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

func scanOf(uid string) *forwardingv1.StreamId {
	return &forwardingv1.StreamId{ClusterId: "c-1", Tenant: "team-a", Kind: forwardingv1.StreamKind_STREAM_KIND_SCAN, Name: "nightly", Uid: uid, Revision: 1}
}

// records makes n Results from a sequence on, with a text.
func records(stream *forwardingv1.StreamId, from, n int, text func(int) string) []sink.Record {
	var all []sink.Record
	for i := from; i < from+n; i++ {
		m := &forwardingv1.Record{
			EventId: forwardingv1.EventID(stream, uint64(i)), Sequence: uint64(i), Schema: forwardingv1.Schema,
			Body: &forwardingv1.Record_Result{Result: &forwardingv1.Result{Title: text(i)}},
		}
		m.Digest = forwardingv1.Digest(m)
		all = append(all, sink.Record{EventID: m.GetEventId(), Sequence: m.GetSequence(), ObservedAt: time.Unix(1, 0), Message: m})
	}
	return all
}

func short(i int) string { return fmt.Sprintf("finding %d", i) }

// closingOf closes a stream with these records.
func closingOf(stream *forwardingv1.StreamId, all []sink.Record) sink.Record {
	chain := make([]byte, sha256.Size)
	for _, r := range all {
		chain = forwardingv1.AppendChain(chain, r.Message.GetDigest())
	}
	sequence := uint64(len(all)) + 1
	m := &forwardingv1.Record{
		EventId: forwardingv1.EventID(stream, sequence), Sequence: sequence, Schema: forwardingv1.Schema,
		Body: &forwardingv1.Record_Closing{Closing: &forwardingv1.Closing{Records: uint64(len(all)), Chain: chain}},
	}
	m.Digest = forwardingv1.Digest(m)
	return sink.Record{EventID: m.GetEventId(), Sequence: sequence, ObservedAt: time.Unix(1, 0), Message: m}
}

// batches cuts records, with the closing one alone.
func batches(stream *forwardingv1.StreamId, all []sink.Record, size int) (cut []sink.Batch) {
	for part := range slices.Chunk(all, size) {
		cut = append(cut, sink.Batch{Stream: stream, Records: part})
	}
	return append(cut, sink.Batch{Stream: stream, Records: []sink.Record{closingOf(stream, all)}})
}

// send delivers batches, each as often as the storage fails, and counts duplicates.
func send(t *testing.T, s *Sink, all []sink.Batch) (duplicates int) {
	t.Helper()
	for _, b := range all {
		for {
			outcome, err := s.Deliver(t.Context(), b)
			if err == nil {
				duplicates += outcome.Duplicates
				break
			}
			if e := sink.AsError(err); e.Class != sink.Transport && e.Class != sink.Overload {
				t.Fatal(err)
			}
		}
	}
	return duplicates
}

func verdict(t *testing.T, s *Sink, stream *forwardingv1.StreamId) sink.Verdict {
	t.Helper()
	v, err := s.Proof(t.Context(), stream)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

const (
	isOpen     = forwardingv1.Completeness_COMPLETENESS_OPEN
	isComplete = forwardingv1.Completeness_COMPLETENESS_COMPLETE
	isConflict = forwardingv1.Completeness_COMPLETENESS_CONFLICT
)

// whole asks that the bucket has exactly these records, and that the sink proves it.
func whole(t *testing.T, s *Sink, prefix string, stream *forwardingv1.StreamId, all []sink.Record) {
	t.Helper()
	want := closingOf(stream, all).Message.GetClosing()
	if v := verdict(t, s, stream); !v.Proved || v.Completeness != isComplete || v.Records != want.GetRecords() || !bytes.Equal(v.Chain, want.GetChain()) {
		t.Fatalf("got %+v", v)
	}
	key := fmt.Sprintf("%s/c-1/team-a/%s-1", prefix, stream.GetUid())
	var ids []string
	for _, r := range all {
		ids = append(ids, r.EventID)
	}
	if got := theBucket(t).ids(t, key+linesName); !slices.Equal(got, ids) {
		t.Fatalf("the object has %d records, want %d", len(got), len(ids))
	}
}

func TestScan(t *testing.T) {
	stream := scanOf("u-1")
	all := records(stream, 1, 25, short)
	s := open(t, "scan", nil)
	if err := s.Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	cut := batches(stream, all, 10)
	send(t, s, cut[:2])
	if v := verdict(t, s, stream); v.Completeness != isOpen || v.Records != 20 {
		t.Errorf("before the closing record: %+v", v)
	}
	if got := theBucket(t).keys(t, "scan"); len(got) != 0 {
		t.Errorf("something shows before it is whole: %v", got)
	}
	send(t, s, cut[2:])
	whole(t, s, "scan", stream, all)
	if got := theBucket(t).keys(t, "scan"); !slices.Equal(got, []string{"c-1/team-a/u-1-1.closing.json", "c-1/team-a/u-1-1.ndjson.zst"}) {
		t.Errorf("got %v", got)
	}
	var told struct {
		Records uint64
		Event   struct{ Type string }
		Object  struct{ Key string }
	}
	if err := json.Unmarshal(theBucket(t).read(t, "scan/c-1/team-a/u-1-1.closing.json"), &told); err != nil || told.Records != 25 ||
		told.Event.Type != "io.scanyard.forwarding.v1.closing" || told.Object.Key != "scan/c-1/team-a/u-1-1.ndjson.zst" {
		t.Errorf("got %+v, %v", told, err)
	}
	before := theBucket(t).read(t, told.Object.Key)
	// The same again changes nothing, also by another sink.
	again := open(t, "scan", nil)
	if n := send(t, again, cut); n != 26 {
		t.Errorf("%d duplicates", n)
	}
	whole(t, again, "scan", stream, all)
	// Other content of the same run is never written over it.
	other := records(stream, 1, 25, func(i int) string { return fmt.Sprintf("other %d", i) })
	send(t, again, batches(stream, other, 10))
	if v := verdict(t, again, stream); v.Completeness != isConflict {
		t.Errorf("got %+v", v)
	}
	if !bytes.Equal(before, theBucket(t).read(t, told.Object.Key)) {
		t.Error("the object was written over")
	}
}

// TestParts sends more than one part takes, with content that does not compress.
func TestParts(t *testing.T) {
	stream := scanOf("u-parts")
	random := rand.NewChaCha8([32]byte{1})
	all := records(stream, 1, 12, func(int) string {
		raw := make([]byte, 1<<20)
		_, _ = random.Read(raw) // never fails
		return fmt.Sprintf("%x", raw)[:1<<20]
	})
	s := open(t, "parts", nil)
	s.part = 5 << 20
	send(t, s, batches(stream, all, 1))
	whole(t, s, "parts", stream, all)
	info, err := theBucket(t).StatObject(t.Context(), cluster.Storage.Bucket, "parts/c-1/team-a/u-parts-1.ndjson.zst", minio.StatObjectOptions{Checksum: true})
	if err != nil || !strings.HasSuffix(info.ETag, "-3") || !strings.HasSuffix(info.ChecksumSHA256, "-3") {
		t.Errorf("the object is not made of three parts: %+v, %v", info, err)
	}
}

// TestBrokenOff goes on with another process: what it began is gone, and is sent again; its upload is removed after a day.
func TestBrokenOff(t *testing.T) {
	stream := scanOf("u-broken")
	all := records(stream, 1, 40, func(i int) string { return strings.Repeat(short(i), 20) })
	cut := batches(stream, all, 10)
	first := open(t, "broken", nil)
	first.part = 1
	send(t, first, cut[:2])
	uploads := func() (n int) {
		for u := range theBucket(t).ListIncompleteUploads(t.Context(), cluster.Storage.Bucket, "broken/", true) {
			if u.Err != nil {
				t.Fatal(u.Err)
			}
			n++
		}
		return n
	}
	if n := uploads(); n != 1 {
		t.Fatalf("%d uploads", n)
	}
	clear(first.runs) // the process is gone
	second := open(t, "broken", nil)
	if v := verdict(t, second, stream); v.Completeness != isOpen || v.Records != 0 {
		t.Errorf("got %+v", v)
	}
	send(t, second, cut[2:]) // a sender that does not ask
	if v := verdict(t, second, stream); v.Completeness != isOpen {
		t.Errorf("half of a Scan is whole: %+v", v)
	}
	send(t, second, cut)
	whole(t, second, "broken", stream, all)
	if n := uploads(); n != 1 {
		t.Errorf("%d uploads, and none is a day old", n)
	}
	later := open(t, "broken", nil)
	later.now = func() time.Time { return time.Now().Add(25 * time.Hour) }
	next := scanOf("u-next")
	send(t, later, batches(next, records(next, 1, 1, short), 1))
	if n := uploads(); n != 0 {
		t.Errorf("%d uploads are left", n)
	}
}

// fault is a proxy before the storage that does something else with one request.
type fault struct {
	mu    sync.Mutex
	n, at int
	do    func(w http.ResponseWriter, r *http.Request, pass http.Handler)
}

func (f *fault) ServeHTTP(w http.ResponseWriter, r *http.Request, pass http.Handler) {
	f.mu.Lock()
	f.n++
	hit := f.n == f.at
	f.mu.Unlock()
	if hit {
		f.do(w, r, pass)
		return
	}
	pass.ServeHTTP(w, r)
}

// through starts a proxy before the storage; with a configuration it speaks TLS.
func through(t *testing.T, config *tls.Config, around func(http.ResponseWriter, *http.Request, http.Handler)) string {
	t.Helper()
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: cluster.Storage.Endpoint})
			r.Out.Host = r.In.Host // signatures cover it
		},
		ErrorLog: log.New(io.Discard, "", 0),
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { around(w, r, proxy) }))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	if config == nil {
		server.Start()
	} else {
		server.TLS = config
		server.StartTLS()
	}
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

func at(address string) func(*sink.Config) {
	return func(c *sink.Config) { c.Options["endpoint"] = "http://" + address }
}

// answerLost lets the storage do its work, and cuts the connection instead of the answer.
func answerLost(_ http.ResponseWriter, r *http.Request, pass http.Handler) {
	pass.ServeHTTP(httptest.NewRecorder(), r)
	panic(http.ErrAbortHandler)
}

func slowDown(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
	w.WriteHeader(http.StatusServiceUnavailable)
	fmt.Fprint(w, `<?xml version="1.0"?><Error><Code>SlowDown</Code><Message>less</Message></Error>`)
}

// TestFaultPartial lets each request of a Scan fail in turn, with and without parts: nothing is lost, and nothing is there twice.
func TestFaultPartial(t *testing.T) {
	for name, do := range map[string]func(http.ResponseWriter, *http.Request, http.Handler){"AnswerLost": answerLost, "SlowDown": slowDown} {
		for _, parts := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/%t", name, parts), func(t *testing.T) {
				for n, requests := 1, 1; n <= requests; n++ {
					stream := scanOf(fmt.Sprintf("u-%d", n))
					prefix := fmt.Sprintf("each-%s-%t", name, parts)
					size := 20
					if parts {
						size = 6 << 20 // characters of one record: more than a part
					}
					random := rand.NewChaCha8([32]byte{byte(n)})
					all := records(stream, 1, 2, func(int) string {
						raw := make([]byte, size)
						_, _ = random.Read(raw)
						return fmt.Sprintf("%x", raw)
					})
					f := &fault{at: n, do: do}
					s := open(t, prefix, at(through(t, nil, f.ServeHTTP)))
					s.part = 5 << 20
					send(t, s, batches(stream, all, 1))
					requests = f.n - 1
					whole(t, open(t, prefix, nil), prefix, stream, all)
				}
			})
		}
	}
}

// decisions makes a batch of decisions.
func decisions(from, n int) sink.Batch {
	b := sink.Batch{Stream: &forwardingv1.StreamId{ClusterId: "c-1", Tenant: "team-a", Kind: forwardingv1.StreamKind_STREAM_KIND_DECISIONS, Name: "webhook", Uid: "q/1"}}
	for i := from; i < from+n; i++ {
		b.Records = append(b.Records, sink.Record{
			EventID: fmt.Sprintf("id-%d", i), Sequence: uint64(i), ObservedAt: time.Unix(1, 0),
			Line: fmt.Appendf(nil, `{"decisionId":"id-%d","eventType":"audit_violation","message":"m"}`, i),
		})
	}
	return b
}

func want(from, n int) (all []string) {
	for i := from; i < from+n; i++ {
		all = append(all, fmt.Sprintf("id-%d", i))
	}
	return all
}

func TestDecisions(t *testing.T) {
	s := open(t, "decisions", nil)
	now := time.Now()
	s.now = func() time.Time { return now }
	send(t, s, []sink.Batch{decisions(1, 10), decisions(11, 10)})
	now = now.Add(segmentAge)
	send(t, s, []sink.Batch{decisions(21, 5)})
	keys := theBucket(t).keys(t, "decisions")
	if len(keys) != 2 || !strings.HasPrefix(keys[0], "c-1/team-a/decisions/q%2F1/00000000000000000001-") || !strings.HasPrefix(keys[1], "c-1/team-a/decisions/q%2F1/00000000000000000021-") {
		t.Fatalf("got %v", keys)
	}
	if got := theBucket(t).ids(t, "decisions/"+keys[0]); !slices.Equal(got, want(1, 20)) {
		t.Errorf("got %v", got)
	}
	if got := theBucket(t).ids(t, "decisions/"+keys[1]); !slices.Equal(got, want(21, 5)) {
		t.Errorf("got %v", got)
	}
	// A restart sends the batch again whose answer was lost.
	if outcome, err := open(t, "decisions", nil).Deliver(t.Context(), decisions(21, 5)); err != nil || outcome.Duplicates != 5 {
		t.Errorf("got %+v, %v", outcome, err)
	}
	// Somebody else has touched the object: it stays as it is, and another one begins.
	if _, err := theBucket(t).PutObject(t.Context(), cluster.Storage.Bucket, "decisions/"+keys[1], strings.NewReader("x"), 1, minio.PutObjectOptions{}); err != nil {
		t.Fatal(err)
	}
	send(t, s, []sink.Batch{decisions(26, 5)})
	if keys := theBucket(t).keys(t, "decisions"); len(keys) != 3 || string(theBucket(t).read(t, "decisions/"+keys[1])) != "x" {
		t.Errorf("got %v", keys)
	}
}

// TestFaultPartialDecisions lets each request fail in turn.
func TestFaultPartialDecisions(t *testing.T) {
	for name, do := range map[string]func(http.ResponseWriter, *http.Request, http.Handler){"AnswerLost": answerLost, "SlowDown": slowDown} {
		t.Run(name, func(t *testing.T) {
			for n, requests := 1, 1; n <= requests; n++ {
				prefix := fmt.Sprintf("decisions-%s-%d", name, n)
				f := &fault{at: n, do: do}
				send(t, open(t, prefix, at(through(t, nil, f.ServeHTTP))), []sink.Batch{decisions(1, 5), decisions(6, 5), decisions(11, 5)})
				requests = f.n
				var got []string
				for _, key := range theBucket(t).keys(t, prefix) {
					got = append(got, theBucket(t).ids(t, prefix+"/"+key)...)
				}
				if !slices.Equal(got, want(1, 15)) {
					t.Errorf("request %d: got %v", n, got)
				}
			}
		})
	}
}

// TestObjectLock: each object of a bucket that was made for it is locked for the days that are configured: those of Scans, in one piece and in parts,
// their closing objects, and those of decisions, of which each batch has its own. Nobody removes or replaces them, and the sink goes on nevertheless.
func TestObjectLock(t *testing.T) {
	const days = 30
	locked := bucket{theBucket(t).Client, "locked"}
	if err := locked.MakeBucket(t.Context(), locked.name, minio.MakeBucketOptions{Region: cluster.Storage.Region, ObjectLocking: true}); err != nil {
		t.Fatal(err)
	}
	into := func(c *sink.Config) {
		c.URL = &url.URL{Scheme: "s3", Host: locked.name, Path: "/lock"}
		c.Options["objectLock"] = strconv.Itoa(days)
	}
	before := time.Now()
	s := open(t, "lock", into)
	stream, parted := scanOf("u-1"), scanOf("u-parts")
	all := records(stream, 1, 25, short)
	random := rand.NewChaCha8([32]byte{1})
	large := records(parted, 1, 12, func(int) string {
		raw := make([]byte, 1<<20)
		_, _ = random.Read(raw) // never fails
		return fmt.Sprintf("%x", raw)[:1<<20]
	})
	send(t, s, batches(stream, all, 10))
	s.part = 5 << 20
	send(t, s, batches(parted, large, 1))
	send(t, s, []sink.Batch{decisions(1, 5), decisions(6, 5)})
	for _, id := range []*forwardingv1.StreamId{stream, parted} {
		if v := verdict(t, s, id); !v.Proved || v.Completeness != isComplete {
			t.Errorf("%s: got %+v", id.GetUid(), v)
		}
	}
	keys := locked.keys(t, "lock")
	if len(keys) != 6 {
		t.Errorf("got %v", keys)
	}
	for _, key := range keys {
		info, err := locked.StatObject(t.Context(), locked.name, "lock/"+key, minio.StatObjectOptions{})
		if err != nil {
			t.Fatal(err)
		}
		mode := info.Metadata.Get("X-Amz-Object-Lock-Mode")
		until, err := time.Parse(time.RFC3339, info.Metadata.Get("X-Amz-Object-Lock-Retain-Until-Date"))
		if err != nil || mode != string(minio.Governance) || until.Before(before.Add(days*day-time.Minute)) || until.After(time.Now().Add(days*day+time.Minute)) {
			t.Errorf("%s is locked by %v until %v, %v", key, mode, until, err)
		}
		content := locked.read(t, "lock/"+key)
		if err := locked.RemoveObject(t.Context(), locked.name, "lock/"+key, minio.RemoveObjectOptions{}); err == nil {
			t.Errorf("%s can be removed", key)
		}
		if _, err := locked.PutObject(t.Context(), locked.name, "lock/"+key, strings.NewReader("x"), 1, minio.PutObjectOptions{}); err == nil {
			t.Errorf("%s can be replaced", key)
		}
		if !bytes.Equal(content, locked.read(t, "lock/"+key)) {
			t.Errorf("%s has changed", key)
		}
	}
	// Another process sends everything again: it is there, and no further object is made.
	again := open(t, "lock", into)
	if n := send(t, again, append(batches(stream, all, 10), decisions(1, 5), decisions(6, 5))); n != len(all)+1+10 { // and the closing record
		t.Errorf("%d duplicates", n)
	}
	if now := locked.keys(t, "lock"); !slices.Equal(now, keys) {
		t.Errorf("got %v, had %v", now, keys)
	}
}

// TestObjectLockNeedsItsBucket: a bucket that was not made for locks says so, and nothing is lost.
func TestObjectLockNeedsItsBucket(t *testing.T) {
	s := open(t, "no-lock", func(c *sink.Config) { c.Options["objectLock"] = "30" })
	_, err := s.Deliver(t.Context(), decisions(1, 1))
	if e := sink.AsError(err); e.Class != sink.Incompatible || !strings.Contains(e.Message, "ObjectLock") {
		t.Errorf("got %v", err)
	}
}

func TestTLSReasons(t *testing.T) {
	matrix := trusttest.Matrix{
		Probes: true,
		Start: func(t *testing.T, config *tls.Config) (string, func() int) {
			var mu sync.Mutex
			var n int
			address := through(t, config, func(w http.ResponseWriter, r *http.Request, pass http.Handler) {
				if r.Method == http.MethodPut {
					mu.Lock()
					n++
					mu.Unlock()
				}
				pass.ServeHTTP(w, r)
			})
			return address, func() int {
				mu.Lock()
				defer mu.Unlock()
				return n
			}
		},
		Open: func(t *testing.T, address string, config sink.Config) sink.Sink {
			secrets := config.Secrets
			return open(t, t.Name(), func(c *sink.Config) {
				endpoint := map[string]string{"endpoint": "https://" + address, "region": c.Options["region"], "pathStyle": "true"}
				config.URL, config.Options, config.Secrets = c.URL, endpoint, withKeys{secrets}
				*c = config
			})
		},
		Deliver: func(t *testing.T, to sink.Sink) error {
			_, err := to.Deliver(t.Context(), decisions(1, 1))
			return err
		},
	}
	matrix.Reasons(t)
}

// withKeys adds the access keys to the secrets of the matrix.
type withKeys struct{ sink.Secrets }

func (w withKeys) Read(ctx context.Context) (sink.Material, error) {
	m, err := w.Secrets.Read(ctx)
	m.Username, m.Password = material().Username, material().Password
	return m, err
}

// TestKeys replaces wrong keys under a sink.
func TestKeys(t *testing.T) {
	wrong := material()
	wrong.Password = "wrong"
	secrets := trusttest.NewSecrets(wrong)
	s := open(t, "keys", func(c *sink.Config) { c.Secrets = secrets })
	if _, err := s.Deliver(t.Context(), decisions(1, 1)); sink.AsError(err).Reason != sink.TokenRejected {
		t.Errorf("got %v", err)
	}
	if err := s.Probe(t.Context()); sink.AsError(err).Class != sink.Auth {
		t.Errorf("the probe says %v", err)
	}
	secrets.Set(material())
	for {
		_, err := s.Deliver(t.Context(), decisions(1, 1))
		if err == nil {
			break
		}
		if sink.AsError(err).Class != sink.Auth {
			t.Fatal(err)
		}
	}
	missing := open(t, "keys", func(c *sink.Config) { c.URL = &url.URL{Scheme: "s3", Host: "no-such-bucket", Path: "/keys"} })
	if _, err := missing.Deliver(t.Context(), decisions(1, 1)); sink.AsError(err).Class != sink.Incompatible {
		t.Errorf("no bucket: %v", err)
	}
	if err := missing.Probe(t.Context()); sink.AsError(err).Class != sink.Incompatible {
		t.Errorf("no bucket: %v", err)
	}
}

// TestAnswers gives each answer of a storage its class: none takes a record out of the queue.
func TestAnswers(t *testing.T) {
	for answer, want := range map[string]sink.Class{
		"403 AccessDenied": sink.Auth, "403 SignatureDoesNotMatch": sink.Auth, "403 InvalidAccessKeyId": sink.Auth, "400 ExpiredToken": sink.Auth,
		"404 NoSuchBucket": sink.Incompatible, "503 SlowDown": sink.Overload, "503 ServiceUnavailable": sink.Overload, "500 InternalError": sink.Transport,
		"400 InvalidRequest": sink.Incompatible, "413 EntityTooLarge": sink.Incompatible, "501 NotImplemented": sink.Incompatible,
		"409 OperationAborted": sink.Transport, "301 PermanentRedirect": sink.Incompatible, "507 XMinioStorageFull": sink.Overload,
	} {
		t.Run(answer, func(t *testing.T) {
			var status int
			var code string
			if _, err := fmt.Sscan(answer, &status, &code); err != nil {
				t.Fatal(err)
			}
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(status)
				fmt.Fprintf(w, `<?xml version="1.0"?><Error><Code>%s</Code><Message>words</Message></Error>`, code)
			}))
			defer server.Close()
			_, err := open(t, "answers", at(server.Listener.Addr().String())).Deliver(t.Context(), decisions(1, 1))
			if e := sink.AsError(err); e.Class != want || !strings.Contains(e.Message, code) {
				t.Errorf("got %s: %v", e.Class, err)
			}
		})
	}
}

func TestOpenRefuses(t *testing.T) {
	for want, options := range map[string]map[string]string{
		"plain text":     {"endpoint": "http://s3.example.com"},
		"must be a URL":  {"endpoint": "s3.example.com"},
		"number of days": {"endpoint": "https://s3.example.com", "objectLock": "ever"},
	} {
		if _, err := Open(sink.Config{URL: &url.URL{Scheme: "s3", Host: "b"}, Options: options}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	for name, config := range map[string]struct {
		endpoint, style string
		want            minio.BucketLookupType
	}{
		"Host": {"s3.example.com", "", minio.BucketLookupDNS}, "Path": {"s3.example.com", "true", minio.BucketLookupPath}, "Address": {"[::1]:9000", "", minio.BucketLookupPath},
	} {
		if got := lookup(sink.Config{Options: map[string]string{"pathStyle": config.style}}, &url.URL{Host: config.endpoint}); got != config.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}
