// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	wgpolicyv1alpha2 "github.com/scanyard/scanyard/apis/wgpolicyk8s/v1alpha2"
	"github.com/scanyard/scanyard/cli/session"
)

func newLintCommand(s *session.Session) *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "lint [KIND]",
		Short: "Find reports whose summary does not fit their results",
		Long: `Find reports whose summary does not fit their results. A summary is what the writer of a report
says; no server computes it again, and tables show it. The exit code is 1 where one does not fit.`,
		Example: examples(s, `  {{reports}} lint
  {{reports}} lint cpolr
  {{reports}} lint polr -A`),
		Args: cobra.MaximumNArgs(1), ValidArgsFunction: completeKinds,
		RunE: func(cmd *cobra.Command, args []string) error {
			word := "polr"
			if len(args) == 1 {
				word = args[0]
			}
			k, err := kindOf(word)
			if err != nil {
				return err
			}
			t, err := open(s, k, all)
			if err != nil {
				return err
			}
			return explain(s, k, lint(cmd.Context(), s, t))
		},
	}
	cmd.Flags().BoolVarP(&all, "all-namespaces", "A", false, "look at those of all namespaces")
	return cmd
}

func lint(ctx context.Context, s *session.Session, t *target) error {
	reports, wrong := 0, 0
	options := metav1.ListOptions{Limit: pageSize}
	for {
		page, err := t.resource.List(ctx, options)
		if err != nil {
			return err
		}
		for i := range page.Items {
			r := &page.Items[i]
			reports++
			for _, m := range mismatches(r) {
				wrong++
				fmt.Fprintf(
					s.Out, "%s '%s'%s: summary.%s is %d, and %d results are %s\n", r.GetKind(), r.GetName(), place(r.GetNamespace()), m.result, m.said,
					m.counted, m.result,
				)
			}
		}
		if options.Continue = page.GetContinue(); options.Continue == "" {
			break
		}
	}
	fmt.Fprintf(s.ErrOut, "Looked at %d reports; %d counts of summaries do not fit.\n", reports, wrong)
	if wrong > 0 {
		return session.Exit(session.CodeErrored, nil)
	}
	return nil
}

// mismatch is a count of a summary that its results do not have.
type mismatch struct {
	result        wgpolicyv1alpha2.Result
	said, counted int64
}

// mismatches compares the summary of a report with its results. A report without summary claims nothing.
func mismatches(r *unstructured.Unstructured) []mismatch {
	summary, found, _ := unstructured.NestedMap(r.Object, "summary")
	if !found {
		return nil
	}
	counted := map[wgpolicyv1alpha2.Result]int64{}
	results, _, _ := unstructured.NestedSlice(r.Object, "results")
	for _, result := range results {
		if fields, ok := result.(map[string]any); ok {
			text, _ := fields["result"].(string)
			counted[wgpolicyv1alpha2.Result(text)]++
		}
	}
	var out []mismatch
	for _, result := range []wgpolicyv1alpha2.Result{
		wgpolicyv1alpha2.ResultPass, wgpolicyv1alpha2.ResultFail, wgpolicyv1alpha2.ResultWarn, wgpolicyv1alpha2.ResultError, wgpolicyv1alpha2.ResultSkip,
	} {
		if said, _ := summary[string(result)].(int64); said != counted[result] {
			out = append(out, mismatch{result, said, counted[result]})
		}
	}
	return out
}
