// SPDX-License-Identifier: Apache-2.0

package zap

import (
	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/parsers/sdk/ecma"
	"github.com/scanyard/scanyard/parsers/sdk/xmlsax"
)

// element is an element that is read as a value. It is used again for the next one.
type element struct {
	name     string
	text     []byte
	attrs    finding.Object
	children names
	values   [][]any // of children, by index
}

func (e *element) reset(name string, xml *xmlsax.Reader) {
	e.name = name
	e.text = e.text[:0]
	if !e.isText() {
		e.values = e.values[:0]
		e.children.reset()
	}
	e.attrs = attributes(xml)
}

// isText reports that the element is its text.
func (e *element) isText() bool { return e.attrs == nil && len(e.values) == 0 }

func (e *element) add(child string, v any) {
	i, isNew := e.children.find(child)
	if isNew {
		e.values = append(e.values, nil)
	}
	e.values[i] = append(e.values[i], v)
}

// value copies what it returns: a string or a finding.Object.
func (e *element) value() any {
	if e.isText() {
		return string(e.text)
	}
	return e.object()
}

func (e *element) object() finding.Object {
	o := start(e.text, e.attrs)
	for i, name := range e.children.list {
		o = append(o, finding.Member{Key: name, Value: e.values[i]})
	}
	return o
}

// start is what an element's object begins with: its text, unless that is only white space, and its attributes.
func start(text []byte, attrs finding.Object) finding.Object {
	o := finding.Object{}
	if !isBlank(text) {
		o = append(o, finding.Member{Key: "_", Value: string(text)})
	}
	if attrs != nil {
		o = append(o, finding.Member{Key: "$", Value: attrs})
	}
	return o
}

// attributes copies those of the current tag, nil if it has none. Of a repeated one the first counts.
func attributes(xml *xmlsax.Reader) finding.Object {
	if xml.AttrCount() == 0 {
		return nil
	}
	o := make(finding.Object, 0, xml.AttrCount())
	for i := range xml.AttrCount() {
		name, value := xml.AttrAt(i)
		if _, ok := o.Get(string(name)); !ok {
			o = append(o, finding.Member{Key: string(name), Value: string(value)})
		}
	}
	return o
}

func isBlank(text []byte) bool {
	for _, c := range text {
		if c != ' ' && c != '\n' && c != '\r' && c != '\t' {
			return ecma.TrimLeft(string(text)) == ""
		}
	}
	return true
}

// indexFrom is how many names are searched one by one.
const indexFrom = 32

// names is a list of different names that can be searched, however many they are.
type names struct {
	list  []string
	index map[string]int // of list, once it is long
}

func (n *names) reset() {
	n.list = n.list[:0]
	n.index = nil
}

// find returns the index of a name, which is added if it is new.
func (n *names) find(name string) (index int, isNew bool) {
	if i, ok := n.lookUp(name); ok {
		return i, false
	}
	n.list = append(n.list, name)
	switch last := len(n.list) - 1; {
	case n.index != nil:
		n.index[name] = last
	case last == indexFrom:
		n.index = make(map[string]int, 2*indexFrom)
		for i, known := range n.list {
			n.index[known] = i
		}
	}
	return len(n.list) - 1, true
}

func (n *names) lookUp(name string) (int, bool) {
	if n.index != nil {
		i, ok := n.index[name]
		return i, ok
	}
	for i, known := range n.list {
		if known == name {
			return i, true
		}
	}
	return 0, false
}
