// SPDX-License-Identifier: Apache-2.0

package protocol_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/scanyard/scanyard/registry/internal/adapter/protocol"
)

func TestLines(t *testing.T) {
	long := strings.Repeat("x", protocol.MaxLine)
	for name, test := range map[string]struct {
		stream string
		want   []string
	}{
		"Empty":        {"", nil},
		"Two":          {"a\nb\n", []string{"a", "b"}},
		"CutOff":       {"a\nb", []string{"a", "b"}},
		"EmptyLine":    {"\n\n", []string{"", ""}},
		"Longest":      {long + "\nb\n", []string{long, "b"}},
		"TooLong":      {long + "x\nb\n", []string{protocol.ErrLineTooLong.Error(), "b"}},
		"TooLongAtEnd": {"a\n" + long + "xx", []string{"a", protocol.ErrLineTooLong.Error()}},
	} {
		t.Run(name, func(t *testing.T) {
			r := protocol.NewReader(strings.NewReader(test.stream))
			var got []string
			for {
				line, err := r.Line()
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					line = []byte(err.Error())
				}
				got = append(got, string(line))
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestReadRequest(t *testing.T) {
	deep := strings.Repeat("[", 70) + strings.Repeat("]", 70)
	for name, test := range map[string]struct{ line, id, err string }{
		"Good":           {`{"v":1,"id":"7","op":"ping","new":[1]}`, "7", ""},
		"BracketsInText": {`{"v":1,"id":"7","op":"ping","params":{"a":"` + strings.Repeat("[{", 90) + `"}}`, "7", ""},
		"NoJSON":         {`garbage`, "", "not a JSON object"},
		"List":           {`[]`, "", "not a JSON object"},
		"Two":            {`{"v":1,"id":"7","op":"ping"}{}`, "", "not a JSON object"},
		"Empty":          {``, "", "not a JSON object"},
		"OtherVersion":   {`{"v":2,"id":"7","op":"ping"}`, "7", "version"},
		"NoID":           {`{"v":1,"op":"ping"}`, "", "needs an id"},
		"LongID":         {`{"v":1,"id":"` + strings.Repeat("7", 200) + `","op":"ping"}`, strings.Repeat("7", 200), "needs an id"},
		"WrongMember":    {`{"v":1,"id":"7","op":7}`, "7", "not a JSON object"},
		"Deep":           {`{"v":1,"id":"7","op":"ping","params":` + deep + `}`, "7", "not a JSON object"},
		"NotUTF8":        {"{\"v\":1,\"id\":\"7\",\"op\":\"p\xff\"}", "7", "not a JSON object"},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := protocol.ReadRequest([]byte(test.line))
			if r.ID != test.id || (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("want id %q and error %q, got %q and %v", test.id, test.err, r.ID, err)
			}
		})
	}
}

func TestReadAnswer(t *testing.T) {
	for name, test := range map[string]struct{ line, err string }{
		"Progress":       {`{"v":1,"id":"7","type":"progress","done":3,"total":9}`, ""},
		"Result":         {`{"v":1,"id":"7","type":"result","result":{}}`, ""},
		"Error":          {`{"v":1,"id":"7","type":"error","error":{"code":"NotFound","message":"m"}}`, ""},
		"NoResult":       {`{"v":1,"id":"7","type":"result"}`, "not a JSON object"},
		"ResultIsAList":  {`{"v":1,"id":"7","type":"result","result":[]}`, "not a JSON object"},
		"NoError":        {`{"v":1,"id":"7","type":"error"}`, "has no error"},
		"UnknownCode":    {`{"v":1,"id":"7","type":"error","error":{"code":"Bored"}}`, `"Bored"`},
		"UnknownType":    {`{"v":1,"id":"7","type":"song"}`, `"song"`},
		"NoID":           {`{"v":1,"type":"result","result":{}}`, "no id"},
		"NoVersion":      {`{"id":"7","type":"result","result":{}}`, "version"},
		"Garbage":        {`hello`, "not a JSON object"},
		"OfTheWorkerNow": {`{"v":1,"id":"7","type":"error","error":{"code":"Rollback"}}`, `"Rollback"`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := protocol.ReadAnswer([]byte(test.line))
			if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("want error %q, got %v", test.err, err)
			}
		})
	}
}

func TestErrorsAreRetryableByTheirCode(t *testing.T) {
	a, err := protocol.ReadAnswer([]byte(`{"v":1,"id":"7","type":"error","error":{"code":"TooLarge","retryable":true,"retryAfterSeconds":99999}}`))
	if err != nil || a.Error.Retryable || a.Error.RetryAfterSeconds != 3600 {
		t.Errorf("TooLarge must not be retryable, and an hour is believed at most: %+v, %v", a.Error, err)
	}
	for _, code := range protocol.Codes {
		if got := protocol.Errorf(code, "m").Retryable; got != protocol.MayRetry(code) {
			t.Errorf("%s: retryable %v", code, got)
		}
	}
}

func FuzzReadAnswer(f *testing.F) {
	for _, line := range []string{`{"v":1,"id":"7","type":"result","result":{}}`, `{"v":1,"id":"7","type":"error","error":{"code":"NotFound"}}`, `{`, "\x00"} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		a, err := protocol.ReadAnswer(line)
		if err == nil && (a.ID == "" || a.V != protocol.Version) {
			t.Errorf("an answer without id or version was taken: %q", line)
		}
	})
}
