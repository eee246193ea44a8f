// SPDX-License-Identifier: Apache-2.0

package decision_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/scanyard/scanyard/apis/decision"
)

func TestParse(t *testing.T) {
	line := `{ "eventType":"audit_violation", "message":"x \"y\"","details": {"b" : 1,"a":[true, null]} ,"input":null,"odd\u0020key":1.50,"Message":"z"}`
	r, err := decision.Parse([]byte(line))
	if err != nil {
		t.Fatal(err)
	}
	if r.EventType != decision.AuditViolation || r.Message != `x "y"` || string(r.Details) != `{"b" : 1,"a":[true, null]}` || string(r.Input) != "null" {
		t.Errorf("got %+v", r)
	}
	if len(r.Extra) != 2 || r.Extra[0].Key != "odd key" || string(r.Extra[0].Value) != "1.50" || r.Extra[1].Key != "Message" {
		t.Errorf("foreign keys: %q", r.Extra)
	}
}

func TestParseRefuses(t *testing.T) {
	for name, c := range map[string]struct{ line, want string }{
		"Empty":             {``, "byte 0: not JSON"},
		"Array":             {`[1]`, "byte 0: a record is a JSON object"},
		"Text":              {` "x"`, "byte 1: a record is a JSON object"},
		"TwoObjects":        {`{"message":"x","eventType":"a"} {}`, "byte 32: not JSON"},
		"Broken":            {`{"message":x}`, "byte 11: not JSON"},
		"Cut":               {`{"message":"x"`, "not JSON: unexpected end"},
		"NotUTF8":           {"{\"message\":\"\xff\"}", "byte 12: not UTF-8"},
		"NoMessage":         {`{"eventType":"a"}`, "key message: is required"},
		"NoEventType":       {`{"message":"x"}`, "key eventType: is required"},
		"MessageNumber":     {`{"message":1,"eventType":"a"}`, "key message: must be a text"},
		"MessageNull":       {`{"message":null,"eventType":"a"}`, "key message: must be a text"},
		"EventTypeUpper":    {`{"message":"x","eventType":"A"}`, "key eventType: must be lower-case"},
		"EventTypeLong":     {`{"message":"x","eventType":"` + strings.Repeat("a", 64) + `"}`, "key eventType: must be lower-case"},
		"TimeStamp":         {`{"message":"x","eventType":"a","timeStamp":"yesterday"}`, "key timeStamp: must be a time of RFC 3339"},
		"EmptyTimeStamp":    {`{"message":"x","eventType":"a","timeStamp":""}`, "key timeStamp: must not be empty"},
		"DecisionIDSpace":   {`{"message":"x","eventType":"a","decisionId":"a b"}`, "key decisionId: must be 1 to 128"},
		"DecisionIDLong":    {`{"message":"x","eventType":"a","decisionId":"` + strings.Repeat("a", 129) + `"}`, "key decisionId: must be 1 to 128"},
		"ResourceNameArray": {`{"message":"x","eventType":"a","resourceName":[]}`, "key resourceName: must be a text"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := decision.Parse([]byte(c.line))
			malformed, ok := errors.AsType[*decision.MalformedError](err)
			if !ok || !strings.Contains(malformed.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestAppendKeepsBytes(t *testing.T) {
	r := decision.Record{
		TimeStamp: "2026-01-02T15:04:05+01:00", DecisionID: "d-1", EventType: "webhook_violation", Message: "tab\there \"quoted\" \x01 ü \xff",
		ConstraintKind: "K8sRequiredLabels", ConstraintName: "n", ConstraintAction: "deny", ResourceKind: "Pod", ResourceNamespace: "ns", ResourceName: "p",
		Input: json.RawMessage("{\"a\" :\n 1.00}"), Details: json.RawMessage(`[1,  2]`), Extra: []decision.Member{{Key: "z", Value: json.RawMessage(`1e3`)}},
	}
	line, err := decision.Append([]byte("before "), &r)
	if err != nil {
		t.Fatal(err)
	}
	line = bytes.TrimPrefix(line, []byte("before "))
	if bytes.ContainsAny(line, "\r\n") {
		t.Errorf("a line has a line break: %q", line)
	}
	got, err := decision.Parse(line)
	if err != nil {
		t.Fatalf("%v in %s", err, line)
	}
	if string(got.Input) != "{\"a\" :  1.00}" || string(got.Details) != `[1,  2]` || string(got.Extra[0].Value) != "1e3" {
		t.Errorf("values changed: %s", line)
	}
	if got.Message != "tab\there \"quoted\" \x01 ü \ufffd" || got.ResourceNamespace != "ns" || got.ConstraintAction != "deny" || got.DecisionID != "d-1" {
		t.Errorf("got %+v", got)
	}
}

func TestAppendRefuses(t *testing.T) {
	for name, r := range map[string]decision.Record{
		"NoEventType": {Message: "x"},
		"Input":       {Message: "x", EventType: "a", Input: json.RawMessage("{")},
		"Known":       {Message: "x", EventType: "a", Extra: []decision.Member{{Key: "message", Value: json.RawMessage(`"y"`)}}},
		"NoValue":     {Message: "x", EventType: "a", Extra: []decision.Member{{Key: "y"}}},
	} {
		t.Run(name, func(t *testing.T) {
			if line, err := decision.Append([]byte("keep"), &r); err == nil || string(line) != "keep" {
				t.Errorf("got %q, %v", line, err)
			}
		})
	}
}

func TestMembers(t *testing.T) {
	members, err := decision.Members([]byte(` {"b" : [1, 2],"a\n":null } `))
	if err != nil || string(decision.AppendMembers(nil, members)) != `{"b":[1, 2],"a\n":null}` {
		t.Errorf("got %q, %v", members, err)
	}
	if none, err := decision.Members(nil); none != nil || err != nil {
		t.Errorf("got %q, %v", none, err)
	}
	for _, wrong := range []string{"[]", "{", ""} {
		if _, err := decision.Members([]byte(wrong)); err == nil {
			t.Errorf("%q was read", wrong)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"eventType":"audit_violation","message":"x","details":{"a":[1,{"b":"\""}]},"e":-1.5e3}`))
	f.Add([]byte(`{"message":"\ud800","eventType":"a","":{},"\n":[]}`))
	f.Add([]byte(`{"message" : "x" , "eventType":"a","n":null,"t":true }`))
	f.Fuzz(func(t *testing.T, line []byte) {
		r, err := decision.Parse(line)
		if err != nil {
			malformed, ok := errors.AsType[*decision.MalformedError](err)
			if !ok || malformed.Offset > len(line) {
				t.Fatalf("%v", err)
			}
			return
		}
		for _, value := range append([]decision.Member{{Value: r.Input}, {Value: r.Details}}, r.Extra...) {
			if value.Value != nil && !json.Valid(value.Value) {
				t.Fatalf("%q is not a value", value.Value)
			}
		}
		again, err := decision.Append(nil, &r)
		if err != nil {
			t.Fatalf("a record that was read cannot be written: %v", err)
		}
		if back, err := decision.Parse(again); err != nil || back.Message != r.Message || len(back.Extra) != len(r.Extra) {
			t.Fatalf("%s became %s: %v", line, again, err)
		}
	})
}
