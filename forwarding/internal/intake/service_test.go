// SPDX-License-Identifier: Apache-2.0

package intake_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/scanyard/scanyard/apis/decision"
	forwardingv1 "github.com/scanyard/scanyard/apis/forwarding/v1"
	"github.com/scanyard/scanyard/forwarding/client"
	"github.com/scanyard/scanyard/forwarding/internal/intake"
	"github.com/scanyard/scanyard/forwarding/internal/queue"
	"github.com/scanyard/scanyard/forwarding/internal/receiver"
	"github.com/scanyard/scanyard/forwarding/internal/receiver/receivertest"
	"github.com/scanyard/scanyard/forwarding/internal/trust"
	"github.com/scanyard/scanyard/forwarding/internal/trust/trusttest"
)

// remote is ForwardingService over a queue in memory.
type remote struct {
	q      *queue.Queue
	keeper *intake.Keeper
	far    *receivertest.Receiver
}

func startRemote(t *testing.T, change func(*queue.Options, *intake.Keeper, *receiver.Options)) *remote {
	t.Helper()
	qo := queue.Options{Dir: "q", FS: vfs.NewMem(), MaxBytes: 1 << 30, TenantMaxBytes: 1 << 29, OnFull: queue.Block, Sinks: []string{"hub"}, Now: time.Now}
	keeper := &intake.Keeper{
		Options:   intake.Options{Now: time.Now, Log: slog.New(slog.DiscardHandler), Observe: nobody{}},
		Callers:   intake.Callers{Tenant: "default"},
		ClusterID: "here",
	}
	ro := receiver.Options{Keeper: keeper, Identify: keeper.Identify}
	if change != nil {
		change(&qo, keeper, &ro)
	}
	q, err := queue.Open(qo)
	if err != nil {
		t.Fatal(err)
	}
	keeper.Options.Queue = q
	r := &remote{q: q, keeper: keeper}
	t.Cleanup(func() {
		if err := q.Close(); err != nil {
			t.Error(err)
		}
	})
	r.far = receivertest.Start(t, receivertest.Options{Receiver: ro})
	return r
}

func decisions(tenant string, first, n int) *forwardingv1.Batch {
	stream := &forwardingv1.StreamId{Tenant: tenant, Kind: forwardingv1.StreamKind_STREAM_KIND_DECISIONS, Name: "test", Uid: "session"}
	batch := &forwardingv1.Batch{Number: 1, Stream: stream}
	for i := range n {
		body := &forwardingv1.Decision{Message: fmt.Sprint("m", first+i), EventType: "audit_violation", DecisionId: fmt.Sprint("d", first+i)}
		r := &forwardingv1.Record{EventId: body.GetDecisionId(), Sequence: uint64(first + i), Schema: forwardingv1.Schema, Body: &forwardingv1.Record_Decision{Decision: body}}
		r.Digest = forwardingv1.Digest(r)
		batch.Records = append(batch.Records, r)
	}
	return batch
}

func (r *remote) send(t *testing.T, batch *forwardingv1.Batch, token string) (*forwardingv1.Ack, error) {
	t.Helper()
	ctx := t.Context()
	if token != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
	}
	answer, err := r.far.Client(t).ForwardBatch(ctx, &forwardingv1.ForwardBatchRequest{Hello: &forwardingv1.Hello{ApiVersion: forwardingv1.Version}, Batch: batch})
	return answer.GetAck(), err
}

func TestServicePutsRecordsIntoTheQueue(t *testing.T) {
	r := startRemote(t, nil)
	for _, batch := range []*forwardingv1.Batch{decisions("", 1, 3), decisions("default", 4, 2), decisions("", 7, 1)} {
		if ack, err := r.send(t, batch, ""); err != nil || ack.GetThrough() != 1 || ack.GetStored() != uint64(len(batch.GetRecords())) {
			t.Fatalf("%v, %v", ack, err)
		}
	}
	stored, err := r.q.Reader("default")
	if err != nil {
		t.Fatal(err)
	}
	records, err := stored.Next(0, 10, 1<<20)
	if err != nil || len(records) != 6 || records[4].ID != "d5" || records[0].Line != nil {
		t.Fatalf("%v, %v", records, err)
	}
	stream := &forwardingv1.StreamId{}
	if err := proto.Unmarshal(records[0].Stream, stream); err != nil || stream.GetClusterId() != "here" || stream.GetTenant() != "default" {
		t.Errorf("%v, %v", stream, err)
	}
	state, err := r.far.Client(t).GetStream(t.Context(), &forwardingv1.GetStreamRequest{Stream: decisions("", 1, 0).GetStream()})
	got := state.GetState()
	if err != nil || got.GetCompleteness() != forwardingv1.Completeness_COMPLETENESS_OPEN || got.GetHighestSequence() != 7 || got.GetRecords() != 6 {
		t.Errorf("%v, %v", got, err)
	}
	negotiated, err := r.far.Client(t).Negotiate(t.Context(), &forwardingv1.NegotiateRequest{})
	if err != nil || negotiated.GetStores() {
		t.Errorf("an exporter is not a store: %v, %v", negotiated, err)
	}
}

// stored gives the ids of a tenant's records.
func (r *remote) stored(t *testing.T, tenant string) (ids []string) {
	t.Helper()
	reader, err := r.q.Reader(tenant)
	if err != nil {
		t.Fatal(err)
	}
	records, err := reader.Next(0, 1000, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	for _, record := range records {
		ids = append(ids, record.ID)
	}
	return ids
}

// A decision is held to the rules of a line of the socket: what breaks them is refused where its producer hears of that.
func TestServiceHoldsDecisionsToTheirRules(t *testing.T) {
	r := startRemote(t, nil)
	for name, row := range map[string]struct {
		change func(*forwardingv1.Decision)
		want   string
	}{
		"an id with a space":          {func(d *forwardingv1.Decision) { d.DecisionId = "d 1" }, "key decisionId: must be 1 to 128 printable ASCII characters without space"},
		"an id that is too long":      {func(d *forwardingv1.Decision) { d.DecisionId = strings.Repeat("d", 129) }, "key decisionId: "},
		"no event type":               {func(d *forwardingv1.Decision) { d.EventType = "" }, "key eventType: is required"},
		"an event type in capitals":   {func(d *forwardingv1.Decision) { d.EventType = "Violation" }, "key eventType: must be lower-case"},
		"a time that nobody can read": {func(d *forwardingv1.Decision) { d.TimeStamp = "yesterday" }, "key timeStamp: must be a time of RFC 3339"},
		"a known key among others":    {func(d *forwardingv1.Decision) { d.ExtraJson = []byte(`{"message":"other"}`) }, "key message: has a field of its own"},
		"a value that is not UTF-8":   {func(d *forwardingv1.Decision) { d.DetailsJson = []byte("\"\xff\"") }, "key details: must be a JSON value"},
	} {
		t.Run(name, func(t *testing.T) {
			batch := decisions("", 1, 2)
			bad := batch.GetRecords()[0]
			row.change(bad.GetDecision())
			bad.Digest = forwardingv1.Digest(bad)
			ack, err := r.send(t, batch, "")
			if err != nil || len(ack.GetRejections()) != 1 {
				t.Fatalf("%v, %v", ack, err)
			}
			got := ack.GetRejections()[0]
			if got.GetReason() != forwardingv1.RejectionReason_REJECTION_REASON_MALFORMED || got.GetEventId() != bad.GetEventId() || !strings.HasPrefix(got.GetMessage(), row.want) {
				t.Errorf("%v", got)
			}
		})
	}
	if ids := r.stored(t, "default"); len(ids) != 1 || ids[0] != "d2" {
		t.Errorf("stored: %v", ids)
	}
}

func TestServiceTakesARepeatedRecordOnce(t *testing.T) {
	fs := vfs.NewCrashableMem()
	r := startRemote(t, func(o *queue.Options, _ *intake.Keeper, _ *receiver.Options) { o.FS = fs })
	other := decisions("", 2, 1) // a sender that does not keep the rules: another record has the number of one that is here
	other.GetRecords()[0].GetDecision().Message, other.GetRecords()[0].EventId = "other", "other"
	other.GetRecords()[0].Digest = forwardingv1.Digest(other.GetRecords()[0])
	for i, step := range []struct {
		batch              *forwardingv1.Batch
		stored, duplicates uint64
	}{
		{decisions("", 1, 3), 3, 0},
		{decisions("", 2, 4), 2, 2}, // the stream broke before the ack
		{decisions("", 1, 5), 0, 5},
		{decisions("", 9, 1), 1, 0},
		{decisions("", 6, 3), 3, 0}, // what a sender had set aside comes later
		{other, 1, 0},
	} {
		if ack, err := r.send(t, step.batch, ""); err != nil || ack.GetStored() != step.stored || ack.GetDuplicates() != step.duplicates {
			t.Errorf("step %d: %v, %v", i, ack, err)
		}
	}
	want := "d1 d2 d3 d4 d5 d9 d6 d7 d8 other"
	if got := strings.Join(r.stored(t, "default"), " "); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	image := fs.CrashClone(vfs.CrashCloneCfg{}) // the exporter dies, and another one takes its queue
	again := startRemote(t, func(o *queue.Options, _ *intake.Keeper, _ *receiver.Options) { o.FS = image })
	if err := again.keeper.Remember(); err != nil {
		t.Fatal(err)
	}
	if ack, err := again.send(t, decisions("", 4, 8), ""); err != nil || ack.GetStored() != 2 || ack.GetDuplicates() != 6 {
		t.Errorf("after the restart: %v, %v", ack, err)
	}
}

func TestServiceEndsStreamsThatAreAcknowledged(t *testing.T) {
	r := startRemote(t, nil)
	stream, err := r.far.Client(t).Forward(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	hello := &forwardingv1.ForwardRequest{Message: &forwardingv1.ForwardRequest_Hello{Hello: &forwardingv1.Hello{ApiVersion: forwardingv1.Version}}}
	if err := stream.Send(hello); err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&forwardingv1.ForwardRequest{Message: &forwardingv1.ForwardRequest_Batch{Batch: decisions("", 1, 3)}}); err != nil {
		t.Fatal(err)
	}
	acked := uint64(0)
	for acked == 0 { // the welcome comes first
		answer, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		acked = answer.GetAck().GetThrough()
	}
	r.far.Service.Drain()
	r.far.Server.GracefulStop() // waits for all streams
	if _, err := stream.Recv(); status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "the receiver is stopping") {
		t.Errorf("got %v", err)
	}
}

func TestServiceRefusesAnotherTenant(t *testing.T) {
	dir := t.TempDir()
	r := startRemote(t, func(_ *queue.Options, k *intake.Keeper, _ *receiver.Options) {
		tokens, err := intake.OpenTokens(trusttest.Write(t, dir, "tokens", []byte("# producers\nsecret,hook,team-a\n")), k.Options.Log)
		if err != nil {
			t.Fatal(err)
		}
		k.Callers.Tokens = tokens
	})
	if _, err := r.send(t, decisions("", 1, 1), ""); status.Code(err) != codes.Unauthenticated {
		t.Errorf("without a token: %v", err)
	}
	if _, err := r.send(t, decisions("", 1, 1), "guess"); status.Code(err) != codes.Unauthenticated {
		t.Errorf("with a wrong token: %v", err)
	}
	ack, err := r.send(t, decisions("team-b", 1, 2), "secret")
	if err != nil || len(ack.GetRejections()) != 2 || ack.GetRejections()[0].GetReason() != forwardingv1.RejectionReason_REJECTION_REASON_POLICY ||
		ack.GetRejections()[0].GetMessage() != "the sender is tenant team-a, the stream is of tenant team-b" {
		t.Errorf("%v, %v", ack, err)
	}
	if ack, err := r.send(t, decisions("", 1, 2), "secret"); err != nil || ack.GetStored() != 2 || r.q.Last("team-a") != 2 || r.q.Last("team-b") != 0 {
		t.Errorf("%v, %v", ack, err)
	}
}

func TestServiceTakesTheTenantOfACertificate(t *testing.T) {
	dir := t.TempDir()
	authority := trusttest.NewAuthority(t, "authority")
	write := func(name string, content []byte) string { return trusttest.Write(t, dir, name, content) }
	pair, own := authority.Issue(t, "127.0.0.1", time.Now().Add(time.Hour)), authority.Issue(t, "team-c", time.Now().Add(time.Hour))
	ca := write("ca", authority.PEM)
	r := startRemote(t, func(_ *queue.Options, _ *intake.Keeper, o *receiver.Options) {
		server, err := trust.NewServer(trust.ServerFiles{Certificate: write("cert", pair.Certificate), Key: write("key", pair.Key), ClientCA: ca}, time.Now)
		if err != nil {
			t.Fatal(err)
		}
		o.Credentials = server.Credentials()
	})
	c := dialTLS(t, r.far.Address, ca, write("own", own.Certificate), write("ownkey", own.Key))
	if err := c.Send(t.Context(), violation("1")); err != nil || r.q.Last("team-c") != 1 {
		t.Errorf("%v, %d", err, r.q.Last("team-c"))
	}
}

func TestServiceAsksForSilenceAtTheQuota(t *testing.T) {
	r := startRemote(t, func(q *queue.Options, _ *intake.Keeper, _ *receiver.Options) { q.TenantMaxBytes = 600 })
	if _, err := r.send(t, decisions("", 1, 2), ""); err != nil {
		t.Fatal(err)
	}
	_, err := r.send(t, decisions("", 3, 100), "")
	if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "of tenant default, and may hold 600") || len(status.Convert(err).Details()) != 1 {
		t.Errorf("got %v", err)
	}
	if ack, err := r.send(t, decisions("", 3, 1), ""); err != nil || ack.GetStored() != 1 || r.q.Last("default") != 3 {
		t.Errorf("what a batch had reserved that was refused is free again: %v, %v", ack, err)
	}
}

func TestTokensOfAnIntake(t *testing.T) {
	dir := t.TempDir()
	for _, content := range []string{"secret\n", "secret,who\n", "secret,,t\n", "secret,who,t,more\n"} {
		_, err := intake.OpenTokens(trusttest.Write(t, dir, "tokens", []byte("# c\n"+content)), slog.New(slog.DiscardHandler))
		if err == nil || !strings.Contains(err.Error(), "line 2: a line is TOKEN,SUBJECT,TENANT") || strings.Contains(err.Error(), "secret,") {
			t.Errorf("%q: %v", content, err)
		}
	}
	if _, err := intake.OpenTokens(dir+"/nothing", slog.New(slog.DiscardHandler)); err == nil || errors.Unwrap(err) == nil {
		t.Errorf("a missing file: %v", err)
	}
}

func dialTLS(t *testing.T, address, ca, cert, key string) *client.Client {
	t.Helper()
	c, err := client.New(client.Config{URL: "grpcs://" + address + "?ca=" + ca + "&cert=" + cert + "&key=" + key, Producer: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return c
}

func violation(message string) *decision.Record {
	return &decision.Record{EventType: decision.AuditViolation, Message: message}
}
