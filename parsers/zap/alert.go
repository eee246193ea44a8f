// SPDX-License-Identifier: Apache-2.0

package zap

import (
	"errors"

	"github.com/scanyard/scanyard/apis/finding"
)

// field is a child of an alert that findings are made of.
type field uint8

const (
	fieldName field = iota
	fieldAlert
	fieldDesc
	fieldHint
	fieldRiskcode
	fieldConfidence
	fieldHits
	fieldSolution
	fieldOtherinfo
	fieldReference
	fieldCWEID
	fieldWASCID
	fieldPluginID
	numFields // how many there are
)

var fields = map[string]field{
	"name": fieldName, "alert": fieldAlert, "desc": fieldDesc, "hint": fieldHint, "riskcode": fieldRiskcode,
	"confidence": fieldConfidence, "count": fieldHits, "solution": fieldSolution, "otherinfo": fieldOtherinfo,
	"reference": fieldReference, "cweid": fieldCWEID, "wascid": fieldWASCID, "pluginid": fieldPluginID,
}

// value is what an element says: a text in the alert's arena, or one of its objects. Not there is the zero value.
// There are many, so they hold no pointers.
type value struct {
	from, to int32 // of arena, which never grows beyond the limit of an alert
	object   int32 // of objects, from 1; 0 is none
	there    bool
}

// member is a child of an instance.
type member struct {
	name  string
	value value
}

// instance is a place where ZAP has seen what an alert is about.
type instance struct {
	text     value
	attrs    finding.Object
	from, to int32 // members[from:to]
}

// alert is what one <alertitem> says. It is filled by the reader and used again for the next one; all its texts are in
// one arena, so that an alert with many instances costs a few allocations.
type alert struct {
	arena        []byte
	text         string // the arena, when the alert is complete
	objects      []finding.Object
	fields       [numFields]value
	instances    []instance
	members      []member
	hasInstances bool
	more         int // estimate of what is not in the arena or the slices
}

// What the parts of an alert cost beside their text, for the limit.
const (
	memberCost   = 64
	instanceCost = 64
	objectCost   = 256
)

func (a *alert) size() int {
	return len(a.arena) + memberCost*len(a.members) + instanceCost*len(a.instances) + a.more
}

func (a *alert) reset() {
	*a = alert{arena: a.arena[:0], instances: a.instances[:0], members: a.members[:0]}
}

// keep takes what an element says.
func (a *alert) keep(e *element) value {
	if !e.isText() {
		a.objects = append(a.objects, e.object())
		return value{object: int32(len(a.objects)), there: true}
	}
	return a.keepText(e.text)
}

func (a *alert) keepText(text []byte) value {
	from := len(a.arena)
	a.arena = append(a.arena, text...)
	return value{from: int32(from), to: int32(len(a.arena)), there: true}
}

// seal refuses what no finding can be made of.
func (a *alert) seal() error {
	reference := &a.fields[fieldReference]
	switch {
	case !a.hasInstances:
		return errors.New("has no instances")
	case !reference.there:
		return errors.New("has no reference")
	case reference.object > 0:
		return errors.New("has a reference that is not a text")
	}
	a.text = string(a.arena)
	return nil
}

// get returns the text of a value, and whether it is one that is not empty.
func (a *alert) get(v *value) (string, bool) {
	return a.text[v.from:v.to], v.to > v.from
}

func (a *alert) object(v *value) finding.Object { return a.objects[v.object-1] }

// composed is how a field looks inside a composed text.
func (a *alert) composed(f field) string {
	v := &a.fields[f]
	switch {
	case !v.there:
		return "undefined"
	case v.object > 0:
		return finding.ToString(a.object(v))
	}
	return a.text[v.from:v.to]
}

// copied is a field as it is, null where it is missing or empty.
func (a *alert) copied(f field) any {
	v := &a.fields[f]
	if v.object > 0 {
		return a.object(v)
	}
	if text, ok := a.get(v); ok {
		return text
	}
	return nil
}

// stripped is the text of a field without tags; not ok means that there is none.
func (a *alert) stripped(f field) (text string, ok bool) {
	v := &a.fields[f]
	if v.object > 0 {
		return finding.ToString(a.object(v)), true
	}
	text, ok = a.get(v)
	return strip(text), ok
}
