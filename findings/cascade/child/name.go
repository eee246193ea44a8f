// SPDX-License-Identifier: Apache-2.0

package child

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/scanyard/scanyard/apis/finding"
)

const (
	// maxName is how long names that the API server generates are at most.
	maxName = 63
	// hashDigits distinguish children of one prefix: 48 bits.
	hashDigits = 12
)

// Names gives children their names. It must get the children of a rule in the order of the findings, since the order
// distinguishes findings with equal ids. It is for one goroutine.
type Names struct {
	parent *Parent
	rule   string
	seen   map[[16]byte]int
}

// NewNames returns the Names of a parent's children.
func NewNames(p *Parent) *Names { return &Names{parent: p} }

// Set names a child, from the parent, the rule and the finding, whose bytes are raw. Where equal children of a chain are one, the
// name depends on the first Scan of the chain and on the child alone.
func (n *Names) Set(scan *finding.Object, rule *Rule, f finding.Object, raw []byte) (string, error) {
	var sum [sha256.Size]byte
	if n.parent.flags.deduplicate {
		digest, err := contentOf(*scan)
		if err != nil {
			return "", err
		}
		sum = hash(n.parent.Root(), digest)
	} else {
		sum = n.identity(rule, f, raw)
	}
	metadata := objectAt(*scan, "metadata")
	prefix, _ := metadata.Text("generateName").Get()
	name := prefix[:min(len(prefix), maxName-hashDigits)] + hex.EncodeToString(sum[:hashDigits/2])
	scan.Set("metadata", append(finding.Object{{Key: "name", Value: name}}, metadata...))
	return name, nil
}

func (n *Names) identity(rule *Rule, f finding.Object, raw []byte) [sha256.Size]byte {
	if n.rule != rule.name || n.seen == nil {
		n.rule, n.seen = rule.name, map[[16]byte]int{}
	}
	id, _ := f.Text("id").Get()
	if id == "" {
		content := sha256.Sum256(raw)
		id = "sha256:" + hex.EncodeToString(content[:])
	}
	sum := hash(n.parent.uid, rule.name, id)
	key := [16]byte(sum[:16])
	again := n.seen[key]
	n.seen[key]++
	if again > 0 {
		sum = hash(n.parent.uid, rule.name, id, strconv.Itoa(again))
	}
	return sum
}

// hash keeps parts apart by their lengths.
func hash(parts ...string) [sha256.Size]byte {
	var b strings.Builder
	for _, p := range parts {
		fmt.Fprintf(&b, "%d:%s", len(p), p)
	}
	return sha256.Sum256([]byte(b.String()))
}

// contentOf is what makes two children equal: what they scan and with what labels and annotations, whatever finding,
// parent and chain they come from.
func contentOf(scan finding.Object) (string, error) {
	metadata := objectAt(scan, "metadata")
	annotations := append(finding.Object{}, objectAt(metadata, "annotations")...)
	for _, own := range []string{annotationParent, annotationFinding, annotationChain} {
		annotations.Delete(own)
	}
	content, err := finding.AppendValue(nil, []any{
		sorted(objectAt(metadata, "labels")), sorted(annotations), objectAt(scan, "spec"),
	})
	if err != nil {
		return "", fmt.Errorf("encode child: %w", err)
	}
	return string(content), nil
}

// sorted makes the order of keys, which says nothing, the same.
func sorted(o finding.Object) map[string]any {
	m := make(map[string]any, len(o))
	for _, member := range o {
		m[member.Key] = member.Value
	}
	return m
}
