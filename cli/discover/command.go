// SPDX-License-Identifier: Apache-2.0

package discover

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/scanyard/scanyard/cli/output"
	"github.com/scanyard/scanyard/cli/session"
	"github.com/scanyard/scanyard/cli/termsafe"
	"github.com/scanyard/scanyard/discovery/kubernetes"
	"github.com/scanyard/scanyard/discovery/kubernetes/config"
)

// discoverOptions are the flags of discover.
type discoverOptions struct {
	session   *session.Session
	dryRun    bool
	all       bool
	file      string
	configMap string
	format    string
}

// Where the chart of auto-discovery keeps its configuration.
const (
	usualConfigMap = "scanyard-system/auto-discovery"
	configKey      = "auto-discovery.yaml"
)

// NewDiscoverCommand makes the command discover.
func NewDiscoverCommand(s *session.Session) *cobra.Command {
	d := &discoverOptions{session: s}
	cmd := &cobra.Command{
		Use:   "discover --dry-run",
		Short: "Show what auto-discovery would scan, and why not",
		Long: `Look at Services, containers, Ingresses and Gateway routes as auto-discovery would, and
show for each its ScheduledScan, or why it would have none.
Nothing is written: that is done by auto-discovery itself, which runs in the cluster.

The configuration is that of a file, or of the ConfigMap of the installed chart. In a
file every mistake is shown with its line and field.`,
		Example: `  # What would be scanned in the namespace, with a configuration that is not installed yet
  {{program}} discover --dry-run --config auto-discovery.yaml

  # With the configuration that is installed, in all namespaces
  {{program}} discover --dry-run --all-namespaces`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return d.run(cmd.Context()) },
	}
	flags := cmd.Flags()
	flags.BoolVar(&d.dryRun, "dry-run", false, "only show; must be given, since the command does nothing else")
	flags.BoolVarP(&d.all, "all-namespaces", "A", false, "look at all namespaces")
	flags.StringVar(&d.file, "config", "", "configuration of auto-discovery; - is stdin")
	flags.StringVar(&d.configMap, "configmap", usualConfigMap, "NAMESPACE/NAME of the ConfigMap with the configuration, where there is no --config")
	flags.StringVarP(&d.format, "output", "o", "table", "print as table, json, yaml")
	// It fails only for a flag that does not exist.
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"table", "json", "yaml"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (d *discoverOptions) run(ctx context.Context) error {
	if !d.dryRun {
		return errors.New("give --dry-run: this command only shows; auto-discovery itself runs in the cluster, see charts/auto-discovery-kubernetes")
	}
	if err := kubernetes.AddToScheme(d.session.Scheme()); err != nil {
		return fmt.Errorf("make scheme: %w", err)
	}
	c, namespace, err := d.session.Connect()
	if err != nil {
		return err
	}
	if d.all {
		namespace = ""
	}
	name, data, err := d.configuration(ctx, c)
	if err != nil {
		return err
	}
	compiled, err := config.Load(name, data)
	if err != nil {
		return err
	}
	report, err := kubernetes.NewReport(ctx, c, compiled, namespace, d.session.Now())
	if err != nil {
		return d.session.Explain(err)
	}
	return d.print(report)
}

// maxConfig is larger than a ConfigMap can be.
const maxConfig = 2 << 20

// configuration reads the file, or the ConfigMap.
func (d *discoverOptions) configuration(ctx context.Context, c client.Client) (name string, data []byte, err error) {
	switch d.file {
	case "":
		return d.installed(ctx, c)
	case "-":
		data, err = io.ReadAll(io.LimitReader(d.session.In, maxConfig))
		name = "stdin"
	default:
		data, err = os.ReadFile(d.file)
		name = d.file
	}
	if err != nil {
		return "", nil, fmt.Errorf("--config: %w", err)
	}
	return name, data, nil
}

func (d *discoverOptions) installed(ctx context.Context, c client.Client) (string, []byte, error) {
	namespace, name, ok := strings.Cut(d.configMap, "/")
	if !ok {
		return "", nil, fmt.Errorf("--configmap %q must be NAMESPACE/NAME", d.configMap)
	}
	m := &corev1.ConfigMap{}
	err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, m)
	switch {
	case apierrors.IsNotFound(err):
		return "", nil, fmt.Errorf(
			"there is no ConfigMap %s: is auto-discovery installed there? Name its ConfigMap with --configmap, or give a file with --config",
			d.configMap,
		)
	case err != nil:
		return "", nil, d.session.Explain(fmt.Errorf("get ConfigMap %s: %w", d.configMap, err))
	}
	text, ok := m.Data[configKey]
	if !ok {
		return "", nil, fmt.Errorf("the ConfigMap %s has no key %s", d.configMap, configKey)
	}
	return "ConfigMap " + d.configMap, []byte(text), nil
}

func (d *discoverOptions) print(r *kubernetes.Report) error {
	switch d.format {
	case "json":
		e := json.NewEncoder(d.session.Data(termsafe.Escape))
		e.SetIndent("", "  ")
		return e.Encode(r)
	case "yaml":
		b, err := yaml.Marshal(r)
		if err == nil {
			_, err = d.session.Data(termsafe.Replace).Write(b)
		}
		return err
	case "table":
	default:
		return fmt.Errorf("-o %s: it must be table, json or yaml", d.format)
	}
	w := output.NewAligned(d.session.Out, 3, d.session.Columns)
	header := r.Header()
	fmt.Fprintln(w, strings.Join(header, "\t"))
	for i := range r.Rows {
		fmt.Fprintln(w, termsafe.Row(r.Rows[i].Cells()...))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	n := r.Changes
	fmt.Fprintf(d.session.ErrOut, "Auto-discovery would create %d, update %d, restart %d and delete %d ScheduledScans.\n", n.Create, n.Update, n.Restart, n.Delete)
	return nil
}
