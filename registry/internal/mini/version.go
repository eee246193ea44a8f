// SPDX-License-Identifier: Apache-2.0

package mini

import (
	"strings"
)

// compareVersions orders two versions as their ecosystem does: <0, 0, >0.
func compareVersions(kind, a, b string) int {
	switch kind {
	case typeDeb:
		return compareDebian(a, b)
	case typeApk:
		return compareAlpine(a, b)
	}
	return compareSemantic(a, b)
}

// compareDebian is the order of Debian Policy 5.6.12: epoch, upstream version, revision.
func compareDebian(a, b string) int {
	epochA, restA := splitEpoch(a)
	epochB, restB := splitEpoch(b)
	if c := compareNumbers(epochA, epochB); c != 0 {
		return c
	}
	upstreamA, revisionA := splitLast(restA, "-")
	upstreamB, revisionB := splitLast(restB, "-")
	if c := compareParts(upstreamA, upstreamB); c != 0 {
		return c
	}
	return compareParts(revisionA, revisionB)
}

func splitEpoch(v string) (epoch, rest string) {
	if epoch, rest, has := strings.Cut(v, ":"); has {
		return epoch, rest
	}
	return "0", v
}

func splitLast(v, separator string) (head, tail string) {
	if i := strings.LastIndex(v, separator); i >= 0 {
		return v[:i], v[i+1:]
	}
	return v, ""
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }

// weight orders characters: ~ before the end, letters before all others.
func weight(s string, i int) int {
	switch {
	case i >= len(s), isDigit(s[i]):
		return 0
	case s[i] == '~':
		return -1
	case isLetter(s[i]):
		return int(s[i])
	}
	return int(s[i]) + 256
}

// compareParts compares runs of non-digits and of digits in turn.
func compareParts(a, b string) int {
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		for i < len(a) && !isDigit(a[i]) || j < len(b) && !isDigit(b[j]) {
			if c := weight(a, i) - weight(b, j); c != 0 {
				return c
			}
			i, j = i+1, j+1
		}
		i, j = min(i, len(a)), min(j, len(b))
		fromA, fromB := i, j
		for i < len(a) && isDigit(a[i]) {
			i++
		}
		for j < len(b) && isDigit(b[j]) {
			j++
		}
		if c := compareNumbers(a[fromA:i], b[fromB:j]); c != 0 {
			return c
		}
	}
	return 0
}

// compareNumbers compares digits of any length.
func compareNumbers(a, b string) int {
	a, b = strings.TrimLeft(a, "0"), strings.TrimLeft(b, "0")
	if len(a) != len(b) {
		return len(a) - len(b)
	}
	return strings.Compare(a, b)
}

// suffixes are those of apk, in order; a version without one stands between rc and cvs.
var suffixes = []string{"alpha", "beta", "pre", "rc", "", "cvs", "svn", "git", "hg", "p"}

// compareAlpine is the order of apk: numbers, a letter, suffixes, revision.
func compareAlpine(a, b string) int {
	baseA, revisionA := splitRevision(a)
	baseB, revisionB := splitRevision(b)
	mainA, suffixA, _ := strings.Cut(baseA, "_")
	mainB, suffixB, _ := strings.Cut(baseB, "_")
	if c := compareParts(mainA, mainB); c != 0 {
		return c
	}
	if c := compareSuffixes(suffixA, suffixB); c != 0 {
		return c
	}
	return compareNumbers(revisionA, revisionB)
}

func splitRevision(v string) (base, revision string) {
	if i := strings.LastIndex(v, "-r"); i >= 0 {
		return v[:i], v[i+2:]
	}
	return v, "0"
}

func compareSuffixes(a, b string) int {
	for a != "" || b != "" {
		var oneA, oneB string
		oneA, a, _ = strings.Cut(a, "_")
		oneB, b, _ = strings.Cut(b, "_")
		rankA, numberA := rankOf(oneA)
		rankB, numberB := rankOf(oneB)
		if rankA != rankB {
			return rankA - rankB
		}
		if c := compareNumbers(numberA, numberB); c != 0 {
			return c
		}
	}
	return 0
}

func rankOf(suffix string) (rank int, number string) {
	name := strings.TrimRight(suffix, "0123456789")
	for i, known := range suffixes {
		if known == name {
			return i, suffix[len(name):]
		}
	}
	return len(suffixes), suffix[len(name):]
}

// compareSemantic is the order of Semantic Versioning 2.0.0, for versions of npm and of Go.
func compareSemantic(a, b string) int {
	mainA, preA := splitSemantic(a)
	mainB, preB := splitSemantic(b)
	partsA, partsB := strings.Split(mainA, "."), strings.Split(mainB, ".")
	for i := range max(len(partsA), len(partsB)) {
		if c := compareNumbers(partOf(partsA, i), partOf(partsB, i)); c != 0 {
			return c
		}
	}
	switch {
	case preA == preB:
		return 0
	case preA == "":
		return 1
	case preB == "":
		return -1
	}
	return comparePrerelease(strings.Split(preA, "."), strings.Split(preB, "."))
}

func splitSemantic(v string) (main, pre string) {
	v, _, _ = strings.Cut(strings.TrimPrefix(v, "v"), "+")
	main, pre, _ = strings.Cut(v, "-")
	if pre == "" {
		// Go's own versions write go1.21rc2.
		if i := strings.Index(main, "rc"); i > 0 {
			main, pre = main[:i], main[i:]
		}
	}
	return main, pre
}

func partOf(parts []string, i int) string {
	if i < len(parts) {
		return parts[i]
	}
	return "0"
}

func comparePrerelease(a, b []string) int {
	for i := range min(len(a), len(b)) {
		numericA, numericB := isNumber(a[i]), isNumber(b[i])
		c := strings.Compare(a[i], b[i])
		switch {
		case numericA && numericB:
			c = compareNumbers(a[i], b[i])
		case numericA:
			c = -1
		case numericB:
			c = 1
		}
		if c != 0 {
			return c
		}
	}
	return len(a) - len(b)
}

func isNumber(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }
