// SPDX-License-Identifier: Apache-2.0

package sshaudit

import (
	"errors"
	"fmt"
	"strings"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/parsers/sdk/ecma"
)

var severities = map[string]string{"critical": finding.High, "warning": finding.Medium, "informational": finding.Low}

// advice is what the findings of an action have in common. The texts have a %s where the algorithms are named.
type advice struct {
	name, mitigation string
	// descriptions are by kind of algorithm.
	descriptions map[string]string
	// informational reports that ssh-audit gives this advice at the lowest level.
	informational bool
}

var advices = map[string]advice{
	"del": {
		name: "Insecure SSH %s Algorithms", mitigation: "Remove these %s algorithms",
		descriptions: map[string]string{
			"kex": "Discouraged SSH key exchange algorithms in use",
			"key": "Discouraged SSH key algorithms in use",
			"mac": "Discouraged SSH message authentication code algorithms in use",
			"enc": "Discouraged SSH Encryption algorithms are in use",
		},
	},
	"chg": {
		name: "SSH %s Algorithms must be changed", mitigation: "Change these %s algorithms",
		descriptions: map[string]string{
			"kex": "Weak SSH key exchange algorithms in use",
			"key": "Weak SSH key algorithms in use",
			"mac": "Weak SSH message authentication code algorithms in use",
			"enc": "Weak SSH encryption algorithms in use",
		},
	},
	"add": {
		name: "SSH %s Algorithms must be added", mitigation: "Add these %s algorithms",
		descriptions: map[string]string{
			"kex": "SSH key exchange algorithms missing",
			"key": "SSH key algorithms missing",
			"mac": "SSH message authentication code algorithms missing",
			"enc": "SSH encryption algorithms missing",
		},
		informational: true,
	},
}

// algorithms say how a kind of them is called: in a name, and in a mitigation.
var algorithms = map[string]struct{ title, word string }{
	"kex": {"KEX", "KEX"},
	"key": {"Key", "key"},
	"mac": {"MAC", "MAC"},
	"enc": {"Encryption", "encryption"},
}

// violationsOf makes the findings of recommendations: level, action, kind of algorithm, list of algorithms.
func violationsOf(recommendations any, location string) ([]finding.Finding, error) {
	var list []finding.Finding
	levels, err := entries(recommendations)
	if err != nil {
		return nil, fmt.Errorf("recommendations: %w", err)
	}
	for _, level := range levels {
		actions, err := entries(level.Value)
		if err != nil {
			return nil, fmt.Errorf("recommendations of level %.100q: %w", level.Key, err)
		}
		for _, action := range actions {
			if list, err = appendViolations(list, level.Key, action, location); err != nil {
				return nil, fmt.Errorf("recommendations of level %.100q, action %.100q: %w", level.Key, action.Key, err)
			}
		}
	}
	return list, nil
}

func appendViolations(list []finding.Finding, level string, action finding.Member, location string) ([]finding.Finding, error) {
	kinds, err := entries(action.Value)
	if err != nil {
		return nil, err
	}
	for _, kind := range kinds {
		names, err := namesOf(kind.Value)
		if err != nil {
			return nil, fmt.Errorf("%.100q: %w", kind.Key, err)
		}
		severity, known := severities[level]
		a, ok := advices[action.Key]
		if !known || !ok || level == "informational" && !a.informational {
			return nil, errors.New("ssh-audit does not give such advice")
		}
		called, ok := algorithms[kind.Key]
		if !ok {
			continue
		}
		list = append(list, finding.Finding{
			Name:        finding.String(strings.Replace(a.name, "%s", called.title, 1)),
			Description: finding.String(a.descriptions[kind.Key]),
			Category:    finding.String("SSH Policy Violation"),
			Location:    finding.String(location),
			Severity:    finding.String(severity),
			Mitigation:  finding.String(strings.Replace(a.mitigation, "%s", called.word, 1)),
			Attributes:  finding.Object{{Key: "algorithms", Value: names}},
		})
	}
	return list, nil
}

// namesOf goes by position: the first value of an entry is the name, the second the notes.
func namesOf(list any) ([]any, error) {
	given, err := entries(list)
	if err != nil {
		return nil, err
	}
	names := []any{}
	for i, one := range given {
		values, err := entries(one.Value)
		if err != nil {
			return nil, fmt.Errorf("algorithm %d: its values %w", i, err)
		}
		name, notes := at(values, 0), at(values, 1)
		if !isBlank(notes) {
			names = append(names, finding.ToString(name)+" (Note: "+finding.ToString(notes)+")")
			continue
		}
		if several, ok := name.([]any); ok {
			names = append(names, several...)
			continue
		}
		names = append(names, name)
	}
	return names, nil
}

// at returns a value, or one that prints as undefined.
func at(values finding.Object, i int) any {
	if i >= len(values) {
		return finding.Text{}
	}
	return values[i].Value
}

// isBlank is v == "".
func isBlank(v any) bool {
	switch v := v.(type) {
	case string:
		return v == ""
	case bool:
		return !v
	case float64:
		return v == 0
	case []any:
		return finding.ToString(v) == ""
	}
	return false
}

// entries is Object.entries(v), for what must be there.
func entries(v any) (finding.Object, error) {
	list, ok := ecma.Entries(v)
	if !ok {
		return nil, errors.New("are missing or null")
	}
	return list, nil
}
