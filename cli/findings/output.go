// SPDX-License-Identifier: Apache-2.0

package findings

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/scanyard/scanyard/cli/results"
	"github.com/scanyard/scanyard/cli/session"
	"github.com/scanyard/scanyard/cli/termsafe"
	"github.com/scanyard/scanyard/findings/report"
	"github.com/scanyard/scanyard/findings/yamltext"
)

// Formats that are not reports.
const (
	formatTable    = "table"
	formatWide     = "wide"
	formatJSON     = "json"
	formatYAML     = "yaml"
	formatLines    = "jsonl"
	formatMarkdown = "markdown"
	formatCSV      = "csv"
)

// aliases are other names that people type.
var aliases = map[string]string{"md": formatMarkdown, "ndjson": formatLines, "xml": "junit"}

// output is how and where to results are printed.
type output struct {
	format string
	file   string
	limit  int
	known  []string
}

func (o *output) bindFlags(cmd *cobra.Command, known ...string) {
	o.known = known
	flags := cmd.Flags()
	flags.StringVarP(&o.format, "output", "o", formatTable, "`format`: "+strings.Join(known, ", "))
	flags.StringVarP(&o.file, "output-file", "O", "", "write to this `file` instead of stdout, whole or not at all")
	flags.IntVar(&o.limit, "limit", defaultLimit, "how many `rows` a table has, the worst findings; 0 for all")
	// The only error is a flag that does not exist.
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(known, cobra.ShellCompDirectiveNoFileComp))
}

// defaultLimit is about as much as a person reads.
const defaultLimit = 100

// check resolves the format.
func (o *output) check(cmd *cobra.Command) error {
	o.format = strings.ToLower(o.format)
	if alias, ok := aliases[o.format]; ok && slices.Contains(o.known, alias) {
		o.format = alias
	}
	if !slices.Contains(o.known, o.format) {
		message := fmt.Sprintf("-o %q: there are the formats %s", o.format, strings.Join(o.known, ", "))
		if near := session.Near(o.format, o.known); len(near) > 0 {
			message += "; did you mean " + near[0] + "?"
		}
		return errors.New(message)
	}
	if o.limit < 0 {
		return fmt.Errorf("--limit is %d, want 0 for all or more", o.limit)
	}
	if cmd.Flags().Changed("limit") && !o.isTable() {
		return fmt.Errorf("--limit is for tables; -o %s has all findings", o.format)
	}
	return nil
}

func (o *output) isTable() bool { return o.format == formatTable || o.format == formatWide }

// isOnce reports whether a format reads its findings only once.
func (o *output) isOnce() bool {
	switch o.format {
	case formatTable, formatWide:
		return o.limit > 0
	case formatJSON, formatYAML, formatLines, formatCSV:
		return true
	}
	return false
}

// write calls a function with where the output goes.
func (o *output) write(s *session.Session, do func(out io.Writer) error) error {
	switch {
	case o.file != "" && o.file != "-":
		return results.WriteFile(o.file, func(file io.Writer) error { return o.guard(file, do) })
	case o.isTable():
		return o.guard(s.Out, do)
	}
	return o.guard(s.Data(o.mode()), do)
}

// mode is how control characters are written in a format.
func (o *output) mode() termsafe.Mode {
	switch o.format {
	case formatJSON, formatLines, "sarif":
		return termsafe.Escape
	}
	return termsafe.Replace
}

// guard keeps control characters also out of pipes and files of formats whose readers show them.
func (o *output) guard(to io.Writer, do func(io.Writer) error) error {
	buffered := bufio.NewWriterSize(to, 64<<10)
	var (
		out   io.Writer = buffered
		flush           = func() error { return nil }
	)
	if o.format == formatCSV || o.format == formatMarkdown {
		guard := termsafe.NewWriter(buffered, termsafe.Replace)
		out, flush = guard, guard.Flush
	}
	err := do(out)
	if err == nil {
		err = flush()
	}
	if flushErr := buffered.Flush(); err == nil && flushErr != nil {
		err = fmt.Errorf("print: %w", flushErr)
	}
	return err
}

// lister writes findings one after the other, as a list of a format.
type lister struct {
	out    io.Writer
	format string
	count  int
}

// add writes a finding. A compared finding gets a member "comparison", an excepted one a member "exception", and one of
// several Scans a member "scan".
func (l *lister) add(e *report.Entry) error {
	element := bytes.TrimSpace(e.Element)
	if e.State != "" {
		element = withMember(element, "comparison", strconv.AppendQuote(nil, string(e.State)))
	}
	if e.Scan != nil {
		member, err := scanMember(e.Scan)
		if err != nil {
			return fmt.Errorf("finding %d: %w", l.count+1, err)
		}
		element = withMember(element, "scan", member)
	}
	if e.Exception != nil {
		mark, err := json.Marshal(e.Exception)
		if err != nil {
			return fmt.Errorf("finding %d: %w", l.count+1, err)
		}
		element = withMember(element, "exception", mark)
	}
	separator := ",\n"
	if l.count == 0 {
		separator = "[\n"
	}
	l.count++
	switch l.format {
	case formatLines:
		var line bytes.Buffer
		if err := json.Compact(&line, element); err != nil {
			return fmt.Errorf("finding %d: %w", l.count, err)
		}
		line.WriteByte('\n')
		return l.write(line.Bytes())
	case formatYAML:
		item, err := yamltext.Item(element)
		if err != nil {
			return fmt.Errorf("finding %d: %w", l.count, err)
		}
		return l.write(item)
	}
	return l.write([]byte(separator), element)
}

// end closes the list.
func (l *lister) end() error {
	switch {
	case l.format == formatLines:
		return nil
	case l.format == formatYAML && l.count > 0:
		return nil
	case l.count == 0:
		return l.write([]byte("[]\n"))
	}
	return l.write([]byte("\n]\n"))
}

func (l *lister) write(parts ...[]byte) error {
	for _, p := range parts {
		if _, err := l.out.Write(p); err != nil {
			return fmt.Errorf("print: %w", err)
		}
	}
	return nil
}

// withMember adds a member to an object.
func withMember(object []byte, key string, value []byte) []byte {
	inner := bytes.TrimRight(bytes.TrimSuffix(object, []byte("}")), " \t\r\n")
	out := make([]byte, 0, len(object)+32)
	out = append(out, inner...)
	if !bytes.HasSuffix(inner, []byte("{")) {
		out = append(out, ',')
	}
	return fmt.Appendf(out, `%q:%s}`, key, value)
}

// printList prints all findings of a source as a list.
func printList(ctx context.Context, out io.Writer, format string, source each) error {
	l := &lister{out: out, format: format}
	if err := source(ctx, l.add); err != nil {
		return err
	}
	return l.end()
}
