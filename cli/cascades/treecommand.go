// SPDX-License-Identifier: Apache-2.0

package cascades

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/cli/complete"
	"github.com/scanyard/scanyard/cli/session"
	"github.com/scanyard/scanyard/cli/termsafe"
	"github.com/scanyard/scanyard/cli/view"
	"github.com/scanyard/scanyard/findings/scanview"
	"github.com/scanyard/scanyard/findings/yamltext"
)

// annotationChain lists the rules that have led to a Scan, the last one last.
const annotationChain = "cascading.securecodebox.io/chain"

// pageSize is how many Scans are listed at once.
const pageSize = 500

// Formats of tree.
var treeFormats = []string{"table", "json", "yaml", "name"}

// NewTreeCommand is "scanyard tree".
func NewTreeCommand(s *session.Session) *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "tree [SCAN]",
		Short: "Show which Scan was started by which",
		Long: `Show the Scans of the namespace as a tree: below each Scan those that its findings have started, with
their states, how many findings they have, and by which cascading rule they were started. With a name,
only what is below that Scan.

A Scan whose parent was deleted stands at the root and says so.`,
		Example: `  # Everything in the namespace
  {{program}} tree

  # One chain, for another program
  {{program}} tree nmap-network -o json`,
		Args: cobra.MaximumNArgs(1), ValidArgsFunction: complete.First(complete.Scans(s)),
		RunE: func(cmd *cobra.Command, args []string) error { return runTree(cmd.Context(), s, format, args) },
	}
	bindTreeFormat(cmd, &format)
	return cmd
}

func bindTreeFormat(cmd *cobra.Command, format *string) {
	cmd.Flags().StringVarP(format, "output", "o", "table", "`format`: "+strings.Join(treeFormats, ", "))
	// The only error is a flag that does not exist.
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(treeFormats, cobra.ShellCompDirectiveNoFileComp))
}

func runTree(ctx context.Context, s *session.Session, format string, args []string) error {
	if !slices.Contains(treeFormats, format) {
		return fmt.Errorf("-o %q: there are the formats %s", format, strings.Join(treeFormats, ", "))
	}
	c, namespace, err := s.Connect()
	if err != nil {
		return err
	}
	scans, err := listScans(ctx, c, namespace)
	if err != nil {
		return s.Explain(err)
	}
	forest := Forest(scans)
	if len(args) > 0 {
		root := Find(forest, args[0])
		if root == nil {
			_, err := s.Scan(ctx, c, namespace, args[0]) // the error names similar Scans
			return errors.Join(err, fmt.Errorf("the Scan %s has just been created, try again", args[0]))
		}
		forest = []*Node{root}
	}
	if len(forest) == 0 {
		fmt.Fprintf(s.ErrOut, "no Scans in namespace %s\n", namespace)
	}
	return printForest(s, format, forest)
}

// listScans lists Scans page by page, and keeps what a tree shows of them.
func listScans(ctx context.Context, c client.Client, namespace string) ([]executionv1.Scan, error) {
	var scans []executionv1.Scan
	page := &executionv1.ScanList{}
	for {
		if err := c.List(ctx, page, client.InNamespace(namespace), client.Limit(pageSize), client.Continue(page.Continue)); err != nil {
			return nil, fmt.Errorf("list Scans: %w", err)
		}
		for i := range page.Items {
			full := &page.Items[i]
			brief := executionv1.Scan{ObjectMeta: full.ObjectMeta}
			brief.ManagedFields, brief.Labels, brief.Finalizers = nil, nil, nil
			brief.Spec.ScanType = full.Spec.ScanType
			brief.Status.State, brief.Status.Findings = full.Status.State, full.Status.Findings
			scans = append(scans, brief)
		}
		if page.Continue == "" {
			return scans, nil
		}
	}
}

func printForest(s *session.Session, format string, forest []*Node) error {
	switch format {
	case "json", "yaml":
		return printObjects(s.Data(modeOf(format)), format, forest)
	case "name":
		return Walk(forest, func(n *Node, _ string, _ bool) error {
			return write(s.Out, "scan.execution.securecodebox.io/"+n.Scan.Name+"\n")
		})
	}
	if len(forest) == 0 {
		return nil
	}
	return printTree(s, forest)
}

func write(out io.Writer, text string) error {
	if _, err := io.WriteString(out, text); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

func printTree(s *session.Session, forest []*Node) error {
	lines := [][]string{{"NAME", "TYPE", "STATE", "FINDINGS", "AGE", "RULE", ""}}
	states := []string{""}
	err := Walk(forest, func(n *Node, stem string, _ bool) error {
		findings := ""
		if count := n.Scan.Status.Findings.Count; count != nil {
			findings = strconv.FormatInt(*count, 10)
		}
		remark := n.Remark
		if remark != "" {
			remark = "(" + remark + ")"
		}
		lines = append(lines, []string{
			stem + termsafe.Line(n.Scan.Name), termsafe.Line(n.Scan.Spec.ScanType), scanview.State(n.Scan), findings,
			view.Short(max(0, s.Now().Sub(n.Scan.CreationTimestamp.Time))), termsafe.Line(ruleOf(n.Scan)), termsafe.Line(remark),
		})
		states = append(states, scanview.State(n.Scan))
		return nil
	})
	if err != nil {
		return err
	}
	widths := make([]int, len(lines[0]))
	for _, line := range lines {
		for i, cell := range line {
			widths[i] = max(widths[i], termsafe.Width(cell))
		}
	}
	for i, line := range lines {
		var out strings.Builder
		for j, cell := range line {
			text := cell
			switch {
			case i == 0:
				text = s.Paint(session.Heading, cell)
			case j == 2:
				text = s.Paint(paintOf(states[i]), cell)
			}
			out.WriteString(text + strings.Repeat(" ", widths[j]-termsafe.Width(cell)+3))
		}
		if err := write(s.Out, strings.TrimRight(out.String(), " ")+"\n"); err != nil {
			return err
		}
	}
	return nil
}

func paintOf(state string) session.Paint {
	switch state {
	case string(executionv1.ScanStateDone):
		return session.Good
	case string(executionv1.ScanStateErrored):
		return session.Bad
	default:
		return session.Warn
	}
}

// ruleOf is the cascading rule that has started a Scan.
func ruleOf(s *executionv1.Scan) string {
	if s.Annotations[annotationParent] == "" {
		return ""
	}
	chain := strings.Split(s.Annotations[annotationChain], ",")
	return chain[len(chain)-1]
}

// object is a Scan of a tree for other programs.
type object struct {
	Name      string                   `json:"name"`
	Namespace string                   `json:"namespace"`
	UID       string                   `json:"uid"`
	ScanType  string                   `json:"scanType"`
	State     string                   `json:"state"`
	Created   string                   `json:"created"`
	Parent    string                   `json:"parent,omitempty"`
	Rule      string                   `json:"rule,omitempty"`
	Remark    string                   `json:"remark,omitempty"`
	Findings  executionv1.FindingStats `json:"findings"`
	Children  []string                 `json:"children,omitempty"`
}

// printObjects prints a list, parents before children: a tree of any depth needs no nesting.
func printObjects(out io.Writer, format string, forest []*Node) error {
	all := []object{}
	err := Walk(forest, func(n *Node, _ string, _ bool) error {
		o := object{
			Name: n.Scan.Name, Namespace: n.Scan.Namespace, UID: string(n.Scan.UID), ScanType: n.Scan.Spec.ScanType,
			State: scanview.State(n.Scan), Created: n.Scan.CreationTimestamp.UTC().Format("2006-01-02T15:04:05Z"),
			Parent: n.Scan.Annotations[annotationParent], Rule: ruleOf(n.Scan), Remark: n.Remark, Findings: n.Scan.Status.Findings,
		}
		for _, child := range n.Children {
			o.Children = append(o.Children, child.Scan.Name)
		}
		all = append(all, o)
		return nil
	})
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(map[string]any{"scans": all}, "", "  ")
	if err == nil && format == "yaml" {
		text, err = yamltext.Of(text)
	}
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	return write(out, strings.TrimSuffix(string(text), "\n")+"\n")
}
