// SPDX-License-Identifier: Apache-2.0

package scans

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/controller-runtime/pkg/client"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/apis/resultimport"
	"github.com/scanyard/scanyard/cli/complete"
	"github.com/scanyard/scanyard/cli/output"
	"github.com/scanyard/scanyard/cli/session"
)

// importOptions are the flags of import.
type importOptions struct {
	createOptions

	resultType string
}

// NewImportCommand makes the command import.
func NewImportCommand(s *session.Session) *cobra.Command {
	o := &importOptions{createOptions: createOptions{waitOptions: waitOptions{session: s}, output: output.New(s, "created", false)}}
	cmd := &cobra.Command{
		Use:   "import FILE --type RESULT-TYPE",
		Short: "Make a scan of a result that was made elsewhere",
		Long: fmt.Sprintf(`Make a scan of a result that a scanner has written elsewhere, such as in a pipeline.

FILE is the scanner's raw result, - is stdin. RESULT-TYPE says what it is, such as
sarif, trivy-json or nmap-xml: the ScanType import-RESULT-TYPE of the chart "import"
takes it, and the parser of that type makes the findings. Then everything is as in
any scan: hooks, exceptions, history, --fail-on.

The file goes through the API server, compressed, in ConfigMaps that belong to the
scan, so it takes the right to create scans and ConfigMaps in the namespace, and no
keys of the object storage. It may have %d MiB, and %d MB when compressed. With
--wait the ConfigMaps are removed as soon as the scan is done, else with the scan.

Runs of the same type and file name are runs of one series, as for "diff" and hooks
that tell what is new. The label scanyard.io/target says whose result it is.

Exit codes: 0 done, 1 errored, 2 findings of the severity of --fail-on or above,
3 --timeout has passed, 4 with --fail-on: the result says that nothing was reached.`,
			resultimport.MaxSize>>20, resultimport.MaxPart*resultimport.MaxParts/1_000_000),
		Example: `  # Findings of a SARIF file
  {{program}} import report.sarif --type sarif --wait

  # What a pipeline has scanned itself: keep it for a month, fail on serious findings
  {{program}} import trivy.json --type trivy-json --label scanyard.io/target=shop --ttl 720h --wait --fail-on high

  # From another program
  nmap -oX - 192.0.2.7 | {{program}} import - --type nmap-xml --name office --wait`,
		Args: cobra.ExactArgs(1),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return nil, cobra.ShellCompDirectiveDefault
		},
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args[0]) },
	}
	flags := cmd.Flags()
	flags.StringVarP(&o.resultType, "type", "t", "", "result type of the file, such as sarif (required)")
	o.bindCreate(cmd)
	// They fail only for a flag that does not exist.
	_ = cmd.MarkFlagRequired("type")
	_ = cmd.RegisterFlagCompletionFunc("type", complete.ResultTypes(s))
	return cmd
}

func (o *importOptions) run(ctx context.Context, file string) error {
	if err := errors.Join(o.check(), o.output.Check()); err != nil {
		return err
	}
	manifest, parts, err := o.read(file)
	if err != nil {
		return fmt.Errorf("import %s: %w", file, err)
	}
	scan, err := o.scan(file, len(parts))
	if err != nil {
		return err
	}
	c, namespace, err := o.session.Connect()
	if err != nil {
		return err
	}
	scan.Namespace = namespace
	if err := o.checkImport(ctx, c, scan); err != nil {
		return err
	}
	brought, err := partMaps(scan, manifest, parts)
	if err != nil {
		return err
	}
	if err := o.createAll(ctx, c, scan, brought); err != nil {
		return o.session.Explain(err)
	}
	err = o.finish(ctx, c, scan)
	if o.dryRun {
		return err
	}
	o.release(ctx, c, scan, brought)
	return err
}

// read compresses the file.
func (o *importOptions) read(file string) (resultimport.Manifest, [][]byte, error) {
	in := o.session.In
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return resultimport.Manifest{}, nil, errors.Unwrap(err)
		}
		defer f.Close() //nolint:errcheck // it was only read
		in = f
	}
	return resultimport.Split(in)
}

// scan makes the Scan that takes the parts. Its parameter is the name of the file, which is the same in each run.
func (o *importOptions) scan(file string, parts int) (*executionv1.Scan, error) {
	name := "stdin"
	if file != "-" {
		name = filepath.Base(file)
	}
	scan, err := o.build([]string{resultimport.TypePrefix + o.resultType, name}, -1)
	if err != nil {
		return nil, err
	}
	brought := "import-" + rand.String(10)
	for i := range parts {
		part := fmt.Sprintf("import-%d", i)
		scan.Spec.Volumes = append(scan.Spec.Volumes, corev1.Volume{Name: part, VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			// Without the parts the scanner says so at once; a pod would wait for its ConfigMap until a deadline.
			LocalObjectReference: corev1.LocalObjectReference{Name: fmt.Sprintf("%s-%d", brought, i)}, Optional: new(true),
		}}})
		scan.Spec.VolumeMounts = append(scan.Spec.VolumeMounts, corev1.VolumeMount{Name: part, MountPath: resultimport.PartDir(i), ReadOnly: true})
	}
	return scan, nil
}

// partMaps makes the ConfigMaps that the Scan mounts.
func partMaps(scan *executionv1.Scan, m resultimport.Manifest, parts [][]byte) ([]*corev1.ConfigMap, error) {
	manifest, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	out := make([]*corev1.ConfigMap, len(parts))
	for i, part := range parts {
		name := scan.Spec.Volumes[i].ConfigMap.Name
		out[i] = &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: scan.Namespace, Name: name,
				Labels: map[string]string{resultimport.LabelImport: name[:strings.LastIndexByte(name, '-')]},
			},
			BinaryData: map[string][]byte{resultimport.PartKey: part},
			Immutable:  new(true),
		}
		if i == 0 {
			out[i].Data = map[string]string{resultimport.ManifestKey: string(manifest)}
		}
	}
	return out, nil
}

// createAll creates the parts and then the Scan that mounts them: its pod never waits for a part. When the Scan is refused
// the parts go again; when it is there they belong to it.
func (o *importOptions) createAll(ctx context.Context, c client.Client, scan *executionv1.Scan, parts []*corev1.ConfigMap) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), createTimeout)
	defer cancel()
	var opts []client.CreateOption
	if o.dryRun {
		opts = append(opts, client.DryRunAll)
	}
	for i, part := range parts {
		if err := c.Create(ctx, part, opts...); err != nil {
			return errors.Join(fmt.Errorf("store part %d of %d of the result in a ConfigMap: %w", i+1, len(parts), err), o.remove(ctx, c, parts[:i]))
		}
	}
	if err := o.create(ctx, c, scan); err != nil {
		return errors.Join(err, o.remove(ctx, c, parts))
	}
	if o.dryRun {
		return nil
	}
	owner := metav1.OwnerReference{APIVersion: executionv1.SchemeGroupVersion.String(), Kind: "Scan", Name: scan.Name, UID: scan.UID}
	for _, part := range parts {
		owned := part.DeepCopy()
		owned.OwnerReferences = []metav1.OwnerReference{owner}
		if err := c.Patch(ctx, owned, client.MergeFrom(part)); err != nil {
			fmt.Fprintf(o.session.ErrOut, "warning: ConfigMap %s does not go with the scan (%v); remove it when the scan is done\n", part.Name, err)
		}
	}
	return nil
}

// remove removes parts of a result that no Scan takes.
func (o *importOptions) remove(ctx context.Context, c client.Client, parts []*corev1.ConfigMap) error {
	if o.dryRun {
		return nil
	}
	var errs []error
	for _, part := range parts {
		if err := client.IgnoreNotFound(c.Delete(ctx, part)); err != nil {
			errs = append(errs, fmt.Errorf("remove ConfigMap %s: %w", part.Name, err))
		}
	}
	return errors.Join(errs...)
}

// release removes the parts as soon as the result is in object storage, which a Scan that is Done has shown. What cannot be
// removed goes with the Scan.
func (o *importOptions) release(ctx context.Context, c client.Client, scan *executionv1.Scan, parts []*corev1.ConfigMap) {
	if !o.wait && !o.isSet() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), createTimeout)
	defer cancel()
	now := &executionv1.Scan{}
	if err := c.Get(ctx, client.ObjectKeyFromObject(scan), now); err != nil || now.UID != scan.UID || now.Status.State != executionv1.ScanStateDone {
		return
	}
	_ = o.remove(ctx, c, parts) // their owner is the Scan
}

// checkImport makes sure that type and parser are installed. What the user may not list the operator reports.
func (o *importOptions) checkImport(ctx context.Context, c client.Client, scan *executionv1.Scan) error {
	var kinds, parsers client.ObjectList = &executionv1.ScanTypeList{}, &executionv1.ParseDefinitionList{}
	kind, flag := "ParseDefinition", " --namespace "+scan.Namespace
	opts := []client.ListOption{client.InNamespace(scan.Namespace)}
	if o.clusterWide {
		kinds, parsers, opts = &executionv1.ClusterScanTypeList{}, &executionv1.ClusterParseDefinitionList{}, nil
		kind, flag = "ClusterParseDefinition", " --set clusterWide=true"
	}
	types, err := installed(ctx, c, kinds, opts...)
	if apierrors.IsForbidden(err) {
		return nil
	}
	if err != nil {
		return o.session.Explain(fmt.Errorf("list scan types: %w", err))
	}
	if !slices.Contains(types, scan.Spec.ScanType) {
		return o.unknownResultType(resultimport.Types(types), flag)
	}
	definitions, err := installed(ctx, c, parsers, opts...)
	if apierrors.IsForbidden(err) {
		return nil
	}
	if err != nil {
		return o.session.Explain(fmt.Errorf("list parse definitions: %w", err))
	}
	if !slices.Contains(definitions, o.resultType) {
		return fmt.Errorf("there is no %s %q, which makes the findings; install it with the chart of its scanner, or with: "+
			"helm install parse-definitions <charts>/parse-definitions%s --set 'resultTypes={%s}'", kind, o.resultType, flag, o.resultType)
	}
	return nil
}

func (o *importOptions) unknownResultType(known []string, flag string) error {
	if len(known) == 0 {
		return fmt.Errorf("nothing can be imported here yet; install what takes results with: helm install import <charts>/import%s", flag)
	}
	text := fmt.Sprintf("--type %q is not a result type that can be imported here", o.resultType)
	if near := session.Near(o.resultType, known); len(near) > 0 {
		text += "; did you mean " + strings.Join(near, " or ") + "?"
	}
	return fmt.Errorf("%s (importable: %s)", text, session.Some(known, maxTypes))
}
