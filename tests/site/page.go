// SPDX-License-Identifier: Apache-2.0

package site

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// Page is what matters here of a page.
type Page struct {
	// Title is the text of the first heading.
	Title string
	// IDs are the anchors that links may name.
	IDs map[string]bool
	// Links are all addresses that the page links to or loads.
	Links    []string
	Sections []Section
}

// Section is a heading with the text below it, up to the next heading. The part before the first heading with an anchor has none.
type Section struct{ ID, Heading, Text string }

// Parse reads a page.
func Parse(content []byte) (*Page, error) {
	top, err := html.Parse(bytes.NewReader(content))
	if err != nil {
		return nil, fmt.Errorf("parse HTML: %w", err)
	}
	p := &Page{IDs: map[string]bool{}}
	for n := range top.Descendants() {
		for _, a := range n.Attr {
			switch a.Key {
			case "id", "name":
				p.IDs[a.Val] = true
			case "href", "src":
				p.Links = append(p.Links, a.Val)
			}
		}
	}
	for n := range top.Descendants() {
		if n.DataAtom == atom.Article {
			p.read(n)
		}
	}
	return p, nil
}

// read collects the sections of an article.
func (p *Page) read(article *html.Node) {
	s := Section{}
	var text strings.Builder
	end := func() {
		s.Text = strings.Join(strings.Fields(text.String()), " ")
		if s.Text != "" || s.Heading != "" {
			p.Sections = append(p.Sections, s)
		}
		text.Reset()
	}
	var walk func(*html.Node)
	walk = func(n *html.Node) {
		switch {
		case isHeading(n):
			end()
			s = Section{ID: attribute(n, "id"), Heading: textOf(n)}
			if p.Title == "" {
				p.Title = s.Heading
			}
			return
		case n.Type == html.TextNode:
			text.WriteString(n.Data)
		case isBlock(n):
			text.WriteString(" ")
		}
		for c := range n.ChildNodes() {
			walk(c)
		}
	}
	walk(article)
	end()
}

func isHeading(n *html.Node) bool {
	return slices.Contains([]atom.Atom{atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6}, n.DataAtom)
}

func isBlock(n *html.Node) bool {
	return slices.Contains([]atom.Atom{atom.P, atom.Li, atom.Td, atom.Th, atom.Tr, atom.Pre, atom.Br, atom.Div, atom.Dt, atom.Dd}, n.DataAtom)
}

// textOf is the text of a heading without the mark that links to it.
func textOf(n *html.Node) string {
	var b strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode && attribute(d.Parent, "class") != "anchor" {
			b.WriteString(d.Data)
		}
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

func attribute(n *html.Node, key string) string {
	for _, a := range n.Attr {
		if a.Key == key {
			return a.Val
		}
	}
	return ""
}
