// SPDX-License-Identifier: Apache-2.0

package persistencedefectdojo

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/scanyard/scanyard/apis/finding"
)

// writePretty writes JSON for people: members of objects on lines of their own with a space on both sides of the colon,
// lists on one line. Descriptions in users' DefectDojo look like that already, and a description that looked different
// would be a different finding to it.
func writePretty(out *strings.Builder, value json.RawMessage) error {
	decoder := json.NewDecoder(bytes.NewReader(value))
	decoder.UseNumber() // numbers stay as they are written
	p := &pretty{out: out, decoder: decoder}
	return p.value(0)
}

type pretty struct {
	out     *strings.Builder
	decoder *json.Decoder
}

func (p *pretty) value(depth int) error {
	token, err := p.decoder.Token()
	if err != nil {
		return fmt.Errorf("read JSON: %w", err)
	}
	switch t := token.(type) {
	case json.Delim:
		if t == '{' {
			return p.object(depth)
		}
		return p.list(depth)
	case string:
		p.out.Write(finding.AppendString(nil, t))
	case nil:
		p.out.WriteString("null")
	default:
		fmt.Fprint(p.out, t)
	}
	return nil
}

func (p *pretty) object(depth int) error {
	p.out.WriteByte('{')
	n := 0
	for ; p.decoder.More(); n++ {
		if n > 0 {
			p.out.WriteByte(',')
		}
		p.line(depth + 1)
		key, err := p.decoder.Token()
		if err != nil {
			return fmt.Errorf("read JSON: %w", err)
		}
		p.out.Write(finding.AppendString(nil, fmt.Sprint(key)))
		p.out.WriteString(" : ")
		if err := p.value(depth + 1); err != nil {
			return err
		}
	}
	if n == 0 {
		p.out.WriteByte(' ')
	} else {
		p.line(depth)
	}
	p.out.WriteByte('}')
	return p.end()
}

func (p *pretty) list(depth int) error {
	p.out.WriteString("[ ")
	n := 0
	for ; p.decoder.More(); n++ {
		if n > 0 {
			p.out.WriteString(", ")
		}
		if err := p.value(depth); err != nil {
			return err
		}
	}
	if n > 0 {
		p.out.WriteByte(' ')
	}
	p.out.WriteByte(']')
	return p.end()
}

// end reads the closing bracket.
func (p *pretty) end() error {
	if _, err := p.decoder.Token(); err != nil {
		return fmt.Errorf("read JSON: %w", err)
	}
	return nil
}

func (p *pretty) line(depth int) {
	p.out.WriteByte('\n')
	p.out.WriteString(strings.Repeat("  ", depth))
}
