// SPDX-License-Identifier: Apache-2.0

package match

import (
	"bytes"

	"github.com/scanyard/scanyard/apis/finding"
)

// MatchRaw is Match for a finding that is not decoded yet: it decodes only the keys that the rules need. The bytes must be valid
// JSON, as those of a finding.Reader are.
func (x *Index) MatchRaw(raw []byte) ([]int, error) {
	if !x.extract(raw) {
		value, err := finding.DecodeValue(raw, 0)
		if err != nil {
			return nil, err
		}
		return x.Match(value), nil
	}
	x.round++
	x.hits = x.hits[:0]
	var whole any
	decoded := false
	value := func() (any, error) {
		if decoded {
			return whole, nil
		}
		v, err := finding.DecodeValue(raw, 0)
		whole, decoded = v, true
		return whole, err
	}
	for i, bucket := range x.buckets {
		if len(bucket) > 0 && isScalar(x.values[i]) {
			if err := x.tryRaw(value, bucket[x.values[i]]); err != nil {
				return nil, err
			}
		}
	}
	return x.hits, x.tryRaw(value, x.rest)
}

func (x *Index) tryRaw(value func() (any, error), alternatives []*alternative) error {
	for _, a := range alternatives {
		if x.hit[a.rule] == x.round {
			continue
		}
		var whole any
		if !a.simple {
			var err error
			if whole, err = value(); err != nil {
				return err
			}
		}
		if x.fits(whole, a) {
			x.hit[a.rule] = x.round
			x.hits = append(x.hits, a.rule)
		}
	}
	return nil
}

// Value is what the last finding has at a key, as long as a rule asks for that or Watch was called for it.
func (x *Index) Value(key string) any {
	for i, p := range x.paths {
		if p == (path{outer: key}) {
			return x.values[i]
		}
	}
	return absentValue{}
}

// Watch makes Value work for a key that no rule needs.
func (x *Index) Watch(key string) { x.slot(path{outer: key}) }

// extract fills the values at all paths. It gives up where a key is written with escapes.
func (x *Index) extract(raw []byte) bool {
	for i := range x.values {
		x.values[i] = absentValue{}
	}
	i := skipSpace(raw, 0)
	if i >= len(raw) || raw[i] != '{' {
		return true // no object has no members
	}
	return eachMember(raw, i, func(key []byte, start, end int) bool {
		nested := false
		for slot, p := range x.paths {
			switch {
			case p.outer != string(key):
			case p.nested:
				nested = true
				x.values[slot] = absentValue{} // of members with one name the last counts
			case !x.take(slot, raw[start:end]):
				return false
			}
		}
		return !nested || raw[start] != '{' || x.extractBelow(raw, start, key)
	})
}

// extractBelow fills the values at the paths that lead through one key.
func (x *Index) extractBelow(raw []byte, at int, outer []byte) bool {
	return eachMember(raw, at, func(key []byte, start, end int) bool {
		for slot, p := range x.paths {
			if p.nested && p.inner == string(key) && p.outer == string(outer) && !x.take(slot, raw[start:end]) {
				return false
			}
		}
		return true
	})
}

// container is the value of a list or an object, which no leaf needs.
type container struct{}

// take decodes a value. Neighbouring findings often have the same, which is then taken again.
func (x *Index) take(slot int, raw []byte) bool {
	switch raw[0] {
	case '{', '[':
		x.values[slot] = container{}
		return true
	}
	last := &x.last[slot]
	if len(last.raw) > 0 && bytes.Equal(last.raw, raw) {
		x.values[slot] = last.value
		return true
	}
	value, err := finding.DecodeValue(raw, 0)
	if err != nil {
		return false
	}
	last.raw, last.value = append(last.raw[:0], raw...), value
	x.values[slot] = value
	return true
}

// seen is the last value at a path, undecoded and decoded.
type seen struct {
	raw   []byte
	value any
}

// eachMember calls one for every member of the object that begins at a brace, until one of them says stop. It says whether
// it got through.
func eachMember(raw []byte, at int, one func(key []byte, start, end int) bool) bool {
	for i := skipSpace(raw, at+1); i < len(raw) && raw[i] != '}'; {
		keyEnd, escaped := skipString(raw, i)
		if escaped {
			return false
		}
		start := skipSpace(raw, skipSpace(raw, keyEnd)+1) // behind the colon
		end := skipValue(raw, start)
		if !one(raw[i+1:keyEnd-1], start, end) {
			return false
		}
		if i = skipSpace(raw, end); i < len(raw) && raw[i] == ',' {
			i = skipSpace(raw, i+1)
		}
	}
	return true
}

func skipSpace(raw []byte, i int) int {
	for i < len(raw) && (raw[i] == ' ' || raw[i] == '\n' || raw[i] == '\r' || raw[i] == '\t') {
		i++
	}
	return i
}

// skipString returns the place behind a string and whether it has escapes.
func skipString(raw []byte, i int) (end int, escaped bool) {
	for i++; i < len(raw); i++ {
		switch raw[i] {
		case '"':
			return i + 1, escaped
		case '\\':
			escaped = true
			i++
		}
	}
	return len(raw), escaped
}

// skipValue returns the place behind a value.
func skipValue(raw []byte, i int) int {
	depth := 0
	for i < len(raw) {
		switch raw[i] {
		case '"':
			i, _ = skipString(raw, i)
			if depth == 0 {
				return i
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return i // behind a number or a word
			}
			depth--
			if depth == 0 {
				return i + 1
			}
		case ',', ' ', '\n', '\r', '\t':
			if depth == 0 {
				return i
			}
		}
		i++
	}
	return len(raw)
}
