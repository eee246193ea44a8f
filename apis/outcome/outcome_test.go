// SPDX-License-Identifier: Apache-2.0

package outcome

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/scanyard/scanyard/apis/finding"
)

var sum = strings.Repeat("0123456789abcdef", 4)

func TestRoundTrip(t *testing.T) {
	o := &Outcome{
		Findings: &Findings{
			Stored: Stored{Size: 2, SHA256: sum}, Count: 3, Severities: Severities{Low: 1, High: 1},
			Categories: map[string]int64{"Open Port": 2, `<"&>`: 1},
		},
		Reached:    &Reached{Status: False, Message: "0 of 1 hosts answered"},
		Conditions: []Condition{{Type: "CascadingRulesMatched", Status: False, Reason: "CategoryMissing", Message: "No finding."}},
	}
	text, err := o.Encode()
	if err != nil {
		t.Fatal(err)
	}
	want := `{"outcome":"scanyard.io/v1","findings":{"stored":{"size":2,"sha256":"` + sum + `"},"count":3,"severities":{"low":1,"high":1},` +
		`"categories":{"<\"&>":1,"Open Port":2}},"reached":{"status":"False","message":"0 of 1 hosts answered"},` +
		`"conditions":[{"type":"CascadingRulesMatched","status":"False","reason":"CategoryMissing","message":"No finding."}]}`
	if string(text) != want {
		t.Errorf("want %s, got %s", want, text)
	}
	got, err := Decode(text)
	if err != nil {
		t.Fatal(err)
	}
	o.Version = Version
	if !reflect.DeepEqual(got, o) {
		t.Errorf("want %+v, got %+v", o, got)
	}
}

// What is wrong makes the whole outcome void.
func TestDecodeRefuses(t *testing.T) {
	findings := func(text string) string {
		return `{"outcome":"scanyard.io/v1","findings":{"stored":{"size":2,"sha256":"` + sum + `"},` + text + `}}`
	}
	stored := func(text string) string {
		return `{"outcome":"scanyard.io/v1","findings":{"stored":` + text + `}}`
	}
	for name, test := range map[string]struct {
		text string
		is   error
	}{
		"Nothing":            {"", ErrNone},
		"Sentence":           {"The store answers 403.", ErrNone},
		"OtherJSON":          {`{"findings":{"count":1}}`, ErrNone},
		"OtherOutcome":       {`{"outcome":"good"}`, ErrNone},
		"NumberedOutcome":    {`{"outcome":1}`, ErrNone},
		"List":               {`[]`, ErrNone},
		"More":               {`{"outcome":"scanyard.io/v1"}{}`, ErrNone},
		"CutOff":             {`{"outcome":"scanyard.io/v1"`, ErrNone},
		"TooLong":            {`{"outcome":"scanyard.io/v1"}` + strings.Repeat(" ", MaxSize), ErrNone},
		"NextVersion":        {`{"outcome":"scanyard.io/v2"}`, ErrVersion},
		"NegativeCount":      {findings(`"count":-1`), nil},
		"HugeCount":          {findings(`"count":9007199254740993`), nil},
		"CountOfMoreThan64":  {findings(`"count":99999999999999999999`), nil},
		"FractionOfCount":    {findings(`"count":1.5`), nil},
		"NegativeSeverity":   {findings(`"count":3,"severities":{"low":-1}`), nil},
		"SeveritiesBeyond":   {findings(`"count":3,"severities":{"low":2,"high":2}`), nil},
		"SeveritiesOverflow": {findings(`"count":3,"severities":{"low":9223372036854775807,"high":9223372036854775807}`), nil},
		"CategoriesBeyond":   {findings(`"count":3,"categories":{"a":2,"b":2}`), nil},
		"NegativeCategory":   {findings(`"count":3,"categories":{"a":-2}`), nil},
		"LongCategory":       {findings(`"count":3,"categories":{"` + strings.Repeat("a", finding.MaxCategoryLength+1) + `":1}`), nil},
		"ToldAndStored":      {findings(`"count":3,"categories":{"a":1},"categoriesStored":{"size":2,"sha256":"` + sum + `"}`), nil},
		"StoredTooLarge":     {findings(`"count":3,"categoriesStored":{"size":9000000,"sha256":"` + sum + `"}`), nil},
		"NegativeSize":       {stored(`{"size":-1,"sha256":"` + sum + `"}`), nil},
		"ShortSum":           {stored(`{"size":1,"sha256":"ab"}`), nil},
		"SumInUpperCase":     {stored(`{"size":1,"sha256":"` + strings.ToUpper(sum) + `"}`), nil},
		"NoSum":              {stored(`{"size":1}`), nil},
		"ExceptedUnopened":   {findings(`"count":3,"excepted":1`), nil},
		"OpenBeyond":         {findings(`"count":3,"excepted":2,"open":{"low":2}`), nil},
		"NegativeExcepted":   {findings(`"count":3,"excepted":-1,"open":{"low":2}`), nil},
		"ExceptionsBeyond":   {findings(`"count":3,"open":{"low":2},"exceptions":[{"name":"a","count":2},{"name":"b","count":2}]`), nil},
		"HostileException":   {findings(`"count":3,"open":{"low":2},"exceptions":[{"name":"a\u001b[31m","count":2}]`), nil},
		"EmptyException":     {findings(`"count":3,"open":{"low":2},"exceptions":[{"name":"a","count":0}]`), nil},
		"UnknownReach":       {`{"outcome":"scanyard.io/v1","reached":{"status":"maybe"}}`, nil},
		"ManyConditions":     {`{"outcome":"scanyard.io/v1","conditions":[{},{},{}]}`, nil},
		"ConditionWithSpace": {`{"outcome":"scanyard.io/v1","conditions":[{"type":"A b","status":"True","reason":"A"}]}`, nil},
		"ConditionNoReason":  {`{"outcome":"scanyard.io/v1","conditions":[{"type":"A","status":"True"}]}`, nil},
		"WrongType":          {`{"outcome":"scanyard.io/v1","reached":[]}`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := Decode([]byte(test.text))
			if err == nil {
				t.Fatalf("no error, but %+v", o)
			}
			for _, sentinel := range []error{ErrNone, ErrVersion} {
				if errors.Is(err, sentinel) != (test.is == sentinel) { //nolint:errorlint // the test names the sentinel itself
					t.Errorf("want %v, got %v", test.is, err)
				}
			}
		})
	}
}

// Images may be newer than the operator.
func TestDecodePassesOverUnknownFields(t *testing.T) {
	o, err := Decode([]byte(`{"outcome":"scanyard.io/v1","later":{"x":[1]},"reached":{"status":"True","how":"ping"}}`))
	if err != nil || o.Reached == nil || o.Reached.Status != True {
		t.Errorf("got %+v, %v", o, err)
	}
}

func TestTextsAreHarmless(t *testing.T) {
	hostile := "up\x1b]0;PWN\a\n\u202e \u009b31m" + strings.Repeat("ü", MaxMessage)
	o := &Outcome{Reached: &Reached{Status: True, Message: hostile}}
	text, err := o.Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := Decode(text)
	if err != nil {
		t.Fatal(err)
	}
	m := got.Reached.Message
	if !strings.HasPrefix(m, "up]0;PWN 31mü") || !strings.HasSuffix(m, "ü…") || len(m) > MaxMessage || !utf8.ValidString(m) {
		t.Errorf("got %q", m)
	}
	if o.Reached.Message != hostile {
		t.Error("Encode has changed what it was given")
	}
	raw := strings.Replace(string(text), "up", `up\u001b\u202e`, 1)
	if got, err = Decode([]byte(raw)); err != nil || got.Reached.Message != m {
		t.Errorf("Decode lets through %q, %v", got.Reached.Message, err)
	}
}

func TestCategoriesThatDoNotFit(t *testing.T) {
	stats := &finding.Stats{}
	for i := range 1000 {
		f := &finding.Finding{Severity: finding.String("LOW"), Category: finding.String(fmt.Sprintf("%d %s", i, strings.Repeat("\x01", 300)))}
		if err := stats.Add(f); err != nil {
			t.Fatal(err)
		}
	}
	o := &Outcome{Findings: Count(stats, Stored{Size: 1, SHA256: sum})}
	want := o.Findings.Categories
	if _, err := o.Encode(); !errors.Is(err, ErrTooLarge) {
		t.Fatalf("want ErrTooLarge, got %v", err)
	}
	spilt, err := o.Spill()
	if err != nil {
		t.Fatal(err)
	}
	text, err := o.Encode()
	if err != nil {
		t.Fatal(err)
	}
	read, err := Decode(text)
	if err != nil {
		t.Fatal(err)
	}
	got, err := read.Findings.DecodeCategories(spilt)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %d categories of %d, %v", len(got), len(want), err)
	}
	if len(want) != finding.MaxCategories+1 || len(spilt) < MaxCategoriesSize/2 {
		t.Errorf("the test does not reach the bounds: %d categories, %d bytes", len(want), len(spilt))
	}
	spilt[len(spilt)-2]++
	if _, err := read.Findings.DecodeCategories(spilt); err == nil {
		t.Error("other bytes are taken")
	}
	if again, err := o.Spill(); again != nil || err != nil {
		t.Errorf("there is nothing left to spill, but got %s, %v", again, err)
	}
}

// A category that is not text of the API server's becomes one, and two of them may become one.
func TestCountMakesCharacters(t *testing.T) {
	f := Count(&finding.Stats{Count: 3, Categories: map[string]int{"a\xed\xa0\x80": 1, "a\xed\xa0\x81": 2}}, Stored{SHA256: sum})
	if want := map[string]int64{"a\uFFFD": 3}; !reflect.DeepEqual(f.Categories, want) {
		t.Errorf("want %v, got %v", want, f.Categories)
	}
}

func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		"", "a sentence", `{"outcome":"scanyard.io/v1"}`, `{"outcome":"scanyard.io/v2"}`,
		`{"outcome":"scanyard.io/v1","reached":{"status":"False","message":"\u001b[2J"}}`,
		`{"outcome":"scanyard.io/v1","findings":{"stored":{"size":2,"sha256":"` + sum + `"},"count":3,"severities":{"low":3},"categories":{"a":1}}}`,
	} {
		f.Add([]byte(seed), []byte(`{"a":1}`))
	}
	f.Fuzz(func(t *testing.T, text, categories []byte) {
		o, err := Decode(text)
		if err != nil {
			return
		}
		if err := o.validate(); err != nil {
			t.Errorf("what was read is not valid: %v", err)
		}
		if again, err := o.Encode(); err == nil {
			if second, err := Decode(again); err != nil || !reflect.DeepEqual(o, second) {
				t.Errorf("want %+v, got %+v, %v", o, second, err)
			}
		} else if !errors.Is(err, ErrTooLarge) {
			t.Error(err)
		}
		if o.Findings != nil {
			stored := StoredBytes(categories)
			o.Findings.CategoriesStored = &stored
			if got, err := o.Findings.DecodeCategories(categories); err == nil {
				if err := validateCategories(got, o.Findings.Count); err != nil {
					t.Error(err)
				}
			}
		}
	})
}
