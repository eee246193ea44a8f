// SPDX-License-Identifier: Apache-2.0

package xmlsax

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/scanyard/scanyard/parsers/internal/rawgen"
)

// show reads a document into one line: (name k=v …), text in quotes, /name.
func show(in io.Reader, limits Limits) (string, error) {
	r := NewReader(in, limits)
	var out, text strings.Builder
	flush := func() {
		if text.Len() > 0 {
			fmt.Fprintf(&out, "%q", text.String())
			text.Reset()
		}
	}
	for {
		kind, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out.String(), nil
		}
		if err != nil {
			flush()
			return out.String(), err
		}
		switch kind {
		case Start:
			flush()
			fmt.Fprintf(&out, "(%s", r.Name())
			for i := range r.AttrCount() {
				name, value := r.AttrAt(i)
				fmt.Fprintf(&out, " %s=%q", name, value)
			}
			out.WriteByte(')')
		case Text:
			text.Write(r.Text())
		case End:
			flush()
			fmt.Fprintf(&out, "/%s", r.Name())
		}
	}
}

func TestReader(t *testing.T) {
	tests := map[string]struct{ in, want, problem string }{
		"Smallest":            {in: `<a/>`, want: `(a)/a`},
		"Attributes":          {in: `<a b="1" c = '2"' d="'"/>`, want: `(a b="1" c="2\"" d="'")/a`},
		"Text":                {in: `<a>x<b>y</b>z</a>`, want: `(a)"x"(b)"y"/b"z"/a`},
		"WhiteSpaceStays":     {in: "<a> \r\n<b/>\t</a>", want: `(a)" \r\n"(b)/b"\t"/a`},
		"CRLFInAttribute":     {in: "<a b=\"1\r\n2\n\"/>", want: `(a b="1\r\n2\n")/a`},
		"ControlCharacters":   {in: "<a b=\"\x01&#x1;&#2;\">\x02&#x1F;</a>", want: `(a b="\x01\x01\x02")"\x02\x1f"/a`},
		"LessThanInAttribute": {in: `<a b="<c>"/>`, want: `(a b="<c>")/a`},
		"CDATAEndInText":      {in: `<a>]]></a>`, want: `(a)"]]>"/a`},
		"Entities":            {in: `<a>&lt;&gt;&amp;&quot;&apos;&eacute;&AMP;&Eacute;&#65;&#x41;&#X41;&#065;</a>`, want: `(a)"<>&\"'é&ÉAAAA"/a`},
		"Joined":              {in: `<a>x<!-- c -->y<![CDATA[<&z]]]>w<?pi?>v<![cdata[]]></a>`, want: `(a)"xy<&z]wv"/a`},
		"PrologueBefore":      {in: "<!-- c -->\n\n<?xml version=\"9.9\" encoding=\"EBCDIC\"?>\n<a/>", want: `(a)/a`},
		"ByteOrderMark":       {in: "\uFEFF<a/>", want: `(a)/a`},
		"Doctype":             {in: `<!DOCTYPE a [<!ENTITY x "]>"><!-- ' --> <!ELEMENT a ANY>]><a/>`, want: `(a)/a`},
		"DoctypeQuoted":       {in: `<!doctype a SYSTEM "x>y"><a/>`, want: `(a)/a`},
		"EntityNotExpanded":   {in: `<!DOCTYPE a [<!ENTITY x "boom">]><a>&x;</a>`, want: `(a)`, problem: "unknown entity &x;"},
		"SpacesInTags":        {in: "< a\n>< b />x</ a\t>", want: `(a)(b)/b"x"/a`},
		"Prefix":              {in: `<n:a xmlns:n="u" n:b="1"/>`, want: `(n:a xmlns:n="u" n:b="1")/n:a`},
		"AfterTheRoot":        {in: `<a/><<<&& junk`, want: `(a)/a`},
		"InvalidUTF8":         {in: "<a b=\"\xff\">\xE2\x82</a>", want: `(a b="�")"�"/a`},
		"RawSurrogate":        {in: "<a b=\"\xED\xA0\x80&#xD800;\">\xED\xA0\x80</a>", want: `(a b="���\xed\xa0\x80")"���"/a`},
		"OtherScripts":        {in: `<größe 名="x"/>`, want: `(größe 名="x")/größe`},
		"PIQuestionMarks":     {in: `<?x a?b ?><a/>`, want: `(a)/a`},
		"CDATAOutside":        {in: `<![CDATA[x]]><a/>`, want: `(a)/a`},
		"SGMLDeclaration":     {in: `<!FOO bar><a/>`, want: `(a)/a`},
		"EmptyText":           {in: `<a></a>`, want: `(a)/a`},

		"Empty":             {in: ``, problem: "line 1, byte 0: the input ends"},
		"OnlyComment":       {in: `<!-- x -->`, problem: "the input ends"},
		"NoXML":             {in: `{"a":1}`, problem: "outside of the root element"},
		"TextBefore":        {in: "\n x <a/>", problem: `line 2, byte 2: text "x`},
		"NullReference":     {in: `<a>&#0;</a>`, want: `(a)`, problem: "invalid character reference"},
		"NullHexReference":  {in: `<a>&#x00;</a>`, want: `(a)`, problem: "invalid character reference"},
		"BeyondUnicode":     {in: `<a>&#x110000;</a>`, want: `(a)`, problem: "invalid character reference"},
		"HugeReference":     {in: `<a>&#99999999999999999999;</a>`, want: `(a)`, problem: "invalid character reference"},
		"SignedReference":   {in: `<a>&#+65;</a>`, want: `(a)`, problem: "invalid character reference"},
		"EmptyReference":    {in: `<a>&#;</a>`, want: `(a)`, problem: "unknown entity"},
		"EmptyHexReference": {in: `<a>&#x;</a>`, want: `(a)`, problem: "invalid character reference"},
		"UnknownEntity":     {in: `<a>&nope;</a>`, want: `(a)`, problem: "unknown entity &nope;"},
		"BareAmpersand":     {in: `<a>x & y; z</a>`, want: `(a)`, problem: "unknown entity"},
		"AmpersandAtTheEnd": {in: `<a>x &</a>`, want: `(a)`, problem: "begins no entity"},
		"AmpersandInAttr":   {in: `<a b="x&y"/>`, problem: `attribute "b"`},
		"Unquoted":          {in: `<a b=1/>`, problem: "not quoted"},
		"Valueless":         {in: `<a b/>`, problem: "no value"},
		"NoSpaceBetween":    {in: `<a b="1"c="2"/>`, problem: "white space was expected"},
		"BadAttributeName":  {in: `<a 1="2"/>`, problem: "name of an attribute"},
		"BadTagName":        {in: `<1a/>`, problem: "name of a tag"},
		"BadCharInName":     {in: `<a$b/>`, problem: "white space was expected"},
		"SlashInTag":        {in: `<a / b="1">`, problem: "not followed by '>'"},
		"DashesInComment":   {in: `<!-- a -- b --><a/>`, problem: "'--' inside a comment"},
		"ThreeDashes":       {in: `<!-- a ---><a/>`, problem: "'--' inside a comment"},
		"UnclosedRoot":      {in: `<a><b></b>`, want: `(a)(b)/b`, problem: "the input ends"},
		"UnclosedTag":       {in: `<a b="1`, problem: "inside the tag"},
		"UnclosedComment":   {in: `<a><!-- x`, want: `(a)`, problem: "the input ends"},
		"UnclosedCDATA":     {in: `<a><![CDATA[x]]`, want: `(a)`, problem: "the input ends"},
		"UnclosedPI":        {in: `<?xml ?`, problem: "the input ends"},
		"PIHidesItsEnd":     {in: `<?x ??><a/>`, problem: "the input ends"},
		"UnclosedDoctype":   {in: `<!DOCTYPE a [`, problem: "the input ends"},
		"WrongEnd":          {in: `<a><b></a>`, want: `(a)(b)`, problem: `end tag "a" where that of "b"`},
		"EndFirst":          {in: `</a>`, problem: "without a start"},
		"EmptyEnd":          {in: `<a></>`, want: `(a)`, problem: "invalid end tag"},
		"AttributesInEnd":   {in: `<a></a b="1">`, want: `(a)`, problem: "invalid end tag"},
		"TwoDoctypes":       {in: `<!DOCTYPE a><!DOCTYPE a><a/>`, problem: "DOCTYPE in a wrong place"},
		"LateDoctype":       {in: `<a><!DOCTYPE a></a>`, want: `(a)`, problem: "DOCTYPE in a wrong place"},
		"QuotedDeclaration": {in: `<!FOO "bar"><a/>`, problem: "quotes in a declaration"},
	}
	for name, tt := range tests {
		for chunking, wrap := range map[string]func(io.Reader) io.Reader{
			"AtOnce": func(r io.Reader) io.Reader { return r }, "ByteByByte": iotest.OneByteReader, "DataErr": iotest.DataErrReader,
		} {
			t.Run(name+chunking, func(t *testing.T) {
				got, err := show(wrap(strings.NewReader(tt.in)), Limits{})
				if chunking != "ByteByByte" || tt.problem == "" { // text before an error may come in more pieces or fewer
					if got != tt.want {
						t.Errorf("want %s\ngot  %s", tt.want, got)
					}
				}
				if tt.problem == "" {
					if err != nil {
						t.Errorf("want no error, got %v", err)
					}
				} else if err == nil || !strings.Contains(err.Error(), tt.problem) {
					t.Errorf("want an error with %q, got %v", tt.problem, err)
				}
			})
		}
	}
}

// TestLongPieces lets every construct cross the limits of the buffer.
func TestLongPieces(t *testing.T) {
	for shift := range 40 {
		pad := strings.Repeat("x", chunk-shift)
		in := `<a p="` + pad + `">` + pad + `&eacute;€<![CDATA[` + pad + `€]]>` + pad + `€&lt;<b/><!--` + pad + `--></a>`
		want := fmt.Sprintf("(a p=%q)%q(b)/b/a", pad, pad+"é€"+pad+"€"+pad+"€<")
		got, err := show(strings.NewReader(in), Limits{})
		if err != nil || got != want {
			t.Fatalf("shift %d: error %v, lengths %d and %d", shift, err, len(got), len(want))
		}
	}
}

func TestFirstOfRepeatedAttributesCounts(t *testing.T) {
	r := NewReader(strings.NewReader(`<a b="1" b="2"/>`), Limits{})
	if _, err := r.Next(); err != nil {
		t.Fatal(err)
	}
	if got, ok := r.Attr("b"); !ok || string(got) != "1" {
		t.Errorf("got %q %t", got, ok)
	}
	if _, ok := r.Attr("c"); ok {
		t.Error("c is there")
	}
}

func TestLimits(t *testing.T) {
	limits := Limits{MaxTag: 1 << 18, MaxName: 100, MaxAttributes: 50, MaxDepth: 20}
	for name, in := range map[string]io.Reader{
		"EndlessName":       io.MultiReader(strings.NewReader(`<`), rawgen.Endless("a")),
		"EndlessValue":      io.MultiReader(strings.NewReader(`<a b="`), rawgen.Endless("b")),
		"EndlessAttributes": io.MultiReader(strings.NewReader(`<a`), rawgen.Endless(` b="1"`)),
		"EndlessSpace":      io.MultiReader(strings.NewReader(`<`), rawgen.Endless(" ")),
		"EndlessEnd":        io.MultiReader(strings.NewReader(`<a></`), rawgen.Endless("a")),
		"EndlessDepth":      rawgen.Endless(`<a>`),
		"LongName":          strings.NewReader(`<` + strings.Repeat("a", 101) + `/>`),
		"LongAttribute":     strings.NewReader(`<a ` + strings.Repeat("b", 101) + `="1"/>`),
		"ManyAttributes":    strings.NewReader(`<a` + strings.Repeat(` b="1"`, 51) + `/>`),
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := show(in, limits)
			runtime.ReadMemStats(&after)
			if !errors.Is(err, ErrTooLarge) {
				t.Errorf("want ErrTooLarge, got %v", err)
			}
			if used := after.TotalAlloc - before.TotalAlloc; used > 4<<20 {
				t.Errorf("took %d bytes", used)
			}
		})
	}
}

// TestEndlessTextIsGivenInPieces reads 64 MiB of one text, comment, CDATA section and DOCTYPE with a small buffer.
func TestEndlessTextIsGivenInPieces(t *testing.T) {
	const size = 64 << 20
	for name, in := range map[string][2]string{
		"Text": {`<a>`, `</a>`}, "CDATA": {`<a><![CDATA[`, `]]></a>`}, "Comment": {`<a><!--`, `--></a>`},
		"Instruction": {`<?x `, `?><a/>`}, "Doctype": {`<!DOCTYPE `, `><a/>`}, "Declaration": {`<!X`, `><a/>`},
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			r := NewReader(io.MultiReader(strings.NewReader(in[0]), io.LimitReader(rawgen.Endless("text "), size), strings.NewReader(in[1])), Limits{})
			got := 0
			for {
				kind, err := r.Next()
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				if kind == Text {
					got += len(r.Text())
				}
			}
			runtime.ReadMemStats(&after)
			if want := map[bool]int{true: size}[name == "Text" || name == "CDATA"]; got != want {
				t.Errorf("want %d bytes of text, got %d", want, got)
			}
			if used := after.TotalAlloc - before.TotalAlloc; used > 2<<20 {
				t.Errorf("took %d bytes", used)
			}
		})
	}
}

func TestSourceErrors(t *testing.T) {
	broken := errors.New("broken pipe")
	_, err := show(io.MultiReader(strings.NewReader("<a>\n\n<b "), iotest.ErrReader(broken)), Limits{})
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), "line 3") {
		t.Errorf("got %v", err)
	}
}

func FuzzReader(f *testing.F) {
	f.Add(`<?xml version="1.0"?><!DOCTYPE a [<!ENTITY x "y">]><a b="1">x&lt;<!-- c --><![CDATA[d]]></a>`)
	f.Fuzz(func(t *testing.T, in string) {
		whole, err := show(strings.NewReader(in), Limits{MaxTag: 4096})
		pieces, again := show(iotest.OneByteReader(strings.NewReader(in)), Limits{MaxTag: 4096})
		if (err == nil) != (again == nil) || err == nil && whole != pieces {
			t.Errorf("at once %s (%v), in pieces %s (%v)", whole, err, pieces, again)
		}
	})
}

func BenchmarkReader(b *testing.B) {
	in := `<nmaprun>` + strings.Repeat(`<port protocol="tcp" portid="1"><state state="open" reason="syn-ack" reason_ttl="0"/>`+
		`<service name="https" product="Apache httpd" version="2.4.62" tunnel="ssl" method="probed" conf="10"/></port>`+"\n", 10_000) + `</nmaprun>`
	b.SetBytes(int64(len(in)))
	b.ReportAllocs()
	for b.Loop() {
		r := NewReader(strings.NewReader(in), Limits{})
		for {
			if _, err := r.Next(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				b.Fatal(err)
			}
		}
	}
}
