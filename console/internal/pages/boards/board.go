// SPDX-License-Identifier: Apache-2.0

package boards

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/scanyard/scanyard/console/internal/session"
)

// Label makes a ConfigMap a board.
const Label = "scanyard.io/board"

// The values of the label.
const (
	ofTeam    = "team"
	ofCluster = "cluster"
)

// The keys of a board's ConfigMap.
const (
	keyTitle   = "title"
	keyAbout   = "description"
	keyFilters = "filters"
)

const (
	maxFilters = 12
	maxAddress = 2000
	maxName    = 60
	maxTitle   = 80
)

// board is a board of either kind.
type board struct {
	Title, About, Namespace, Name, Link string
	Own, Cluster                        bool
	Filters                             []session.Filter
	// Problems are lines that are not filters.
	Problems []string
}

// listed are the pages that a filter can be of.
var listed = []string{"/findings", "/scans", "/schedules", "/images", "/policyreports", "/exceptions", "/teams", "/search"}

// addressOf reads the address of a filter.
func addressOf(text string) (*url.URL, error) {
	address, err := url.Parse(text)
	if err != nil || len(text) > maxAddress || address.Host != "" || address.Scheme != "" || !slices.Contains(listed, address.Path) {
		return nil, fmt.Errorf("an address must be that of a list of the console: one of %s, with its filter", strings.Join(listed, ", "))
	}
	values := address.Query()
	values.Del("after")
	address.RawQuery, address.Fragment = values.Encode(), ""
	return address, nil
}

// boardOf reads the board of a ConfigMap.
func boardOf(c *corev1.ConfigMap) board {
	b := board{
		Title: c.Data[keyTitle], About: c.Data[keyAbout], Namespace: c.Namespace, Name: c.Name, Cluster: c.Labels[Label] == ofCluster,
		Link: "/boards/" + url.PathEscape(c.Namespace) + "/" + url.PathEscape(c.Name),
	}
	if b.Title == "" {
		b.Title = c.Name
	}
	for line := range strings.Lines(c.Data[keyFilters]) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		title, address, _ := strings.Cut(line, "|")
		parsed, err := addressOf(strings.TrimSpace(address))
		switch {
		case err != nil:
			b.Problems = append(b.Problems, fmt.Sprintf("%q: %v.", line, err))
		case len(b.Filters) == maxFilters:
			b.Problems = append(b.Problems, fmt.Sprintf("%q: a board has at most %d filters.", line, maxFilters))
		default:
			b.Filters = append(b.Filters, session.Filter{Title: strings.TrimSpace(title), Address: parsed.String()})
		}
	}
	return b
}

func ownBoard(b *session.Board) board {
	return board{Title: b.Name, Name: b.Name, Link: "/myboards/" + url.PathEscape(b.Name), Own: true, Filters: b.Filters}
}

// configMap is the board as an object, for a namespace.
func (b *board) configMap(namespace, reach string) *corev1.ConfigMap {
	var lines strings.Builder
	for _, f := range b.Filters {
		lines.WriteString(strings.ReplaceAll(f.Title, "|", "/") + " | " + f.Address + "\n")
	}
	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: slug(b.Title), Labels: map[string]string{Label: reach}},
		Data:       map[string]string{keyTitle: b.Title, keyFilters: lines.String()},
	}
}

// slug is a name for an object that is called by a text.
func slug(text string) string {
	words := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') })
	if len(words) == 0 {
		return "board"
	}
	name := strings.Join(words, "-")
	return strings.Trim(name[:min(len(name), maxName)], "-")
}
