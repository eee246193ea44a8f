// SPDX-License-Identifier: Apache-2.0

package reports

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/scanyard/scanyard/cli/session"
)

// fieldManager is what managedFields of objects say.
const fieldManager = "kubectl-prext"

// fileOptions are those of commands that read objects from files.
type fileOptions struct {
	session *session.Session
	files   []string
}

func (o *fileOptions) bind(cmd *cobra.Command) {
	cmd.Flags().StringSliceVarP(&o.files, "filename", "f", nil, "the file, folder or URL of the reports; - is the standard input")
	// Fails only for a flag that does not exist.
	_ = cmd.MarkFlagRequired("filename")
}

func newCreateCommand(s *session.Session) *cobra.Command {
	o := &fileOptions{session: s}
	cmd := &cobra.Command{
		Use:   "create -f FILE",
		Short: "Create reports from files",
		Long:  `Create reports from files of YAML or JSON. A report that exists is an error; apply changes it.`,
		Example: examples(s, `  {{reports}} create -f report.json
  generate | {{reports}} create -f -`),
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return o.each(func(info *resource.Info, u *unstructured.Unstructured) (string, error) {
				_, err := o.helper(info).Create(info.Namespace, true, u)
				return "created", err
			})
		},
	}
	o.bind(cmd)
	return cmd
}

func newApplyCommand(s *session.Session) *cobra.Command {
	o := &fileOptions{session: s}
	cmd := &cobra.Command{
		Use:   "apply -f FILE",
		Short: "Create reports from files, or change them to what the files say",
		Long: `Create reports from files of YAML or JSON, or change them to what the files say, by server-side
apply. Fields that another program has written and that a file names are taken over.`,
		Example: examples(s, `  {{reports}} apply -f report.yaml`),
		Args:    cobra.NoArgs,
		RunE:    func(*cobra.Command, []string) error { return o.each(o.apply) },
	}
	o.bind(cmd)
	return cmd
}

func (o *fileOptions) helper(info *resource.Info) *resource.Helper {
	return resource.NewHelper(info.Client, info.Mapping).WithFieldManager(fieldManager)
}

func (o *fileOptions) apply(info *resource.Info, u *unstructured.Unstructured) (string, error) {
	helper := o.helper(info)
	before := ""
	switch old, err := helper.Get(info.Namespace, info.Name); {
	case err == nil:
		before = old.(metav1.Object).GetResourceVersion()
	case !apierrors.IsNotFound(err):
		return "", err
	}
	body, err := u.MarshalJSON()
	if err != nil {
		return "", err
	}
	force := true
	now, err := helper.Patch(info.Namespace, info.Name, types.ApplyPatchType, body, &metav1.PatchOptions{FieldManager: fieldManager, Force: &force})
	if err != nil {
		return "", err
	}
	switch before {
	case "":
		return "created", nil
	case now.(metav1.Object).GetResourceVersion():
		return "unchanged", nil
	}
	return "configured", nil
}

// each calls a function for every object of the files and prints the result. An error of one does not stop the others.
func (o *fileOptions) each(do func(*resource.Info, *unstructured.Unstructured) (string, error)) error {
	namespace, explicit, err := o.session.ConfigFlags.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return o.session.Explain(err)
	}
	result := resource.NewBuilder(o.session.ConfigFlags).Unstructured().NamespaceParam(namespace).DefaultNamespace().
		FilenameParam(explicit, &resource.FilenameOptions{Filenames: o.files}).StdinInUse().ContinueOnError().Flatten().Do()
	failed := false
	report := func(err error) {
		failed = true
		fmt.Fprintln(o.session.ErrOut, o.session.ErrorWord(), o.session.Explain(err))
	}
	err = result.Visit(func(info *resource.Info, err error) error {
		if err != nil {
			report(err)
			return nil
		}
		u := info.Object.(*unstructured.Unstructured)
		if !isReport(u.GroupVersionKind()) {
			report(
				fmt.Errorf("%s: %s %q of %s is not a report: the file may hold %s", info.Source, u.GetKind(), u.GetName(), u.GetAPIVersion(), strings.Join(words(), ", ")),
			)
			return nil
		}
		how, err := do(info, u)
		if err != nil {
			report(fmt.Errorf("%s: %w", info.Source, err))
			return nil
		}
		_, err = fmt.Fprintf(o.session.Out, "%s '%s'%s successfully %s.\n", u.GetKind(), info.Name, place(info.Namespace), how)
		return err
	})
	if err != nil {
		report(err)
	}
	if failed {
		return session.Exit(session.CodeErrored, nil)
	}
	return nil
}

func newPatchCommand(s *session.Session) *cobra.Command {
	var kindOfPatch, patch string
	cmd := &cobra.Command{
		Use:     "patch KIND NAME -p PATCH",
		Short:   "Change fields of a report",
		Long:    `Change fields of a report by a merge patch or a JSON patch. There is no strategic patch for reports, as for custom resources.`,
		Example: examples(s, `  {{reports}} patch polr nginx --type merge -p '{"summary":{"fail":0}}'`),
		Args:    cobra.ExactArgs(2), ValidArgsFunction: completeKinds,
		RunE: func(cmd *cobra.Command, args []string) error {
			k, err := kindOf(args[0])
			if err != nil {
				return err
			}
			types := map[string]types.PatchType{"merge": types.MergePatchType, "json": types.JSONPatchType}
			if _, known := types[kindOfPatch]; !known {
				return fmt.Errorf("--type %s is not a type of patch for reports: choose merge or json", kindOfPatch)
			}
			t, err := open(s, k, false)
			if err != nil {
				return err
			}
			if _, err := t.resource.Patch(cmd.Context(), args[1], types[kindOfPatch], []byte(patch), metav1.PatchOptions{FieldManager: fieldManager}); err != nil {
				return explain(s, k, err)
			}
			_, err = fmt.Fprintf(s.Out, "%s '%s'%s successfully patched.\n", k.gvk.Kind, args[1], place(t.namespace))
			return err
		},
	}
	cmd.Flags().StringVar(&kindOfPatch, "type", "merge", "the type of patch: merge or json")
	cmd.Flags().StringVarP(&patch, "patch", "p", "", "the patch, as JSON")
	// Fails only for a flag that does not exist.
	_ = cmd.MarkFlagRequired("patch")
	return cmd
}

func newDeleteCommand(s *session.Session) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "delete KIND NAME...",
		Short:   "Delete reports",
		Long:    `Delete reports by their names. The others are deleted also when one cannot be.`,
		Example: examples(s, `  {{reports}} delete polr nginx redis`),
		Args:    cobra.MinimumNArgs(2), ValidArgsFunction: completeKinds,
		RunE: func(cmd *cobra.Command, args []string) error {
			k, err := kindOf(args[0])
			if err != nil {
				return err
			}
			t, err := open(s, k, false)
			if err != nil {
				return err
			}
			return remove(cmd.Context(), s, t, args[0], slices.Compact(args[1:]))
		},
	}
	return cmd
}

func remove(ctx context.Context, s *session.Session, t *target, word string, names []string) error {
	var failed []error
	for _, name := range names {
		if err := t.resource.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			failed = append(failed, explain(s, t.kind, err))
			continue
		}
		// The spaces are those that scripts know.
		if _, err := fmt.Fprintf(s.Out, "Successfully deleted  %s :  %s\n", word, name); err != nil {
			return err
		}
	}
	return errors.Join(failed...)
}
