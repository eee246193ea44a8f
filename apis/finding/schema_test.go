// SPDX-License-Identifier: Apache-2.0

package finding

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

const validFinding = `{"id":"cb5e9d7d-65d9-5d4c-8cf2-6c3df62dbb8d","parsed_at":"2026-01-02T03:04:05.006Z","severity":"LOW",` +
	`"category":"c","name":"n","scan":{"created_at":"2026-01-02T03:04:05Z","name":"s","namespace":"ns","scan_type":"t"}}`

// TestValidateAndSchema holds the written-out checks and the JSON schema together, case by case.
func TestValidateAndSchema(t *testing.T) {
	tests := map[string]struct {
		change  string // members that replace or add, "key":remove drops one
		problem string
	}{
		"Minimal":            {``, ""},
		"Nullable":           {`"description":null,"mitigation":null,"location":null,"identified_at":null,"references":null`, ""},
		"Full":               {`"description":"d","attributes":{"a":[1]},"references":[{"type":"a","value":"b"}],"osi_layer":1,"more":{}`, ""},
		"DateTimeOffset":     {`"identified_at":"2026-01-02T03:04:05.123456789+02:00"`, ""},
		"NoID":               {`"id":"remove"`, "id: is missing"},
		"NoParsedAt":         {`"parsed_at":"remove"`, "parsed_at: is missing"},
		"NoSeverity":         {`"severity":"remove"`, "severity: is missing"},
		"NoCategory":         {`"category":"remove"`, "category: is missing"},
		"NoName":             {`"name":"remove"`, "name: is missing"},
		"NoScan":             {`"scan":"remove"`, "scan: is missing"},
		"BadID":              {`"id":"x"`, "id: must be a UUID"},
		"NullName":           {`"name":null`, "name: is null, must be a string"},
		"NumberCategory":     {`"category":7`, "category: is a number"},
		"FalseDescription":   {`"description":false`, "description: is a boolean"},
		"Critical":           {`"severity":"CRITICAL"`, "severity: must be one of"},
		"LowerCase":          {`"severity":"low"`, "severity: must be one of"},
		"BadDate":            {`"identified_at":"yesterday"`, "identified_at: must be a date"},
		"BadParsedAt":        {`"parsed_at":"2026-01-02"`, "parsed_at: must be a date"},
		"ListAttributes":     {`"attributes":[]`, "attributes: is an array"},
		"NullAttributes":     {`"attributes":null`, "attributes: is null"},
		"ObjectReferences":   {`"references":{}`, "references: is an object"},
		"TextReference":      {`"references":["x"]`, "references[0]: is a string"},
		"HalfReference":      {`"references":[{"type":"a","value":"b"},{"type":"a"}]`, "references[1].value: is missing"},
		"NumberReference":    {`"references":[{"type":1,"value":"b"}]`, "references[0].type: is a number"},
		"ListLocation":       {`"location":[]`, "location: is an array"},
		"ScanText":           {`"scan":"x"`, "scan: is a string"},
		"ScanWithoutType":    {`"scan":{"created_at":"2026-01-02T03:04:05Z","name":"s","namespace":"ns"}`, "scan.scan_type: is missing"},
		"ScanWithoutDate":    {`"scan":{"created_at":"","name":"s","namespace":"ns","scan_type":"t"}`, "scan.created_at: must be a date"},
		"ScanWithNumberName": {`"scan":{"created_at":"2026-01-02T03:04:05Z","name":1,"namespace":"ns","scan_type":"t"}`, "scan.name: is a number"},
	}
	var schema map[string]any
	if err := json.Unmarshal(Schema, &schema); err != nil {
		t.Fatal(err)
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var f map[string]any
			if err := json.Unmarshal([]byte(validFinding), &f); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal([]byte("{"+tt.change+"}"), &f); err != nil {
				t.Fatal(err)
			}
			for k, v := range f {
				if v == "remove" {
					delete(f, k)
				}
			}
			raw, err := json.Marshal(f)
			if err != nil {
				t.Fatal(err)
			}
			err = Validate(raw)
			if tt.problem == "" && err != nil || tt.problem != "" && (err == nil || !strings.Contains(err.Error(), tt.problem)) {
				t.Errorf("want %q, got %v", tt.problem, err)
			}
			if bySchema := obeys(t, schema, []any{f}); bySchema != (err == nil) {
				t.Errorf("Validate says %v, the schema %t", err, bySchema)
			}
		})
	}
	for _, raw := range []string{`[]`, `1`, `{`} {
		if Validate([]byte(raw)) == nil {
			t.Errorf("%s is valid", raw)
		}
	}
}

// obeys is the part of a JSON schema validator that Schema needs. It fails the test on a keyword it does not know.
func obeys(t *testing.T, schema map[string]any, v any) bool {
	t.Helper()
	ok := true
	for keyword, arg := range schema {
		switch keyword {
		case "$schema", "id", "title", "description", "additionalProperties":
		case "type":
			ok = ok && isOfType(arg, v)
		case "enum":
			list, _ := arg.([]any)
			ok = ok && slices.Contains(list, v)
		case "format":
			s, isText := v.(string)
			ok = ok && (!isText || arg == "uuid" && isUUID(s) || arg == "date-time" && isDateTime(s))
		case "required":
			o, isObject := v.(map[string]any)
			list, _ := arg.([]any)
			for _, key := range list {
				_, there := o[fmt.Sprint(key)]
				ok = ok && (!isObject || there)
			}
		case "properties":
			o, _ := v.(map[string]any)
			rules, _ := arg.(map[string]any)
			for key, rule := range rules {
				member, there := o[key]
				r, _ := rule.(map[string]any)
				ok = ok && (!there || obeys(t, r, member))
			}
		case "items":
			list, _ := v.([]any)
			rule, _ := arg.(map[string]any)
			for _, e := range list {
				ok = ok && obeys(t, rule, e)
			}
		default:
			t.Fatalf("the schema has keyword %q, which this test does not know", keyword)
		}
	}
	return ok
}

func isOfType(arg, v any) bool {
	if list, ok := arg.([]any); ok {
		return slices.ContainsFunc(list, func(a any) bool { return isOfType(a, v) })
	}
	switch v.(type) {
	case nil:
		return arg == "null"
	case string:
		return arg == "string"
	case []any:
		return arg == "array"
	case map[string]any:
		return arg == "object"
	}
	return false
}
