// SPDX-License-Identifier: Apache-2.0

package tenants

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/cli/output"
	"github.com/scanyard/scanyard/cli/session"
	"github.com/scanyard/scanyard/cli/termsafe"
	"github.com/scanyard/scanyard/cli/view"
)

// NewQueueCommand makes the command queue.
func NewQueueCommand(s *session.Session) *cobra.Command {
	var all bool
	out := output.New(s, "", true)
	cmd := &cobra.Command{
		Use:   "queue",
		Short: "List the scans that wait for their turn, and why",
		Long: `List the scans that wait until others have ended: which limit holds them, and where they
stand. A position counts the scans of all namespaces, which take turns by their weights;
so it may change when others create scans. The command settings shows the limits.`,
		Example: `  {{program}} queue
  {{program}} queue --all-namespaces`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := out.Check(); err != nil {
				return err
			}
			c, namespace, err := s.Connect()
			if err != nil {
				return err
			}
			if all {
				namespace = ""
			}
			return s.Explain(printQueue(cmd.Context(), s, c, namespace, out))
		},
	}
	cmd.Flags().BoolVarP(&all, "all-namespaces", "A", false, "list those of all namespaces")
	out.Bind(cmd)
	return cmd
}

// pageSize is how many Scans one request reads; waiting ones are kept.
const pageSize = 500

func printQueue(ctx context.Context, s *session.Session, c client.Client, namespace string, out *output.Flags) error {
	var waiting []executionv1.Scan
	running := int64(0)
	next := ""
	for {
		var list executionv1.ScanList
		if err := c.List(ctx, &list, client.InNamespace(namespace), client.Limit(pageSize), client.Continue(next)); err != nil {
			return fmt.Errorf("list scans: %w", err)
		}
		for i := range list.Items {
			switch scan := &list.Items[i]; {
			case place(scan) != nil:
				waiting = append(waiting, *scan)
			case !scan.Settled() && scan.Status.State != executionv1.ScanStateNew:
				running++
			}
		}
		if next = list.Continue; next == "" {
			break
		}
	}
	slices.SortStableFunc(waiting, byPlace)
	table, wide := out.Table()
	if !table {
		return out.Print(s, &executionv1.ScanList{Items: waiting})
	}
	if len(waiting) == 0 {
		fmt.Fprintf(s.ErrOut, "No scan waits for its turn; %s.\n", run(running))
		return nil
	}
	show := output.PrintTables(s.Out, output.TableOptions{Wide: wide, WithNamespace: namespace == "", Columns: s.Columns})
	if err := show(queueTable(waiting, s.Now())); err != nil {
		return err
	}
	fmt.Fprintf(s.ErrOut, "%s waiting; %s.\n", view.Plural(int64(len(waiting)), "scan"), run(running))
	return nil
}

func run(n int64) string {
	if n == 1 {
		return "1 scan runs"
	}
	return view.Plural(n, "scan") + " run"
}

// place returns the condition of a Scan that waits; nil for other Scans.
func place(s *executionv1.Scan) *metav1.Condition {
	c := meta.FindStatusCondition(s.Status.Conditions, executionv1.ConditionAdmitted)
	if c == nil || c.Status != metav1.ConditionFalse || s.Settled() {
		return nil
	}
	return c
}

// position is the position of a Scan in the queue; 0 if the status has none.
func position(s *executionv1.Scan) int {
	if place(s) == nil || s.Status.Queue == nil {
		return 0
	}
	return s.Status.Queue.Position
}

func byPlace(a, b executionv1.Scan) int {
	return cmp.Or(cmp.Compare(position(&a), position(&b)), a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
}

func queueTable(scans []executionv1.Scan, now time.Time) *metav1.Table {
	t := &metav1.Table{ColumnDefinitions: []metav1.TableColumnDefinition{
		{Name: "Name", Type: "string", Format: "name"},
		{Name: "Type", Type: "string"},
		{Name: "Position", Type: "string"},
		{Name: "Waits", Type: "string"},
		{Name: "For", Type: "string"},
		{Name: "Priority", Type: "string", Priority: 1},
		{Name: "Message", Type: "string", Priority: 1},
	}}
	for i := range scans {
		s := &scans[i]
		at := "?"
		if n := position(s); n > 0 {
			at = strconv.Itoa(n)
		}
		priority := int32(0)
		if s.Spec.Priority != nil {
			priority = *s.Spec.Priority
		}
		c := place(s)
		t.Rows = append(t.Rows, metav1.TableRow{
			Cells:  []any{s.Name, s.Spec.ScanType, at, view.Short(now.Sub(s.CreationTimestamp.Time)), c.Reason, fmt.Sprint(priority), termsafe.Line(c.Message)},
			Object: runtime.RawExtension{Object: s},
		})
	}
	return t
}
