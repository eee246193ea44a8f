// SPDX-License-Identifier: Apache-2.0

package tally

import "strings"

// Ecosystem is the type of a package URL, "npm" of "pkg:npm/left-pad@1.0.0", and "(unknown)" where there is none.
func Ecosystem(purl string) string {
	rest, ok := strings.CutPrefix(purl, "pkg:")
	rest = strings.TrimLeft(rest, "/") // the specification has pkg://type taken for pkg:type
	typ, _, slash := strings.Cut(rest, "/")
	if !ok || !slash || typ == "" {
		return "(unknown)"
	}
	return strings.ToLower(typ)
}
