// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"fmt"
	"strings"
	"text/template"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/operator/internal/names"
)

// DefaultURLTemplate is the template of keys unless S3_URL_TEMPLATE sets another one.
const DefaultURLTemplate = "scan-{{ .Scan.UID }}/{{ .Filename }}"

// Layout decides the key of every object.
type Layout struct{ key *template.Template }

// Owner is the part of a Scan that a URL template can use: only fields that never change and that no
// two Scans share. Labels, annotations and the spec are left out on purpose: a team can change them
// while its Scan runs, which would orphan objects, and could choose them so that two Scans share a
// key.
type Owner struct {
	UID               types.UID
	Name              string
	Namespace         string
	CreationTimestamp metav1.Time

	// place is where the Scan's results are stored, as the Scan has it; templates cannot read it.
	place string
}

// OwnerOf returns the fields of an object that a URL template can use.
func OwnerOf(o metav1.Object) Owner {
	return Owner{
		UID: o.GetUID(), Name: o.GetName(), Namespace: o.GetNamespace(), CreationTimestamp: o.GetCreationTimestamp(),
		place: o.GetAnnotations()[executionv1.AnnotationStoragePlace],
	}
}

// NewLayout parses a URL template: a Go template of the object key with .Scan (an Owner) and .Filename.
// It refuses templates with which two Scans, or two files of a Scan, could share a key.
func NewLayout(text string) (*Layout, error) {
	t, err := template.New("S3_URL_TEMPLATE").Option("missingkey=error").Parse(text)
	if err != nil {
		return nil, err
	}
	l := &Layout{key: t}
	at := metav1.NewTime(time.Unix(1700000000, 0))
	one := Owner{UID: "11111111-1111-1111-1111-111111111111", Name: "scan", Namespace: "team", CreationTimestamp: at}
	two := one
	two.UID = "22222222-2222-2222-2222-222222222222"
	first, err := l.render(one, "raw.json")
	if err != nil {
		return nil, fmt.Errorf(
			"%w; known are .Filename and of .Scan UID, Name, Namespace and CreationTimestamp: what can change while a Scan runs must not decide where its results lie",
			err,
		)
	}
	second, err := l.render(two, "raw.json")
	if err != nil {
		return nil, err
	}
	findings, err := l.render(one, "findings.json")
	if err != nil {
		return nil, err
	}
	switch {
	case !strings.Contains(first, string(one.UID)) || first == second:
		return nil, errors.New("must contain {{ .Scan.UID }}: without it a Scan made again under an old name would read and overwrite the results of the one before")
	case first == findings:
		return nil, errors.New("must contain {{ .Filename }}: the raw result and the findings need different keys")
	case strings.HasPrefix(first, "/"):
		return nil, errors.New("must not start with a slash")
	}
	return l, nil
}

// Key returns the key of one file of a Scan. It refuses an invalid file name, whoever the caller is.
func (l *Layout) Key(o Owner, filename string) (string, error) {
	if err := names.CheckFile(filename); err != nil {
		return "", err
	}
	key, err := l.render(o, filename)
	if err != nil {
		return "", fmt.Errorf("render S3_URL_TEMPLATE: %w", err)
	}
	return key, nil
}

// Prefix returns a prefix that all keys of a Scan, and no other keys, begin with. It returns false if
// the template has no such prefix.
func (l *Layout) Prefix(o Owner) (string, bool) {
	const mark = "\x00"
	key, err := l.render(o, mark)
	if err != nil {
		return "", false
	}
	prefix, rest, found := strings.Cut(key, mark)
	if !found || strings.Contains(rest, mark) || !strings.HasSuffix(prefix, "/") || !strings.Contains(prefix, string(o.UID)) {
		return "", false
	}
	return prefix, true
}

func (l *Layout) render(o Owner, filename string) (string, error) {
	var b strings.Builder
	err := l.key.Execute(&b, struct {
		Scan     Owner
		Filename string
	}{o, filename})
	return b.String(), err
}
