// SPDX-License-Identifier: Apache-2.0

package grpc_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	googlegrpc "google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	forwardingv1 "github.com/scanyard/scanyard/apis/forwarding/v1"
	"github.com/scanyard/scanyard/forwarding/internal/receiver/receivertest"
)

// freeze writes the fixtures of the present version; a release does that, after it has run TestFrozen against those of the release before.
var freeze = flag.Bool("freeze", false, "write the wire API and the records of the frozen peers anew")

const (
	frozenService  = "scanyard.forwarding.v1.ForwardingService"
	frozenAPI      = "testdata/released.binpb"
	frozenRecords  = "testdata/released.ndjson"
	frozenComplete = 2
)

// frozen is the wire API as it was released: its messages are made of the descriptors of then, and know nothing of the generated code of now. What peers
// of then computed of a message, digest and chain, is computed here by the text of the specification.
type frozen struct{ file protoreflect.FileDescriptor }

func thaw(t *testing.T) frozen {
	t.Helper()
	raw, err := os.ReadFile(frozenAPI)
	if err != nil {
		t.Fatal(err)
	}
	descriptor := &descriptorpb.FileDescriptorProto{}
	if err := proto.Unmarshal(raw, descriptor); err != nil {
		t.Fatal(err)
	}
	file, err := protodesc.NewFile(descriptor, protoregistry.GlobalFiles)
	if err != nil {
		t.Fatal(err)
	}
	return frozen{file}
}

func (f frozen) message(name protoreflect.Name) *dynamicpb.Message {
	return dynamicpb.NewMessage(f.file.Messages().ByName(name))
}

// read gives the records that a sender of then had, one Scan from its summary to its closing record.
func (f frozen) records(t *testing.T) (id *dynamicpb.Message, all []*dynamicpb.Message) {
	t.Helper()
	raw, err := os.ReadFile(frozenRecords)
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range bytes.Split(bytes.TrimSpace(raw), []byte("\n")) {
		m := f.message("Record")
		if i == 0 {
			m = f.message("StreamId")
		}
		if err := protojson.Unmarshal(line, m); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			id = m
			continue
		}
		all = append(all, m)
	}
	return id, all
}

// field gives a field of a message, by its path.
func field(m protoreflect.Message, path ...protoreflect.Name) protoreflect.Value {
	for i, name := range path {
		value := m.Get(m.Descriptor().Fields().ByName(name))
		if i == len(path)-1 {
			return value
		}
		m = value.Message()
	}
	return protoreflect.Value{}
}

// set makes a field the value; of a list, what it holds.
func set(m protoreflect.Message, name protoreflect.Name, values ...any) {
	at := m.Descriptor().Fields().ByName(name)
	if !at.IsList() {
		m.Set(at, protoreflect.ValueOf(values[0]))
		return
	}
	for _, v := range values {
		m.Mutable(at).List().Append(protoreflect.ValueOf(v))
	}
}

// canonical is the form that digests are made of: section 4.4 of the specification.
func canonical(m protoreflect.Message) []byte {
	var fields []protoreflect.FieldDescriptor
	m.Range(func(f protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
		fields = append(fields, f)
		return true
	})
	slices.SortFunc(fields, func(a, b protoreflect.FieldDescriptor) int { return cmp.Compare(a.Number(), b.Number()) })
	var form []byte
	for _, f := range fields {
		value := m.Get(f)
		switch {
		case f.IsMap():
			entries := map[string][]byte{}
			value.Map().Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
				entries[k.String()] = slices.Concat(counted(1, []byte(k.String())), counted(2, single(f.MapValue(), v)))
				return true
			})
			keys := make([]string, 0, len(entries))
			for k := range entries {
				keys = append(keys, k)
			}
			slices.Sort(keys)
			for _, k := range keys {
				form = append(form, counted(f.Number(), entries[k])...)
			}
		case f.IsList():
			for i := range value.List().Len() {
				form = append(form, counted(f.Number(), single(f, value.List().Get(i)))...)
			}
		default:
			form = append(form, counted(f.Number(), single(f, value))...)
		}
	}
	return form
}

func counted(number protoreflect.FieldNumber, content []byte) []byte {
	head := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(nil, uint32(number)), uint64(len(content)))
	return append(head, content...)
}

func single(f protoreflect.FieldDescriptor, v protoreflect.Value) []byte {
	switch f.Kind() {
	case protoreflect.StringKind:
		return []byte(v.String())
	case protoreflect.BytesKind:
		return v.Bytes()
	case protoreflect.MessageKind:
		return canonical(v.Message())
	case protoreflect.BoolKind:
		return []byte{1} // false is absent
	case protoreflect.Int64Kind, protoreflect.Int32Kind:
		return binary.BigEndian.AppendUint64(nil, uint64(v.Int()))
	default:
		return binary.BigEndian.AppendUint64(nil, v.Uint())
	}
}

// body is what a record holds.
func body(record protoreflect.Message) (protoreflect.Name, protoreflect.Message) {
	which := record.WhichOneof(record.Descriptor().Oneofs().ByName("body"))
	if which == nil {
		return "", nil
	}
	return which.Name(), record.Get(which).Message()
}

// frozenReceiver is a receiver as of then: it knows the messages of then, and judges by them.
type frozenReceiver struct {
	frozen

	mutex    sync.Mutex
	order    []string
	digests  map[string][]byte
	chain    []byte
	closed   bool
	complete bool
	wrong    []string
}

func (r *frozenReceiver) take(record protoreflect.Message) {
	id, digest := field(record, "event_id").String(), field(record, "digest").Bytes()
	kind, content := body(record)
	if content == nil {
		r.wrong = append(r.wrong, id+" has no body")
		return
	}
	if want := sha256.Sum256(canonical(content)); !bytes.Equal(digest, want[:]) {
		r.wrong = append(r.wrong, fmt.Sprintf("the digest of %s, a %s, is %x, want %x", id, kind, digest, want))
	}
	if r.digests[id] != nil {
		return
	}
	r.digests[id] = digest
	if kind == "closing" {
		r.closed = true
		r.complete = field(content, "records").Uint() == uint64(len(r.order)) && bytes.Equal(field(content, "chain").Bytes(), r.chain)
		return
	}
	r.order = append(r.order, id)
	next := sha256.Sum256(slices.Concat(r.chain, digest))
	r.chain = next[:]
}

// state is the StreamState of then.
func (r *frozenReceiver) state(id protoreflect.Message) *dynamicpb.Message {
	s := r.message("StreamState")
	set(s, "stream", id)
	set(s, "records", uint64(len(r.order)))
	set(s, "chain", slices.Clone(r.chain))
	if r.complete {
		set(s, "completeness", protoreflect.EnumNumber(frozenComplete))
	}
	return s
}

func (r *frozenReceiver) forward(_ any, stream googlegrpc.ServerStream) error {
	for {
		said := r.message("ForwardRequest")
		if err := stream.RecvMsg(said); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		answer := r.message("ForwardResponse")
		switch which := said.WhichOneof(said.Descriptor().Oneofs().ByName("message")); {
		case which == nil:
			return status.Error(codes.InvalidArgument, "empty")
		case which.Name() == "hello":
			if field(said, "hello", "api_version").String() != "v1" {
				return status.Error(codes.Unimplemented, "v1 only")
			}
			welcome := r.message("Welcome")
			set(welcome, "api_version", "v1")
			set(welcome, "stores", true)
			set(answer, "welcome", welcome)
		default:
			batch := field(said, "batch").Message()
			ack := r.message("Ack")
			set(ack, "through", field(batch, "number").Uint())
			r.mutex.Lock()
			records := field(batch, "records").List()
			for i := range records.Len() {
				r.take(records.Get(i).Message())
			}
			if r.closed {
				set(ack, "streams", r.state(field(batch, "stream").Message()))
			}
			r.mutex.Unlock()
			set(answer, "ack", ack)
		}
		if err := stream.SendMsg(answer); err != nil {
			return err
		}
	}
}

// unary is a method with one message in each direction.
func (r *frozenReceiver) unary(name string, request protoreflect.Name, answer func(*dynamicpb.Message) *dynamicpb.Message) googlegrpc.MethodDesc {
	return googlegrpc.MethodDesc{MethodName: name, Handler: func(_ any, _ context.Context, decode func(any) error, _ googlegrpc.UnaryServerInterceptor) (any, error) {
		asked := r.message(request)
		if err := decode(asked); err != nil {
			return nil, err
		}
		r.mutex.Lock()
		defer r.mutex.Unlock()
		return answer(asked), nil
	}}
}

// start serves until the test ends, and gives the address.
func (r *frozenReceiver) start(t *testing.T) string {
	t.Helper()
	server := googlegrpc.NewServer()
	server.RegisterService(&googlegrpc.ServiceDesc{
		ServiceName: frozenService, HandlerType: (*any)(nil),
		Methods: []googlegrpc.MethodDesc{
			r.unary("Negotiate", "NegotiateRequest", func(*dynamicpb.Message) *dynamicpb.Message {
				m := r.message("NegotiateResponse")
				set(m, "api_versions", "v1")
				set(m, "stores", true)
				return m
			}),
			r.unary("GetStream", "GetStreamRequest", func(asked *dynamicpb.Message) *dynamicpb.Message {
				m := r.message("GetStreamResponse")
				set(m, "state", r.state(field(asked, "stream").Message()))
				return m
			}),
		},
		Streams: []googlegrpc.StreamDesc{{StreamName: "Forward", Handler: r.forward, ServerStreams: true, ClientStreams: true}},
	}, struct{}{})
	return listen(t, server)
}

// TestFrozen crosses a sender and a receiver of now with peers that were frozen at the last release.
func TestFrozen(t *testing.T) {
	if *freeze {
		writeFrozen(t)
	}
	f := thaw(t)
	t.Run("Receiver", func(t *testing.T) {
		then := &frozenReceiver{frozen: f, digests: map[string][]byte{}, chain: make([]byte, sha256.Size)}
		s := open(t, plain(then.start(t)))
		id := receivertest.Scan("u")
		all := receivertest.Records(id, 50)
		for _, part := range [][]*forwardingv1.Record{all[:20], all[20:40], all[40:]} {
			if outcome, err := s.Deliver(t.Context(), batch(id, part)); err != nil || len(outcome.Rejected) > 0 {
				t.Fatalf("got %+v, %v", outcome, err)
			}
		}
		proved(t, s, id, all)
		if len(then.wrong) > 0 || len(then.order) != len(all)-1 {
			t.Errorf("the receiver of then has %d records of %d, and says %v", len(then.order), len(all)-1, then.wrong)
		}
	})
	t.Run("Sender", func(t *testing.T) {
		r := receivertest.Start(t, receivertest.Options{})
		conn, err := googlegrpc.NewClient(r.Address, googlegrpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := conn.Close(); err != nil {
				t.Error(err)
			}
		}()
		stream, err := conn.NewStream(t.Context(), &googlegrpc.StreamDesc{ServerStreams: true, ClientStreams: true}, "/"+frozenService+"/Forward")
		if err != nil {
			t.Fatal(err)
		}
		exchange := func(kind protoreflect.Name, content *dynamicpb.Message) *dynamicpb.Message {
			t.Helper()
			request, answer := f.message("ForwardRequest"), f.message("ForwardResponse")
			set(request, kind, content)
			if err := stream.SendMsg(request); err != nil {
				t.Fatal(err)
			}
			if err := stream.RecvMsg(answer); err != nil {
				t.Fatal(err)
			}
			return answer
		}
		hello := f.message("Hello")
		set(hello, "api_version", "v1")
		if said := exchange("hello", hello); field(said, "welcome", "api_version").String() != "v1" {
			t.Fatalf("got %v", said)
		}
		id, records := f.records(t)
		parts := f.message("Batch")
		set(parts, "number", uint64(1))
		set(parts, "stream", id)
		for _, record := range records {
			set(parts, "records", record)
		}
		ack := field(exchange("batch", parts), "ack").Message()
		states := field(ack, "streams").List()
		if field(ack, "through").Uint() != 1 || field(ack, "rejections").List().Len() > 0 || states.Len() != 1 ||
			field(states.Get(0).Message(), "completeness").Enum() != frozenComplete || field(states.Get(0).Message(), "records").Uint() != uint64(len(records)-1) {
			t.Errorf("got %v", ack.Interface())
		}
		if len(field(ack, "streams").List().Get(0).Message().GetUnknown()) > 0 {
			t.Log("the receiver says more than the sender of then knows")
		}
		if c := r.Store.Counters(); c.Stored != uint64(len(records)) || c.Rejected+c.Conflicts > 0 {
			t.Errorf("of %d records the receiver has %+v", len(records), c)
		}
	})
}

// writeFrozen freezes what there is now.
func writeFrozen(t *testing.T) {
	t.Helper()
	raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(protodesc.ToFileDescriptorProto(forwardingv1.File_scanyard_forwarding_v1_forwarding_proto))
	if err != nil {
		t.Fatal(err)
	}
	id := receivertest.Scan("frozen")
	lines := [][]byte{}
	for _, m := range append([]proto.Message{id}, messages(receivertest.Records(id, 20))...) {
		line, err := protojson.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, line)
	}
	for name, content := range map[string][]byte{frozenAPI: raw, frozenRecords: append(bytes.Join(lines, []byte("\n")), '\n')} {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func messages[M proto.Message](all []M) []proto.Message {
	list := make([]proto.Message, 0, len(all))
	for _, m := range all {
		list = append(list, m)
	}
	return list
}
