// SPDX-License-Identifier: Apache-2.0

package finding

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

func readAll(r *Reader) ([]string, error) {
	var got []string
	for {
		raw, err := r.Next()
		if errors.Is(err, io.EOF) {
			return got, nil
		}
		if err != nil {
			return got, err
		}
		got = append(got, string(raw))
	}
}

func TestReader(t *testing.T) {
	long := `{"a":"` + strings.Repeat("x", 200_000) + `"}`
	tests := map[string]struct {
		in      string
		want    []string
		problem string
		is      error
	}{
		"Empty":            {in: `[]`},
		"EmptyWithSpace":   {in: " [ \n] \r\n\t"},
		"Elements":         {in: `[{"a":1} , [2], "x]\"", 3 ,null,true]`, want: []string{`{"a":1}`, `[2]`, `"x]\""`, `3`, `null`, `true`}},
		"ByteOrderMark":    {in: "\uFEFF[1]", want: []string{"1"}},
		"Long":             {in: "[" + long + "," + long + "]", want: []string{long, long}},
		"BracketsInString": {in: `[{"a":"}]{\\"}]`, want: []string{`{"a":"}]{\\"}`}},
		"Nothing":          {in: ``, problem: "holds nothing"},
		"OnlyMark":         {in: "\uFEFF", problem: "holds nothing"},
		"OnlySpace":        {in: " \n", problem: "white space only"},
		"Null":             {in: " null\n", problem: "holds null"},
		"NullAndMore":      {in: `null 1`, problem: "text that begins"},
		"Nul":              {in: `nul`, problem: "text that begins"},
		"Object":           {in: `{}`, problem: "holds an object"},
		"String":           {in: `"x"`, problem: "holds a string"},
		"XML":              {in: `<a/>`, problem: `begins with '<'`},
		"TwoMarks":         {in: "\uFEFF\uFEFF[]", problem: "text that begins"},
		"TruncatedAtOnce":  {in: `[`, problem: "element 0, byte 1", is: ErrTruncated},
		"TruncatedInside":  {in: `[{"a":1},{"b`, want: []string{`{"a":1}`}, problem: "element 1", is: ErrTruncated},
		"TruncatedBetween": {in: `[1,`, want: []string{"1"}, problem: "element 1, byte 3", is: ErrTruncated},
		"TruncatedNumber":  {in: `[12`, problem: "element 0", is: ErrTruncated},
		"TrailingData":     {in: `[1] x`, want: []string{"1"}, problem: "byte 4", is: ErrTrailingData},
		"NoComma":          {in: `[1 2]`, want: []string{"1"}, problem: "element 1, byte 3: '2' where ',' or ']'"},
		"ExtraComma":       {in: `[1,]`, want: []string{"1"}, problem: "']' where a value"},
		"LeadingComma":     {in: `[,1]`, problem: "',' where a value"},
		"BadSyntax":        {in: `[{"a":1},{"a":tru}]`, want: []string{`{"a":1}`}, problem: "element 1, byte 14: 't' where a value"},
		"Mismatched":       {in: `[{"a":[1}]]`, problem: "element 0"},
		"TooDeep":          {in: "[" + strings.Repeat("[", 5000), problem: "nested deeper than 512"},
	}
	for name, tt := range tests {
		for chunking, wrap := range map[string]func(io.Reader) io.Reader{
			"AtOnce": func(r io.Reader) io.Reader { return r }, "ByteByByte": iotest.OneByteReader, "DataErr": iotest.DataErrReader,
		} {
			t.Run(name+chunking, func(t *testing.T) {
				r := NewReader(wrap(strings.NewReader(tt.in)), Limits{})
				got, err := readAll(r)
				if fmt.Sprint(got) != fmt.Sprint(tt.want) {
					t.Errorf("want elements %q, got %q", tt.want, got)
				}
				if tt.problem == "" {
					if err != nil {
						t.Errorf("want no error, got %v", err)
					}
					return
				}
				if err == nil || !strings.Contains(err.Error(), tt.problem) {
					t.Fatalf("want an error with %q, got %v", tt.problem, err)
				}
				if tt.is != nil && !errors.Is(err, tt.is) {
					t.Errorf("want %v, got %v", tt.is, err)
				}
				if _, again := r.Next(); !errors.Is(again, err) {
					t.Errorf("the error did not stay: %v", again)
				}
			})
		}
	}
}

func TestReaderFailsWithItsSource(t *testing.T) {
	broken := errors.New("broken pipe")
	r := NewReader(io.MultiReader(strings.NewReader(`[{"a":1},{"b":`), iotest.ErrReader(broken)), Limits{})
	got, err := readAll(r)
	if len(got) != 1 || !errors.Is(err, broken) {
		t.Errorf("want one element and the source's error, got %q and %v", got, err)
	}
}

// endless repeats a text for ever.
type endless struct{ text string }

func (e endless) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		n += copy(p[n:], e.text)
	}
	return n, nil
}

func TestReaderMemoryIsBounded(t *testing.T) {
	for name, in := range map[string]io.Reader{
		"EndlessString": io.MultiReader(strings.NewReader(`["`), endless{"aaaaaaaa"}),
		"EndlessObject": io.MultiReader(strings.NewReader(`[{"a":[1`), endless{",1111111"}),
		"EndlessNumber": io.MultiReader(strings.NewReader(`[`), endless{"11111111"}),
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := readAll(NewReader(in, Limits{MaxElement: 1 << 20}))
			runtime.ReadMemStats(&after)
			if !errors.Is(err, ErrTooLarge) {
				t.Errorf("want ErrTooLarge, got %v", err)
			}
			if used := after.TotalAlloc - before.TotalAlloc; used > 8<<20 {
				t.Errorf("took %d bytes for a limit of 1 MiB", used)
			}
		})
	}
}

func TestWriter(t *testing.T) {
	var out bytes.Buffer
	w := NewWriter(&out)
	if err := w.Close(); err != nil || out.String() != "[]" {
		t.Errorf("empty: %q, %v", &out, err)
	}
	if err := w.WriteRaw(nil); err == nil {
		t.Error("a closed writer took an element")
	}
	out.Reset()
	w = NewWriter(&out)
	if err := w.Write(&Finding{Name: String("a")}); err != nil {
		t.Fatal(err)
	}
	if err := w.WriteRaw([]byte(`1`)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil || w.Count() != 2 {
		t.Fatal(err, w.Count())
	}
	if want := `[{"name":"a"},1]`; out.String() != want {
		t.Errorf("want %s, got %s", want, &out)
	}
	broken := NewWriter(iotestErrWriter{})
	for range 3 {
		_ = broken.WriteRaw(bytes.Repeat([]byte{'1'}, 70_000)) // buffered or not, Close must tell
	}
	if err := broken.Close(); !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("the error of the writer was lost: %v", err)
	}
}

type iotestErrWriter struct{}

func (iotestErrWriter) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

func BenchmarkReader(b *testing.B) {
	element := `{"name":"Open Port: 443 (https)","description":"Port 443 is open using tcp protocol.","severity":"INFORMATIONAL",` +
		`"category":"Open Port","attributes":{"port":443,"state":"open","ip_addresses":["198.18.0.1"]}}`
	in := "[" + strings.Repeat(element+",", 9999) + element + "]"
	b.SetBytes(int64(len(in)))
	b.ReportAllocs()
	for b.Loop() {
		r := NewReader(strings.NewReader(in), Limits{})
		var stats Stats
		for {
			raw, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				b.Fatal(err)
			}
			if err := stats.AddRaw(raw); err != nil {
				b.Fatal(err)
			}
		}
	}
}

func TestReaderPassesOverLargeElements(t *testing.T) {
	large := `{"a":"` + strings.Repeat("}]", 300_000) + `"}`
	in := `[{"a":1},` + large + `,{"b":2} , ` + large + `]`
	for name, wrap := range map[string]func(io.Reader) io.Reader{
		"AtOnce": func(r io.Reader) io.Reader { return r }, "ByteByByte": iotest.OneByteReader, "DataErr": iotest.DataErrReader,
	} {
		t.Run(name, func(t *testing.T) {
			r := NewReader(wrap(strings.NewReader(in)), Limits{MaxElement: 1000, PassOver: true})
			var got []string
			for {
				raw, err := r.Next()
				if errors.Is(err, io.EOF) {
					break
				}
				if errors.Is(err, ErrTooLarge) {
					if read, ok := errors.AsType[*ReadError](err); !ok || !strings.Contains(err.Error(), fmt.Sprintf("%d bytes, at most 1000 are taken", len(large))) {
						t.Errorf("the error must tell index and sizes: %v", err)
					} else {
						got = append(got, fmt.Sprint("large ", read.Index))
					}
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, string(raw))
			}
			if want := `[{"a":1} large 1 {"b":2} large 3]`; fmt.Sprint(got) != want || r.Count() != 4 {
				t.Errorf("want %s, got %v of %d", want, got, r.Count())
			}
			if len(r.buf) > readerChunk+2000 {
				t.Errorf("%d bytes are held for elements of at most 1000", len(r.buf))
			}
		})
	}
	r := NewReader(strings.NewReader(in[:5000]), Limits{MaxElement: 1000, PassOver: true})
	for range 2 {
		if _, err := r.Next(); err != nil && !errors.Is(err, ErrTruncated) {
			t.Errorf("the end inside of a large element is not an element that is too large: %v", err)
		}
	}
}

// TestReaderGoesOn reads on behind each element, as it would have without the stop.
func TestReaderGoesOn(t *testing.T) {
	const text = "\uFEFF [ {\"a\":1} ,\n[2], \"x,]\",{} ] "
	whole := NewReader(strings.NewReader(text), Limits{})
	want, err := readAll(NewReader(strings.NewReader(text), Limits{}))
	if err != nil || len(want) != 4 {
		t.Fatal(want, err)
	}
	for i := range want {
		if _, err := whole.Next(); err != nil {
			t.Fatal(err)
		}
		at := whole.Offset()
		rest, err := readAll(NewReaderAt(strings.NewReader(text[at:]), Limits{}, i+1, at))
		if err != nil || !slices.Equal(rest, want[i+1:]) {
			t.Errorf("behind %d: %q, %v", i, rest, err)
		}
	}
	_, err = NewReaderAt(strings.NewReader(" x]"), Limits{}, 2, 40).Next()
	if failed, ok := errors.AsType[*ReadError](err); !ok || failed.Index != 2 || failed.Offset != 41 {
		t.Errorf("got %v", err)
	}
}
