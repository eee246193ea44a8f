// SPDX-License-Identifier: Apache-2.0

// Package handover is how the operator hands a Scan to the container of a parser or hook that does not read it from the
// Kubernetes API: as JSON in its environment. What such a container tells in return is an outcome, see package outcome.
//
// What it decides:
//
//   - The kernel takes no variable of 128 KiB or more, so a large Scan comes in several, which are joined in order.
//   - The kubelet replaces $(NAME) in values; the dollar signs of the JSON are escapes, so that nothing of a Scan is replaced.
package handover

import (
	"bytes"
	"errors"
	"strconv"
	"unicode/utf8"
)

// Variables of the environment.
const (
	// EnvScan is the Scan as JSON. Further parts of a large one are EnvScan_1, EnvScan_2 and so on.
	EnvScan = "SCAN_OBJECT"
	// EnvCategoriesURL is a presigned URL to PUT the counts by category that do not fit into an outcome.
	EnvCategoriesURL = "CATEGORIES_UPLOAD_URL"
	// EnvExceptionsURL is a presigned URL to GET the exceptions that hold for the Scan. Absent: none does.
	EnvExceptionsURL = "EXCEPTIONS_URL"
	// EnvHandoff is the folder that a parser in its scanner's pod shares with the lurker, which says there that the scanner has
	// ended. It is HandoffDir.
	EnvHandoff = "SCANNER_HANDOFF"
)

// HandoffDir is where lurker and parser of one pod have the folder of EnvHandoff.
const HandoffDir = "/run/scanyard/handoff"

const (
	maxPart  = 96 << 10
	maxParts = 5
)

// MaxScan is how many bytes of JSON are handed over at most: etcd takes little more in one object, and a Job has them once.
const MaxScan = maxPart * maxParts

// ErrTooLarge says that a Scan is larger than what can be handed over.
var ErrTooLarge = errors.New("the Scan is too large to be handed over")

// ExceptionsFile is the name, beside findings.json, of the object with the exceptions that hold for the Scan.
const ExceptionsFile = "scanyard-exceptions.json"

// Variable is one variable of an environment.
type Variable struct{ Name, Value string }

// Split returns the variables that hand over a Scan, which is JSON.
func Split(scan []byte) ([]Variable, error) {
	scan = bytes.ReplaceAll(scan, []byte("$"), []byte(`\u0024`)) // a dollar sign stands in strings only
	if len(scan) > MaxScan-maxParts*utf8.UTFMax {
		return nil, ErrTooLarge
	}
	var all []Variable
	for len(scan) > 0 {
		end := min(len(scan), maxPart)
		for end < len(scan) && !utf8.RuneStart(scan[end]) {
			end--
		}
		all = append(all, Variable{part(len(all)), string(scan[:end])})
		scan = scan[end:]
	}
	return all, nil
}

// Join returns the Scan that an environment hands over; nil where it hands over none.
func Join(env func(name string) string) []byte {
	var scan []byte
	for n := range maxParts {
		value := env(part(n))
		if value == "" {
			break
		}
		scan = append(scan, value...)
	}
	return scan
}

// IsVariable says whether a variable belongs to a handover.
func IsVariable(name string) bool {
	if name == EnvCategoriesURL || name == EnvExceptionsURL || name == EnvHandoff {
		return true
	}
	for n := range maxParts {
		if name == part(n) {
			return true
		}
	}
	return false
}

func part(n int) string {
	if n == 0 {
		return EnvScan
	}
	return EnvScan + "_" + strconv.Itoa(n)
}
