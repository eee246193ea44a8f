// SPDX-License-Identifier: Apache-2.0

// Package names derives the names of everything that a Scan owns.
//
// A name is a function of what it stands for, never random: creating a child twice
// hits the same name, and the API server keeps the second one out. The readable
// prefix is the one secureCodeBox uses, cut to fit; the hash behind it makes the
// name unique to the Scan's UID, so that a Scan made again under its old name has
// other children than the one before.
package names

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
)

const (
	// maxLength is that of a DNS label: the Job controller copies the name of a Job
	// into a label of its pods, and label values have the same limit.
	maxLength  = validation.DNS1123LabelMaxLength
	hashDigits = 10
)

// Job returns the name of the Job of one phase of a Scan.
//
// The prefix is made readable for people ("scan-nightly"); role tells the phases of
// a Scan apart (the job type, with the name of the hook for hooks), attempt its
// tries, from 1.
func Job(prefix string, scan types.UID, role string, attempt int) string {
	return withHash(prefix, string(scan), role, strconv.Itoa(attempt))
}

// HookAccess returns the name of the Role and RoleBinding that let one hook, which
// runs in another namespace, reach one Scan. The hook may be given by its name or by
// the label value that stands for it.
func HookAccess(hook string, scan types.UID) string {
	hook = LabelValue(hook)
	return withHash("hook-"+hook, string(scan), "access", hook)
}

// ScanAccess returns the name of the ServiceAccount of the parser and the hooks of one
// Scan, from the Scan's UID, or that of its Role and RoleBinding, from the account's.
func ScanAccess(scan string, owner types.UID) string {
	return withHash("scan-"+scan, string(owner), "access")
}

// LabelValue returns s where it is a valid label value, else a readable part of it
// with a hash of the whole.
func LabelValue(s string) string {
	if len(validation.IsValidLabelValue(s)) == 0 {
		return s
	}
	return withHash(s, s)
}

// withHash cuts prefix to fit before a hash of parts. The hash covers the parts with
// their lengths, so that no two lists of parts share one.
func withHash(prefix string, parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		h.Write([]byte(strconv.Itoa(len(p)) + ":" + p))
	}
	sum := hex.EncodeToString(h.Sum(nil))[:hashDigits]
	prefix = readable(prefix)
	if room := maxLength - hashDigits - 1; len(prefix) > room {
		prefix = prefix[:room]
	}
	prefix = strings.Trim(prefix, "-.")
	if prefix == "" {
		return sum
	}
	return prefix + "-" + sum
}

// readable replaces what a name may not hold. Names of Scans and hooks never need
// it; it is here for label values.
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
