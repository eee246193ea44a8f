// SPDX-License-Identifier: Apache-2.0

package output

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/scanyard/scanyard/cli/session"
	"github.com/scanyard/scanyard/cli/termsafe"
)

// Formats of -o beside those of kubectl's printers.
const (
	formatTable = "table"
	formatWide  = "wide"
	formatName  = "name"
)

// Flags are -o and the flags that belong to it.
type Flags struct {
	print  *genericclioptions.PrintFlags
	format string
	tables bool
}

// New makes the flags of a command that prints objects; done is what the command has done to them
// ("created"), printed without a format. tables says that the command can print tables.
func New(s *session.Session, done string, tables bool) *Flags {
	f := &Flags{tables: tables}
	f.print = genericclioptions.NewPrintFlags(done).WithTypeSetter(s.Scheme())
	f.print.OutputFormat = &f.format
	return f
}

func (f *Flags) formats() []string {
	formats := []string{"json", "yaml", formatName, "jsonpath=EXPRESSION", "go-template=TEMPLATE"}
	if f.tables {
		formats = append([]string{formatTable, formatWide}, formats...)
	}
	return formats
}

// Bind adds the flags to a command.
func (f *Flags) Bind(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&f.format, "output", "o", "", "print as "+strings.Join(f.formats(), ", ")+"; also jsonpath-file=FILE and go-template-file=FILE")
	f.complete(cmd)
}

func (f *Flags) complete(cmd *cobra.Command) {
	var plain []string
	for _, format := range f.formats() {
		name, _, takes := strings.Cut(format, "=")
		if takes {
			name += "="
		}
		plain = append(plain, name)
	}
	// It fails only for a flag that does not exist.
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(plain, cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveNoSpace))
}

// Set reports whether the user has chosen a format.
func (f *Flags) Set() bool { return f.format != "" }

// Table reports whether a table is to be printed, and whether a wide one.
func (f *Flags) Table() (table, wide bool) {
	return f.tables && slices.Contains([]string{"", formatTable, formatWide}, f.format), f.format == formatWide
}

// Check returns an error for an unknown format; it is called before anything is changed.
func (f *Flags) Check() error {
	if table, _ := f.Table(); table {
		return nil
	}
	if _, err := f.print.ToPrinter(); err != nil {
		return fmt.Errorf("-o %s: %w", f.format, err)
	}
	return nil
}

// Print prints an object in the chosen format.
func (f *Flags) Print(s *session.Session, o runtime.Object) error {
	p, err := f.print.ToPrinter()
	if err != nil {
		return fmt.Errorf("-o %s: %w", f.format, err)
	}
	mode := termsafe.Replace
	if f.format == "json" {
		mode = termsafe.Escape
	}
	if f.format == formatName && meta.IsListType(o) { // a list has no name, its items have
		return meta.EachListItem(o, func(item runtime.Object) error { return p.PrintObj(item, s.Data(mode)) })
	}
	return p.PrintObj(o, s.Data(mode))
}
