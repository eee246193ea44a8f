// SPDX-License-Identifier: Apache-2.0

package finding

import (
	_ "embed"
	"fmt"
	"slices"
	"time"
)

// Schema is the JSON schema (draft 4) of findings.json.
//
//go:embed finding.schema.json
var Schema []byte

// Validate holds one element of findings.json to Schema. The error names the path of the first thing that is wrong,
// such as "references[0].type".
func Validate(raw []byte) error {
	v, err := DecodeValue(raw, 0)
	if err != nil {
		return err
	}
	o, ok := v.(Object)
	if !ok {
		return fmt.Errorf("finding: is %s, must be an object", kindOf(v))
	}
	return checkMembers("", o, findingRules)
}

// rule is what one property of an object must be.
type rule struct {
	key      string
	required bool
	check    func(path string, v any) error
}

var findingRules = []rule{
	{"id", true, stringThat(isUUID, "a UUID")},
	{"identified_at", false, orNull(stringThat(isDateTime, "a date and time"))},
	{"parsed_at", true, stringThat(isDateTime, "a date and time")},
	{"name", true, isString},
	{"description", false, orNull(isString)},
	{"category", true, isString},
	{"severity", true, stringThat(isSeverity, "one of INFORMATIONAL, LOW, MEDIUM, HIGH")},
	{"mitigation", false, orNull(isString)},
	{"references", false, orNull(isReferences)},
	{"attributes", false, isObject},
	{"location", false, orNull(isString)},
	{"scan", true, objectOf([]rule{
		{"created_at", true, stringThat(isDateTime, "a date and time")},
		{"name", true, isString},
		{"namespace", true, isString},
		{"scan_type", true, isString},
	})},
}

var referenceRules = []rule{{"type", true, isString}, {"value", true, isString}}

func checkMembers(path string, o Object, rules []rule) error {
	for _, r := range rules {
		v, ok := o.Get(r.key)
		at := r.key
		if path != "" {
			at = path + "." + r.key
		}
		if !ok {
			if r.required {
				return fmt.Errorf("%s: is missing", at)
			}
			continue
		}
		if err := r.check(at, v); err != nil {
			return err
		}
	}
	return nil
}

func isString(path string, v any) error {
	if _, ok := v.(string); !ok {
		return fmt.Errorf("%s: is %s, must be a string", path, kindOf(v))
	}
	return nil
}

func isObject(path string, v any) error {
	if _, ok := v.(Object); !ok {
		return fmt.Errorf("%s: is %s, must be an object", path, kindOf(v))
	}
	return nil
}

func objectOf(rules []rule) func(string, any) error {
	return func(path string, v any) error {
		if err := isObject(path, v); err != nil {
			return err
		}
		o, _ := v.(Object)
		return checkMembers(path, o, rules)
	}
}

func isReferences(path string, v any) error {
	list, ok := v.([]any)
	if !ok {
		return fmt.Errorf("%s: is %s, must be an array", path, kindOf(v))
	}
	for i, e := range list {
		if err := objectOf(referenceRules)(fmt.Sprintf("%s[%d]", path, i), e); err != nil {
			return err
		}
	}
	return nil
}

func orNull(check func(string, any) error) func(string, any) error {
	return func(path string, v any) error {
		if v == nil {
			return nil
		}
		return check(path, v)
	}
}

func stringThat(holds func(string) bool, words string) func(string, any) error {
	return func(path string, v any) error {
		if err := isString(path, v); err != nil {
			return err
		}
		if s, _ := v.(string); !holds(s) {
			return fmt.Errorf("%s: must be %s", path, words)
		}
		return nil
	}
}

func isSeverity(s string) bool {
	return slices.Contains([]string{Informational, Low, Medium, High}, s)
}

func isDateTime(s string) bool {
	_, err := time.Parse(time.RFC3339, s)
	return err == nil
}

func isUUID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i := range len(s) {
		if i == 8 || i == 13 || i == 18 || i == 23 {
			if s[i] != '-' {
				return false
			}
			continue
		}
		if _, ok := hexValue(s[i]); !ok {
			return false
		}
	}
	return true
}
