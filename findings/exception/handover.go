// SPDX-License-Identifier: Apache-2.0

package exception

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
)

// handed is an exception on its way to a pod. Scope and time are decided already.
type handed struct {
	Namespace string                         `json:"namespace,omitempty"`
	Name      string                         `json:"name"`
	Spec      settingsv1alpha2.ExceptionSpec `json:"spec"`
}

// HandOver returns the exceptions that hold for a Scan at a time, for [TakeOver]; nil where none does.
func HandOver(list []Exception, scan Scan, now time.Time) ([]byte, error) {
	var all []handed
	var last *compiled
	for _, e := range Compile(list, now).For(scan).byName() {
		if e.owner != last {
			last = e.owner
			all = append(all, handed{last.exception.Namespace, last.exception.Name, last.exception.Spec})
		}
	}
	if len(all) == 0 {
		return nil, nil
	}
	text, err := json.Marshal(all)
	if err != nil {
		return nil, fmt.Errorf("hand exceptions over: %w", err)
	}
	return text, nil
}

// byName has all entries of one exception in a row.
func (s *Selection) byName() []*entry {
	all := slices.Clone(s.entries)
	slices.SortStableFunc(all, func(a, b *entry) int { return compareNames(&a.owner.exception, &b.owner.exception) })
	return all
}

var errNoHandover = errors.New("the text is not a list of exceptions")

// TakeOver returns the exceptions that were handed over. What does not compile here matches nothing: the pod's image may be
// older than the operator.
func TakeOver(text []byte) (*Selection, error) {
	var all []handed
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, fmt.Errorf("%w: %w", errNoHandover, err)
	}
	m := &Matcher{}
	for _, h := range all {
		m.add(Exception{Namespace: h.Namespace, Name: h.Name, Spec: h.Spec})
	}
	m.sort()
	return newSelection(m.entries), nil
}
