// SPDX-License-Identifier: Apache-2.0

package output

import (
	"bytes"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/scanyard/scanyard/cli/termsafe"
)

func TestAligned(t *testing.T) {
	const text = "SETTING\tVALUE\tFROM\nlimits.maxRunning\t3\tcluster\nallowed\t{\"volumeTypes\":[\"emptyDir\",\"configMap\"]}\tnamespace\n"
	for name, tc := range map[string]struct {
		columns int
		want    []string
	}{
		"File": {0, []string{
			"SETTING             VALUE                                      FROM",
			"limits.maxRunning   3                                          cluster",
			`allowed             {"volumeTypes":["emptyDir","configMap"]}   namespace`,
		}},
		"Terminal": {50, []string{
			"SETTING             VALUE                FROM",
			"limits.maxRunning   3                    cluster",
			`allowed             {"volumeTypes":["…   namespace`,
		}},
		"TooNarrow": {10, []string{
			"SETTING             VALUE      FROM",
			"limits.maxRunning   3          cluster",
			`allowed             {"volum…   namespa…`,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			a := NewAligned(&out, 3, tc.columns)
			if _, err := a.Write([]byte(text)); err != nil {
				t.Fatal(err)
			}
			if err := a.Flush(); err != nil {
				t.Fatal(err)
			}
			got := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestTablesFitTheTerminal: names stay whole, wide tables are as they are.
func TestTablesFitTheTerminal(t *testing.T) {
	long := strings.Repeat("because ", 20)
	page := func() *metav1.Table {
		return &metav1.Table{
			ColumnDefinitions: []metav1.TableColumnDefinition{
				{Name: "Name", Type: "string", Format: "name"},
				{Name: "State", Type: "string"},
				{Name: "Findings", Type: "integer"},
				{Name: "Reason", Type: "string"},
				{Name: "Id", Type: "string", Priority: 1},
			},
			Rows: []metav1.TableRow{{Cells: []any{"a-scan-with-a-long-name", "Errored", int64(12), long, "0c9a7d3e"}}},
		}
	}
	for _, columns := range []int{60, 80, 100, 400} {
		t.Run(strconv.Itoa(columns), func(t *testing.T) {
			for _, wide := range []bool{false, true} {
				var out bytes.Buffer
				if err := PrintTables(&out, TableOptions{Columns: columns, Wide: wide})(page()); err != nil {
					t.Fatal(err)
				}
				if !strings.Contains(out.String(), "a-scan-with-a-long-name   Errored   12") {
					t.Errorf("columns were cut that fit:\n%s", out.String())
				}
				if whole := strings.Contains(out.String(), strings.TrimSpace(long)); whole != (wide || columns == 400) {
					t.Errorf("wide %v: the reason is whole: %v\n%s", wide, whole, out.String())
				}
				for line := range strings.Lines(out.String()) {
					if width := termsafe.Width(strings.TrimRight(line, " \n")); width > columns && !wide {
						t.Errorf("%d of %d columns: %q", width, columns, line)
					}
				}
			}
		})
	}
}
