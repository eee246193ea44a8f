// SPDX-License-Identifier: Apache-2.0

package finding

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestAppendJSON(t *testing.T) {
	tests := map[string]struct {
		finding Finding
		want    string
	}{
		"Zero":           {Finding{}, `{}`},
		"NullAndEmpty":   {Finding{Name: String(""), Location: Null()}, `{"name":"","location":null}`},
		"OnlyTail":       {Finding{ID: String("x")}, `{"id":"x"}`},
		"NullReferences": {Finding{References: References{Null: true}}, `{"references":null}`},
		"NoReferences":   {Finding{References: References{List: []Reference{}}}, `{"references":[]}`},
		"References": {
			Finding{References: References{List: []Reference{{"CVE", "CVE-1"}, {"URL", "u"}}}},
			`{"references":[{"type":"CVE","value":"CVE-1"},{"type":"URL","value":"u"}]}`,
		},
		"EmptyAttributes": {Finding{Attributes: Object{}}, `{"attributes":{}}`},
		"AbsentAttribute": {
			Finding{Attributes: Object{{"a", Text{}}, {"b", Null()}, {"c", nil}, {"d", []string(nil)}}},
			`{"attributes":{"b":null,"c":null,"d":null}}`,
		},
		"Everything": {
			Finding{
				ID: String("i"), IdentifiedAt: Null(), ParsedAt: String("p"), Name: String("n"), Description: String("d"),
				Category: String("c"), Severity: String(High), Mitigation: String("m"), Location: String("l"),
				OSILayer: String("o"), Scan: &ScanInfo{"t", "s", "ns", "st"},
				Attributes: Object{{"list", []any{1.0, "x", nil, true}}, {"map", map[string]any{"b": 1, "a": 2}}},
				Extra:      Object{{"extra", []Object{{{"k", int64(3)}}}}, {"raw", Raw(`[1]`)}, {"gone", Text{}}},
			},
			`{"name":"n","description":"d","category":"c","location":"l","osi_layer":"o","severity":"HIGH","mitigation":"m",` +
				`"attributes":{"list":[1,"x",null,true],"map":{"a":2,"b":1}},"extra":[{"k":3}],"raw":[1],` +
				`"id":"i","identified_at":null,"parsed_at":"p",` +
				`"scan":{"created_at":"t","name":"s","namespace":"ns","scan_type":"st"}}`,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := tt.finding.AppendJSON([]byte("x"))
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != "x"+tt.want {
				t.Errorf("want x%s\ngot   %s", tt.want, got)
			}
		})
	}
}

func TestAppendJSONRefusesWhatCanNotBeWritten(t *testing.T) {
	f := Finding{Attributes: Object{{"outer", Object{{"bad", make(chan int)}}}}}
	got, err := f.AppendJSON([]byte("x"))
	if err == nil || !strings.Contains(err.Error(), "attributes: outer: bad: ") {
		t.Errorf("want the path in the error, got %v", err)
	}
	if string(got) != "x" {
		t.Errorf("dst was not given back as it was: %q", got)
	}
}

func TestAppendString(t *testing.T) {
	tests := map[string]struct{ in, want string }{
		"Plain":            {"a b", `"a b"`},
		"NoHTMLEscapes":    {"<a>&'\u2028", `"<a>&'` + "\u2028" + `"`},
		"Escapes":          {"\"\\\b\f\n\r\t\x00\x1f\x7f", `"\"\\\b\f\n\r\t\u0000\u001f` + "\x7f\""},
		"InvalidBytes":     {"a\xffb\xc3", `"a` + "\uFFFD" + `b` + "\uFFFD" + `"`},
		"LoneSurrogate":    {"a\xED\xA0\xBDb", `"a\ud83db"`},
		"LowSurrogate":     {"\xED\xBF\xBF", `"\udfff"`},
		"CutSurrogate":     {"\xED\xA0", `"` + "\uFFFD\uFFFD" + `"`},
		"OutsideTheBMP":    {"\U0001F600", "\"\U0001F600\""},
		"RealReplacement":  {"\uFFFD", "\"\uFFFD\""},
		"EscapeAtTheStart": {"\nx", `"\nx"`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := string(AppendString(nil, tt.in)); got != tt.want {
				t.Errorf("want %q, got %q", tt.want, got)
			}
		})
	}
}

func TestAppendNumber(t *testing.T) {
	for want, f := range map[string]float64{
		"0": math.Copysign(0, -1), "80": 80, "-1": -1, "2.1": 2.1, "200": 2e2, "9007199254740992": 9007199254740993,
		"1e+21": 1e21, "100000000000000000000": 1e20, "0.000001": 1e-6, "1e-7": 1e-7, "1.5e-10": 1.5e-10,
		"1.7976931348623157e+308": math.MaxFloat64, "5e-324": 5e-324, "null": math.Inf(1), "123456789012345680000": 123456789012345678901,
	} {
		if got := string(AppendNumber(nil, f)); got != want {
			t.Errorf("want %s, got %s", want, got)
		}
	}
	if got := string(AppendNumber(nil, math.NaN())); got != "null" {
		t.Errorf("NaN: want null, got %s", got)
	}
}

func TestUnmarshalKeepsEverything(t *testing.T) {
	for name, in := range map[string]string{
		"Empty":           `{}`,
		"Known":           `{"name":"n","description":null,"severity":"LOW","attributes":{"b":1,"a":[{"x":null}]}}`,
		"WrongTypes":      `{"name":1,"description":false,"attributes":[1],"references":"x","scan":{"name":"only"}}`,
		"Unknown":         `{"false_positive":true,"hint":null,"reference":{}}`,
		"References":      `{"references":[{"type":"a","value":"b"}]}`,
		"OddReferences":   `{"references":[{"type":"a","value":"b","more":1}]}`,
		"NullReferences":  `{"references":null}`,
		"EmptyReferences": `{"references":[]}`,
		"Scan":            `{"scan":{"created_at":"c","name":"n","namespace":"ns","scan_type":"t"}}`,
		"Surrogate":       `{"name":"\ud800 \ud83d\ude00"}`,
	} {
		t.Run(name, func(t *testing.T) {
			var f Finding
			if err := json.Unmarshal([]byte(in), &f); err != nil {
				t.Fatal(err)
			}
			out, err := f.AppendJSON(nil)
			if err != nil {
				t.Fatal(err)
			}
			var want, got any
			if err := json.Unmarshal([]byte(in), &want); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(out, &got); err != nil {
				t.Fatalf("%s: %v", out, err)
			}
			if !reflect.DeepEqual(want, got) {
				t.Errorf("want %s\ngot  %s", in, out)
			}
		})
	}
	var f Finding
	if err := f.UnmarshalJSON([]byte(`[1]`)); err == nil || !strings.Contains(err.Error(), "is an array, must be an object") {
		t.Errorf("want a refusal of an array, got %v", err)
	}
}

func TestMarshalThroughEncodingJSON(t *testing.T) {
	got, err := json.Marshal([]any{Finding{Name: String("n")}, &Finding{}, Object{{"a", 1}}, Object(nil)})
	if err != nil {
		t.Fatal(err)
	}
	if want := `[{"name":"n"},{},{"a":1},null]`; string(got) != want {
		t.Errorf("want %s, got %s", want, got)
	}
}

func TestDecodeValue(t *testing.T) {
	tests := map[string]struct {
		in, want string
		problem  string
	}{
		"Order":            {in: `{"b":1,"a":2}`, want: `{"b":1,"a":2}`},
		"Repeated":         {in: `{"b":1,"a":2,"b":3}`, want: `{"b":3,"a":2}`},
		"Numbers":          {in: `[1.0,2e2,-0,9007199254740993,1e999]`, want: `[1,200,0,9007199254740992,null]`},
		"Escapes":          {in: `"\u00e9\/\"\\\b\ud83d\ude00\ud83d"`, want: `"é/\"\\\b` + "\U0001F600" + `\ud83d"`},
		"InvalidUTF8":      {in: "\"a\xE2\x82b\xED\xA0\x80\"", want: "\"a\uFFFDb\uFFFD\uFFFD\uFFFD\""},
		"Space":            {in: " \t\r\n[ 1 , { } ]\n", want: `[1,{}]`},
		"Words":            {in: `[true,false,null]`, want: `[true,false,null]`},
		"Nothing":          {in: ``, problem: "at byte 0: it ends"},
		"Trailing":         {in: `1 2`, problem: "at byte 2: '2' where the end"},
		"LeadingZero":      {in: `01`, problem: "byte 1"},
		"Plus":             {in: `+1`, problem: "where a value"},
		"Dot":              {in: `1.`, problem: "a digit"},
		"Exponent":         {in: `1e+`, problem: "a digit"},
		"Comma":            {in: `[1,]`, problem: "where a value"},
		"KeyComma":         {in: `{"a":1,}`, problem: "where a key"},
		"NoColon":          {in: `{"a" 1}`, problem: "where ':'"},
		"Unquoted":         {in: `{a:1}`, problem: "where a key"},
		"ControlCharacter": {in: "\"a\nb\"", problem: "a control character"},
		"BadEscape":        {in: `"\x"`, problem: "an escape"},
		"BadUnicode":       {in: `"\u12g4"`, problem: "a hexadecimal digit"},
		"OpenString":       {in: `"abc`, problem: "ends inside a string"},
		"OpenEscape":       {in: `"abc\`, problem: "an escape"},
		"NaN":              {in: `NaN`, problem: "where a value"},
		"NonBreakingSpace": {in: "\u00a01", problem: "where a value"},
		"TooDeep":          {in: strings.Repeat("[", 600), problem: "nested deeper than 512"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			v, err := DecodeValue([]byte(tt.in), 0)
			checked := CheckValue([]byte(tt.in), 0)
			if (err == nil) != (checked == nil) {
				t.Errorf("DecodeValue says %v, CheckValue %v", err, checked)
			}
			if tt.problem != "" {
				if err == nil || !strings.Contains(err.Error(), tt.problem) {
					t.Errorf("want an error with %q, got %v", tt.problem, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got, err := AppendValue(nil, v)
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != tt.want {
				t.Errorf("want %s, got %s", tt.want, got)
			}
		})
	}
}

func TestDecodeLargeObjectIsNotQuadratic(t *testing.T) {
	in := []byte(`{`)
	for i := range 200_000 {
		in = append(in, '"', 'k')
		in = AppendNumber(in, float64(i%100_000))
		in = append(in, `":0,`...)
	}
	in = append(in, `"last":1}`...)
	v, err := DecodeValue(in, 0)
	if err != nil {
		t.Fatal(err)
	}
	if o, _ := v.(Object); len(o) != 100_001 {
		t.Errorf("want 100001 keys, got %d", len(o))
	}
}

func TestAgreesWithEncodingJSON(t *testing.T) {
	for _, in := range []string{
		`{"a":[1,2,{"b":"c"}]}`, `"\u0041"`, `[`, `]`, `{"a":}`, `tru`, `nullx`, `"\`, `-`, `-1`, `1E5`, `.5`, `[1 2]`, `{"a":1 "b":2}`,
	} {
		if want, got := json.Valid([]byte(in)), CheckValue([]byte(in), 0) == nil; want != got {
			t.Errorf("%s: want valid %t, got %t", in, want, got)
		}
	}
}

func TestToString(t *testing.T) {
	for want, v := range map[string]any{
		"undefined": Text{}, "null": nil, "1,,a": []any{1.0, nil, "a"}, "[object Object]": Object{}, "true": true,
		"x,y": []string{"x", "y"}, "NaN": math.NaN(), "-Infinity": math.Inf(-1), "7": 7, "s": String("s"),
	} {
		if got := ToString(v); got != want {
			t.Errorf("want %s, got %s", want, got)
		}
	}
}

func TestObject(t *testing.T) {
	var o Object
	o.Set("a", 1)
	o.Set("b", "x")
	o.Set("a", 2)
	if v, ok := o.Get("a"); !ok || v != 2 {
		t.Errorf("a: got %v %t", v, ok)
	}
	if _, ok := o.Get("c"); ok {
		t.Error("c is there")
	}
	if got := o.Text("b"); got != String("x") {
		t.Errorf("b: got %v", got)
	}
	if !o.Text("a").IsAbsent() {
		t.Error("a number was taken for a text")
	}
	if !o.Delete("a") || o.Delete("a") || len(o) != 1 {
		t.Errorf("delete left %v", o)
	}
}

func TestIDIsStable(t *testing.T) {
	// These values are a promise: ids that hooks have stored must be found again. Never change them.
	if got, want := ID("team-a", "nmap", []byte(`"name":"Open Port: 80"`)), "f372c900-66e5-5228-b44c-a3d18bdef0d8"; got != want {
		t.Errorf("want %s, got %s", want, got)
	}
}

func TestStamp(t *testing.T) {
	scan := ScanInfo{CreatedAt: "2026-01-02T03:04:05Z", Name: "nightly", Namespace: "team-a", ScanType: "nmap"}
	at := time.Date(2026, 1, 2, 4, 4, 5, 6_999_999, time.FixedZone("", 3600))
	f := &Finding{
		Name: String("Open Port: 80"), Category: String("c"), Severity: String(Low), IdentifiedAt: String("2026-01-01T00:00:00Z"),
		ID: String("own"), ParsedAt: String("own"), Extra: Object{{"scan", "own"}, {"id", 7}, {"hint", "h"}},
	}
	got, err := NewStamp(scan, at).AppendJSON(nil, f)
	if err != nil {
		t.Fatal(err)
	}
	id := ID("team-a", "nmap", []byte(`"name":"Open Port: 80","category":"c","severity":"LOW","hint":"h"`))
	want := `{"id":"` + id + `","name":"Open Port: 80","category":"c","severity":"LOW","hint":"h",` +
		`"identified_at":"2026-01-01T00:00:00Z","parsed_at":"2026-01-02T03:04:05.006Z",` +
		`"scan":{"created_at":"2026-01-02T03:04:05Z","name":"nightly","namespace":"team-a","scan_type":"nmap"}}`
	if string(got) != want {
		t.Errorf("want %s\ngot  %s", want, got)
	}
	if err := Validate(got); err != nil {
		t.Errorf("a stamped finding breaks the schema: %v", err)
	}

	idOf := func(scan ScanInfo, f Finding) string {
		raw, err := NewStamp(scan, at.Add(time.Hour)).AppendJSON(nil, &f)
		if err != nil {
			t.Fatal(err)
		}
		return string(raw[:len(`{"id":"`)+36])
	}
	same := scan
	same.Name, same.CreatedAt = "tomorrow", "2027-01-01T00:00:00Z"
	if idOf(scan, *f) != idOf(same, *f) {
		t.Error("another run of the same scan gave another id")
	}
	later := *f
	later.IdentifiedAt = Text{}
	if idOf(scan, *f) != idOf(scan, later) {
		t.Error("the time at which it was seen changed the id")
	}
	other := scan
	other.Namespace = "team-b"
	if idOf(scan, *f) == idOf(other, *f) {
		t.Error("two namespaces share an id")
	}
	changed := *f
	changed.Location = String("x")
	if idOf(scan, *f) == idOf(scan, changed) {
		t.Error("another location gave the same id")
	}
}

func TestAppendUTF8(t *testing.T) {
	for in, want := range map[string]string{
		"":                         "",
		"aé€😀":                     "aé€😀",
		"\x80\xbf":                 "\uFFFD\uFFFD",
		"\xC2":                     "\uFFFD",
		"\xE2\x82x":                "\uFFFDx",
		"\xF0\x9F\x98":             "\uFFFD",
		"\xF0\x80\x80":             "\uFFFD\uFFFD\uFFFD",
		"\xED\xA0\x80":             "\uFFFD\uFFFD\uFFFD",
		"\xF4\x90\x80":             "\uFFFD\uFFFD\uFFFD",
		"\xE0\x80\xE1\x80\xE1\xC3": "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD",
		"\xC0\xAF\xF5":             "\uFFFD\uFFFD\uFFFD",
	} {
		if got := string(AppendUTF8(nil, []byte(in))); got != want {
			t.Errorf("%x: want %q, got %q", in, want, got)
		}
	}
}

func BenchmarkAppendJSON(b *testing.B) {
	f := &Finding{
		Name: String("Open Port: 443 (https)"), Description: String("Port 443 is open using tcp protocol."),
		Category: String("Open Port"), Location: String("tcp://host.example.com:443"), Severity: String(Informational),
		Attributes: Object{{"port", 443}, {"state", "open"}, {"ip_addresses", []any{"198.18.0.1"}}, {"scripts", nil}},
	}
	stamp := NewStamp(ScanInfo{Name: "n", Namespace: "ns", ScanType: "nmap"}, time.Unix(0, 0))
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		var err error
		if buf, err = stamp.AppendJSON(buf[:0], f); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(int64(len(buf)))
}
