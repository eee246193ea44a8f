// SPDX-License-Identifier: Apache-2.0

package recording

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func at(ms int, text string) Event { return Event{time.Duration(ms) * time.Millisecond, text} }

func TestCast(t *testing.T) {
	c := Cast{Columns: 20, Rows: 3, Title: "a <title>", Events: []Event{at(0, "$ x\r\n"), at(1500, "\x1b[1mbold\x1b[0m"), at(61_001, "é\n")}}
	text, err := c.Write()
	if err != nil {
		t.Fatal(err)
	}
	want := `{"version":2,"width":20,"height":3,"title":"a <title>"}` + "\n" + `[0.000,"o","$ x\r\n"]` + "\n" + `[1.500,"o","\u001b[1mbold\u001b[0m"]` + "\n" + `[61.001,"o","é\n"]` + "\n"
	if diff := cmp.Diff(want, string(text)); diff != "" {
		t.Error(diff)
	}
	back, err := Read(text)
	if diff := cmp.Diff(c, back); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	if _, err := Read([]byte(`{"version":1}`)); err == nil {
		t.Error("version 1 is read")
	}
}

func TestTimes(t *testing.T) {
	c := Cast{Events: []Event{at(0, "a"), at(50, "b"), at(300, "c"), at(60_300, "secret/d"), at(60_350, "END e")}}
	want := []Event{at(0, "ab"), at(300, "c"), at(1300, "x/dEND e")}
	got := c.Replace(strings.NewReplacer("secret", "x").Replace).Hasten(time.Second, 100*time.Millisecond)
	if diff := cmp.Diff(want, got.Events); diff != "" {
		t.Error(diff)
	}
	cut, err := got.Until("END")
	if diff := cmp.Diff([]Event{at(0, "ab"), at(300, "c"), at(1300, "x/d")}, cut.Events); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	if _, err := got.Until("never"); err == nil {
		t.Error("what is not there is found")
	}
}

// TestPictures draws a line that is written over, colours, and what is markup elsewhere.
func TestPictures(t *testing.T) {
	c := Cast{Columns: 30, Rows: 4, Title: "t & t", Events: []Event{
		at(0, "one\r\n\x1b[31m<two>\x1b[0m & \x1b[1mthree\x1b[0m\r\n"), at(1000, "\x1b[1A\x1b[2Kover\r\n"), at(2000, "\x1b[0m"),
	}}
	all, err := c.frames()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 2 {
		t.Fatalf("%d frames, want 2: the third event shows nothing new", len(all))
	}
	want := `<text x="0.0" fill="#ff8a8c" textLength="42.0">&lt;two&gt;</text><text x="50.4" textLength="8.4">&amp;</text><text x="67.2" font-weight="700" textLength="42.0">three</text>`
	if diff := cmp.Diff(want, all[0].rows[1]); diff != "" {
		t.Error(diff)
	}
	if !strings.Contains(all[1].rows[1], ">over</text>") || strings.Contains(all[1].rows[1], "three") {
		t.Errorf("the line that was written over is %s", all[1].rows[1])
	}
	moving, err := c.Moving(time.Second)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"animation:film 2.0s", "50.00%{transform:translateY(-76px)}", "prefers-reduced-motion", "t &amp; t"} {
		if !strings.Contains(string(moving), want) {
			t.Errorf("the picture lacks %q", want)
		}
	}
	still, err := c.Still()
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf(`height="%d"`, 2*cellHeight+bar+around); !strings.Contains(string(still), want) {
		t.Errorf("the picture of the end lacks %s: two of its rows are filled\n%s", want, still)
	}
	if !strings.Contains(string(still), ">over</text>") || strings.Contains(string(still), "animation") {
		t.Errorf("the picture of the end is\n%s", still)
	}
	for name, picture := range map[string][]byte{"moving": moving, "still": still} {
		for d := xml.NewDecoder(strings.NewReader(string(picture))); ; {
			_, err := d.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s is not XML: %v\n%s", name, err, picture)
			}
		}
	}
	if _, err := (Cast{Columns: 30, Rows: 4}).Still(); err == nil {
		t.Error("there is a picture of nothing")
	}
}
