// SPDX-License-Identifier: Apache-2.0

package file

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	forwardingv1 "github.com/scanyard/scanyard/apis/forwarding/v1"
	"github.com/scanyard/scanyard/forwarding/internal/names"
	"github.com/scanyard/scanyard/forwarding/sink"
)

func open(t *testing.T, root string) *Sink {
	t.Helper()
	s, err := Open(sink.Config{Name: "disk", URL: &url.URL{Scheme: "file", Path: root}})
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

var run = &forwardingv1.StreamId{ClusterId: "c1", Tenant: "team-a", Kind: forwardingv1.StreamKind_STREAM_KIND_SCAN, Name: "nmap", Uid: "u1", Revision: 2}

// records are a run with the titles as findings: results from sequence 1 on, and the closing record.
func records(titles ...string) []sink.Record {
	var list []sink.Record
	var chain []byte
	for i, title := range titles {
		m := &forwardingv1.Record{Sequence: uint64(i + 1), Schema: forwardingv1.Schema, Body: &forwardingv1.Record_Result{Result: &forwardingv1.Result{Title: title}}}
		list = append(list, finished(m))
		chain = forwardingv1.AppendChain(chain, m.GetDigest())
	}
	return append(list, finished(&forwardingv1.Record{
		Sequence: uint64(len(titles) + 1), Schema: forwardingv1.Schema,
		Body: &forwardingv1.Record_Closing{Closing: &forwardingv1.Closing{Records: uint64(len(titles)), Chain: chain}},
	}))
}

func finished(m *forwardingv1.Record) sink.Record {
	m.EventId, m.Digest = forwardingv1.EventID(run, m.GetSequence()), forwardingv1.Digest(m)
	return sink.Record{EventID: m.GetEventId(), Sequence: m.GetSequence(), Message: m}
}

func deliver(t *testing.T, s *Sink, stream *forwardingv1.StreamId, list ...sink.Record) sink.Outcome {
	t.Helper()
	outcome, err := s.Deliver(t.Context(), sink.Batch{Stream: stream, Records: list})
	if err != nil {
		t.Fatal(err)
	}
	return outcome
}

func verdict(t *testing.T, s *Sink) sink.Verdict {
	t.Helper()
	v, err := s.Proof(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	if v.Proved {
		t.Error("a file proves nothing")
	}
	return v
}

// files are the names below the directory, sorted.
func files(t *testing.T, root string) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(root, path)
		names = append(names, name)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func TestIncompleteRunIsHidden(t *testing.T) {
	root := t.TempDir()
	list := records("a", "b", "c")
	s := open(t, root)
	deliver(t, s, run, list[:2]...)
	if got := files(t, root); !slices.Equal(got, []string{"c1/team-a/u1-2.ndjson.partial"}) {
		t.Fatalf("half a run is %v", got)
	}
	// Killed in the middle of a line: another process goes on.
	partial := filepath.Join(root, "c1/team-a/u1-2.ndjson.partial")
	held, err := os.ReadFile(partial)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(partial, append(held, `{"specversion":"1.0","scanyardseq`...), fileMode); err != nil {
		t.Fatal(err)
	}
	s = open(t, root)
	if outcome := deliver(t, s, run, list[1:3]...); outcome.Duplicates != 1 {
		t.Errorf("one of the records was there: %+v", outcome)
	}
	deliver(t, s, run, list[3])
	if got, want := files(t, root), []string{"c1/team-a/u1-2.ndjson", "c1/team-a/u1-2.ndjson.sha256"}; !slices.Equal(got, want) {
		t.Fatalf("got %v, want %v", got, want)
	}
	content, err := os.ReadFile(filepath.Join(root, "c1/team-a/u1-2.ndjson"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(content), "\n"), "\n")
	if len(lines) != 4 {
		t.Fatalf("%d lines: %s", len(lines), content)
	}
	for i, line := range lines {
		var e event
		if err := json.Unmarshal([]byte(line), &e); err != nil || e.Sequence != uint64(i+1) {
			t.Errorf("line %d: %v: %s", i+1, err, line)
		}
	}
	v := verdict(t, s)
	if v.Completeness != forwardingv1.Completeness_COMPLETENESS_COMPLETE || v.Records != 3 || v.HighestSequence != 4 {
		t.Errorf("verdict %+v", v)
	}
	// The same again is all there already, also for a process that has not written it.
	s = open(t, root)
	if outcome := deliver(t, s, run, list...); outcome.Duplicates != 4 {
		t.Errorf("everything was there: %+v", outcome)
	}
	if v := verdict(t, s); v.Completeness != forwardingv1.Completeness_COMPLETENESS_COMPLETE {
		t.Errorf("verdict %+v", v)
	}
}

func TestConflictingContentIsKept(t *testing.T) {
	root := t.TempDir()
	s := open(t, root)
	deliver(t, s, run, records("a", "b")...)
	before, err := os.ReadFile(filepath.Join(root, "c1/team-a/u1-2.ndjson"))
	if err != nil {
		t.Fatal(err)
	}
	deliver(t, s, run, records("a", "other")...)
	if v := verdict(t, s); v.Completeness != forwardingv1.Completeness_COMPLETENESS_CONFLICT {
		t.Errorf("verdict %+v", v)
	}
	after, err := os.ReadFile(filepath.Join(root, "c1/team-a/u1-2.ndjson"))
	if err != nil || string(after) != string(before) {
		t.Errorf("the first content is gone (%v): %s", err, after)
	}
}

func TestMissingRecordsAreDetected(t *testing.T) {
	root := t.TempDir()
	s := open(t, root)
	list := records("a", "b", "c")
	deliver(t, s, run, list[0], list[2], list[3])
	if v := verdict(t, s); v.Completeness != forwardingv1.Completeness_COMPLETENESS_INCOMPLETE {
		t.Errorf("verdict %+v", v)
	}
	if got := files(t, root); len(got) != 0 {
		t.Errorf("what is not whole stays: %v", got)
	}
	deliver(t, s, run, list...)
	if v := verdict(t, s); v.Completeness != forwardingv1.Completeness_COMPLETENESS_COMPLETE {
		t.Errorf("everything was sent again: %+v", v)
	}
}

func decision(n int) sink.Record {
	return sink.Record{
		EventID: fmt.Sprintf("d%d", n), Sequence: uint64(n), ObservedAt: time.Unix(1, 0),
		Line: fmt.Appendf(nil, `{"eventType":"audit_violation","message":"%d","records":"many","chain":1}`, n),
	}
}

func queue(uid string) *forwardingv1.StreamId {
	return &forwardingv1.StreamId{ClusterId: "c1", Tenant: "t", Kind: forwardingv1.StreamKind_STREAM_KIND_DECISIONS, Name: "p", Uid: uid}
}

func TestDecisionsAreInSegments(t *testing.T) {
	root := t.TempDir()
	s := open(t, root)
	s.size = 1 // each batch fills a file
	deliver(t, s, queue("q1"), decision(1), decision(2))
	deliver(t, s, queue("q1"), decision(3))
	s = open(t, root)
	if outcome := deliver(t, s, queue("q1"), decision(3), decision(4)); outcome.Duplicates != 1 {
		t.Errorf("a record that a file has comes again: %+v", outcome)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	// A queue that was made anew counts from 1 again.
	s = open(t, root)
	deliver(t, s, queue("q2"), decision(1))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"c1/t/00000000000000000001-q2.ndjson", "c1/t/00000000000000000001.ndjson", "c1/t/00000000000000000003.ndjson", "c1/t/00000000000000000004.ndjson",
	}
	if got := files(t, root); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	content, err := os.ReadFile(filepath.Join(root, want[1]))
	if err != nil || strings.Count(string(content), "\n") != 2 || !strings.Contains(string(content), `"data":{"eventType":"audit_violation","message":"1","records":"many","chain":1}`) {
		t.Errorf("%v: %s", err, content)
	}
}

func TestSegmentIsWholeAfterItsTime(t *testing.T) {
	root := t.TempDir()
	s := open(t, root)
	s.age = time.Millisecond
	deliver(t, s, queue("q1"), decision(1))
	for !slices.Equal(files(t, root), []string{"c1/t/00000000000000000001.ndjson"}) {
		select {
		case <-t.Context().Done():
			t.Fatal("the file has no name")
		case <-time.After(time.Millisecond):
		}
	}
}

func TestForeignNamesAreIgnored(t *testing.T) {
	for name, want := range map[string]string{
		"..": "%2E.", "a/b": "a%2Fb", ".hidden": "%2Ehidden", "": "%", "a\x00é": "a%00%C3%A9", "100%": "100%25", "v1.2": "v1.2",
	} {
		if got := names.Escape(name); got != want {
			t.Errorf("%q: got %s, want %s", name, got, want)
		}
	}
	long := names.Escape(strings.Repeat("x", 1000))
	if other := names.Escape(strings.Repeat("x", 1001)); len(long) > 200 || long == other {
		t.Errorf("long names: %s, %s", long, other)
	}
	root := t.TempDir()
	s := open(t, filepath.Join(root, "below"))
	stream := queue("../../q")
	stream.ClusterId, stream.Tenant = "..", "../../etc"
	deliver(t, s, stream, decision(1))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if got, want := files(t, root), []string{"below/%2E./%2E.%2F..%2Fetc/00000000000000000001.ndjson"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestErrorsOfTheFileSystem(t *testing.T) {
	for err, want := range map[error]sink.Class{
		syscall.ENOSPC: sink.Overload, syscall.EDQUOT: sink.Overload, syscall.EACCES: sink.Auth, syscall.EROFS: sink.Auth, syscall.EIO: sink.Transport,
	} {
		if got := classify(&os.PathError{Op: "write", Path: "f", Err: err}); got.Class != want {
			t.Errorf("%v: got %+v, want %s", err, got, want)
		}
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, fileMode); err != nil {
		t.Fatal(err)
	}
	if err := open(t, file).Probe(t.Context()); err == nil {
		t.Error("a file is not a directory")
	}
	if err := open(t, t.TempDir()).Probe(t.Context()); err != nil {
		t.Error(err)
	}
}
