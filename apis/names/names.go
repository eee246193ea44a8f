// SPDX-License-Identifier: Apache-2.0

// Package names derives names and label values, for every program that makes objects.
//
// A name is a function of what it stands for, never random: creating a child twice hits the
// same name, and the API server keeps the second one out. The readable prefix is cut to fit;
// the hash behind it makes the name unique to what it is derived from.
package names

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

const (
	// maxLength is that of a DNS label: the Job controller copies the name of a Job
	// into a label of its pods, and label values have the same limit.
	maxLength = validation.DNS1123LabelMaxLength
	// HashDigits is the length of the hash at the end of a derived name.
	HashDigits = 10
)

// Derive returns a name of at most 63 characters: the readable part of prefix, a hyphen and a
// hash of parts. The hash covers the parts with their lengths, so that no two lists of parts
// share one. A prefix without a usable character leaves the hash alone.
func Derive(prefix string, parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		h.Write([]byte(strconv.Itoa(len(p)) + ":" + p))
	}
	sum := hex.EncodeToString(h.Sum(nil))[:HashDigits]
	prefix = readable(prefix)
	if room := maxLength - HashDigits - 1; len(prefix) > room {
		prefix = prefix[:room]
	}
	prefix = strings.Trim(prefix, "-.")
	if prefix == "" {
		return sum
	}
	return prefix + "-" + sum
}

// LabelValue returns s where it is a valid label value, else a readable part of it
// with a hash of the whole.
func LabelValue(s string) string {
	if len(validation.IsValidLabelValue(s)) == 0 {
		return s
	}
	return Derive(s, s)
}

// readable replaces what a name may not hold. Names of objects never need it; label
// values do.
func readable(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '-', r == '.':
			return r
		case r >= 'A' && r <= 'Z':
			return r + ('a' - 'A')
		default:
			return '-'
		}
	}, s)
}
