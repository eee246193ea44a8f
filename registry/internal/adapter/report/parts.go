// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/scanyard/scanyard/registry/internal/adapter/protocol"
)

// MaxTitle and MaxReference are the most bytes of what else is text of a database.
const (
	MaxTitle     = 1 << 10
	MaxReference = 1 << 10
)

// Cut shortens a text to some bytes, between two characters.
func Cut(text string, most int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}

// Date tells a date as the protocol does; "" is not known.
func Date(t *time.Time) string {
	if t == nil || t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// References leaves out what is too long, and what is too many.
func References(links []string) []string {
	var list []string
	for _, link := range links {
		if link != "" && len(link) <= MaxReference && len(list) < protocol.MaxReferences && !slices.Contains(list, link) {
			list = append(list, link)
		}
	}
	return list
}

// Scores puts what sources say in order, and gives the highest score of the newest version of CVSS that has one.
func Scores(list []protocol.CVSS) (score float64) {
	slices.SortFunc(list, func(a, b protocol.CVSS) int {
		return cmp.Or(cmp.Compare(a.Source, b.Source), cmp.Compare(a.Version, b.Version), cmp.Compare(a.Vector, b.Vector))
	})
	newest := ""
	for _, c := range list {
		switch major, _, _ := strings.Cut(c.Version, "."); {
		case c.Score == 0 || major < newest:
		case major > newest:
			newest, score = major, c.Score
		default:
			score = max(score, c.Score)
		}
	}
	return score
}

// Keys are those of packages, by package URL.
type Keys map[string]map[string]bool

// Add gives a package keys. A package without a URL has none.
func (k Keys) Add(purl string, keys ...string) {
	if purl == "" {
		return
	}
	if k[purl] == nil {
		k[purl] = map[string]bool{}
	}
	for _, key := range keys {
		k[purl][key] = true
	}
}

// List is the file of keys, in order.
func (k Keys) List() []protocol.PackageKeys {
	list := make([]protocol.PackageKeys, 0, len(k))
	for _, purl := range slices.Sorted(maps.Keys(k)) {
		list = append(list, protocol.PackageKeys{PURL: purl, Keys: slices.Sorted(maps.Keys(k[purl]))})
	}
	return list
}

// Note takes over what a part of an image lacks, and what is to be warned of.
func Note(result *protocol.SBOMResult, missing, warnings []string) {
	for _, what := range missing {
		result.Completeness = protocol.Partial
		if !slices.Contains(result.Missing, what) {
			result.Missing = append(result.Missing, what)
		}
	}
	for _, text := range warnings {
		if len(result.Warnings) < protocol.MaxWarningsKept && !slices.Contains(result.Warnings, text) {
			result.Warnings = append(result.Warnings, text)
		}
	}
}

// Canonical writes a JSON document with keys in order and without blanks.
func Canonical(text []byte) ([]byte, error) {
	var value any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&value); err != nil {
		return nil, fmt.Errorf("order document: %w", err)
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, fmt.Errorf("order document: %w", err)
	}
	return out.Bytes(), nil
}

// Namespace is the documentNamespace of an SPDX document.
func Namespace(digest string, engine protocol.Engine) string {
	return "https://scanyard.io/spdx/" + digest + "/" + engine.Name + "-" + engine.Version
}
