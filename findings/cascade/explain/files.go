// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"github.com/scanyard/scanyard/apis/finding"
)

// Files are names of files, YAML or JSON, that a question is made of.
type Files struct {
	// Scan is the file of the Scan that has the findings.
	Scan string
	// Findings is that of its findings.json.
	Findings string
	// Rules has CascadingRules or ClusterCascadingRules, as several documents or as lists.
	Rules string
	// ParseDefinition may be empty.
	ParseDefinition string
}

// Question reads the files, but for the findings, which are opened when they are needed.
func (f Files) Question() (Question, error) {
	q, err := f.Given()
	if err == nil {
		q.Scan, err = readOne(f.Scan)
	}
	return q, err
}

// Given reads the files that have a name, except the Scan's. Files without a name are nil in the question.
func (f Files) Given() (q Question, err error) {
	if f.Findings != "" {
		q.Findings = func() (io.ReadCloser, error) { return os.Open(f.Findings) }
	}
	if f.Rules != "" {
		if q.Rules, err = readObjects(f.Rules); err != nil {
			return q, err
		}
		if q.Rules == nil {
			q.Rules = []finding.Object{} // a file may have no rules
		}
	}
	if f.ParseDefinition != "" {
		q.ParseDefinition, err = readOne(f.ParseDefinition)
	}
	return q, err
}

func readOne(path string) (finding.Object, error) {
	objects, err := readObjects(path)
	if err == nil && len(objects) != 1 {
		err = fmt.Errorf("%s holds %d objects, want one", path, len(objects))
	}
	if err != nil {
		return nil, err
	}
	return objects[0], nil
}

// readObjects reads YAML documents, or JSON; lists count as what they hold.
func readObjects(path string) ([]finding.Object, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var all []finding.Object
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		asJSON, err := utilyaml.ToJSON(document)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		value, err := finding.DecodeValue(asJSON, 0)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if value == nil {
			continue // an empty document
		}
		object, ok := value.(finding.Object)
		if !ok {
			return nil, fmt.Errorf("%s: a document is not an object", path)
		}
		all = append(all, flatten(object)...)
	}
}

func flatten(object finding.Object) []finding.Object {
	items, _ := object.Get("items")
	list, ok := items.([]any)
	if !ok {
		return []finding.Object{object}
	}
	var all []finding.Object
	for _, item := range list {
		if o, ok := item.(finding.Object); ok {
			all = append(all, o)
		}
	}
	return all
}
