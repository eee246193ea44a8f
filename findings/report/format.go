// SPDX-License-Identifier: Apache-2.0

package report

import (
	"context"
	"fmt"
	"io"
	"slices"
)

// Format is a kind of report.
type Format struct {
	// Name is what users ask for it by.
	Name string
	// Object is what it is called in the store.
	Object string
	// ContentType is its media type.
	ContentType string

	write func(ctx context.Context, r *Report, w io.Writer) error
}

// Formats are all there are.
func Formats() []Format {
	return []Format{
		{"html", "report.html", "text/html; charset=utf-8", writePage},
		{"sarif", "report.sarif", "application/sarif+json", writeSARIF},
		{"junit", "report.junit.xml", "application/xml", writeJUnit},
		{"csv", "report.csv", "text/csv; charset=utf-8; header=present", writeCSV},
		{"markdown", "report.md", "text/markdown; charset=utf-8", writeMarkdown},
	}
}

// FormatNamed finds a format by its name.
func FormatNamed(name string) (Format, bool) {
	all := Formats()
	i := slices.IndexFunc(all, func(f Format) bool { return f.Name == name })
	if i < 0 {
		return Format{}, false
	}
	return all[i], true
}

// FormatNames are the names of all formats.
func FormatNames() []string {
	var names []string
	for _, f := range Formats() {
		names = append(names, f.Name)
	}
	return names
}

// Write writes the report in a format. It reads the findings once more, but for Markdown.
func (r *Report) Write(ctx context.Context, w io.Writer, f Format) error {
	if f.write == nil {
		return fmt.Errorf("there is no format %q", f.Name)
	}
	return f.write(ctx, r, w)
}
