// SPDX-License-Identifier: Apache-2.0

package tenants

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	settingsv1alpha2 "github.com/scanyard/scanyard/apis/settings/v1alpha2"
	"github.com/scanyard/scanyard/cli/output"
	"github.com/scanyard/scanyard/cli/session"
	"github.com/scanyard/scanyard/cli/termsafe"
	"github.com/scanyard/scanyard/settings"
)

// NewSettingsCommand makes the command settings.
func NewSettingsCommand(s *session.Session) *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "settings",
		Short: "Show the settings in force in a namespace, and where they were set",
		Long: `Show what applies to the scans of the namespace: limits, deadlines, storage, what is added
to Jobs, which patches apply. Settings of the cluster (ClusterScanSetting default) and
of the namespace (ScanSetting default) are taken together as the operator does it; the
column FROM shows where each value was set. Anything else follows the operator's flags.

A setting with a mistake is not in force; a note says so, and what is in force instead.`,
		Example: `  {{program}} settings
  {{program}} settings -n team-blue -o json`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, namespace, err := s.Connect()
			if err != nil {
				return err
			}
			report, err := readSettings(cmd.Context(), c, namespace)
			if err != nil {
				return s.Explain(err)
			}
			return printSettings(s, report, format)
		},
	}
	cmd.Flags().StringVarP(&format, "output", "o", "table", "print as table, json, yaml")
	// It fails only for a flag that does not exist.
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"table", "json", "yaml"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// settingsReport is the output of the command.
type settingsReport struct {
	Namespace string `json:"namespace"`
	// Settings are the values that are not left to the operator's flags.
	Settings []Value `json:"settings"`
	// Notes say what is not in force or could not be read.
	Notes []string `json:"notes,omitempty"`
}

func readSettings(ctx context.Context, c client.Client, namespace string) (*settingsReport, error) {
	r := &settingsReport{Namespace: namespace, Settings: []Value{}}
	key := client.ObjectKey{Name: settingsv1alpha2.Name}
	cluster, own := &settingsv1alpha2.ClusterScanSetting{}, &settingsv1alpha2.ScanSetting{}
	clusterThere, err := read(ctx, c, key, cluster)
	if apierrors.IsForbidden(err) {
		r.Notes = append(r.Notes, "You may not read the settings of the cluster: their values are missing here.")
	} else if err != nil {
		return nil, err
	}
	key.Namespace = namespace
	ownThere, err := read(ctx, c, key, own)
	if err != nil {
		return nil, err
	}
	ns := &corev1.Namespace{}
	if err := c.Get(ctx, client.ObjectKey{Name: namespace}, ns); apierrors.IsForbidden(err) {
		ns.Labels = nil // only weights that select by labels depend on them
	} else if err != nil {
		return nil, fmt.Errorf("get namespace %s: %w", namespace, err)
	}
	in := settings.Input{Namespace: namespace, Labels: ns.Labels}
	layers := [3]*settings.Effective{settings.Compute(in)}
	if clusterThere {
		in.Cluster = settings.ClusterInForce(cluster)
		r.Notes = append(r.Notes, heldBack("ClusterScanSetting", cluster.Status.Conditions)...)
	}
	layers[1] = settings.Compute(in)
	if ownThere {
		in.Setting = settings.InForce(in.Cluster, own)
		r.Notes = append(r.Notes, heldBack("ScanSetting", own.Status.Conditions)...)
	}
	layers[2] = settings.Compute(in)
	r.Settings = append(r.Settings, Values(layers[0], layers[1], layers[2])...)
	if in.Cluster != nil && in.Cluster.Allowed != nil {
		r.Settings = append(r.Settings, Value{"allowed", compact(in.Cluster.Allowed), "cluster"})
	}
	if in.Setting != nil && in.Setting.Allowed != nil {
		r.Settings = append(r.Settings, Value{"allowed", compact(in.Setting.Allowed), "namespace"})
	}
	if in.Cluster != nil && in.Cluster.TargetScope != nil {
		r.Settings = append(r.Settings, Value{"targetScope", compact(in.Cluster.TargetScope), "cluster"})
	}
	if in.Setting != nil && in.Setting.TargetScope != nil {
		r.Settings = append(r.Settings, Value{"targetScope", compact(in.Setting.TargetScope), "namespace"})
	}
	return r, nil
}

// read gets an object that need not exist.
func read(ctx context.Context, c client.Client, key client.ObjectKey, o client.Object) (bool, error) {
	err := c.Get(ctx, key, o)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("get settings: %w", err)
	}
	return true, nil
}

// heldBack lists the reasons why a setting is not in force as it is written.
func heldBack(kind string, conditions []metav1.Condition) []string {
	c := meta.FindStatusCondition(conditions, settingsv1alpha2.ConditionReady)
	if c == nil || c.Status == metav1.ConditionTrue {
		return nil
	}
	return []string{fmt.Sprintf("%s %s is not in force as written (%s): %s", kind, settingsv1alpha2.Name, c.Reason, termsafe.Line(c.Message))}
}

func printSettings(s *session.Session, r *settingsReport, format string) error {
	switch format {
	case "json":
		e := json.NewEncoder(s.Data(termsafe.Escape))
		e.SetIndent("", "  ")
		return e.Encode(r)
	case "yaml":
		b, err := yaml.Marshal(r)
		if err != nil {
			return fmt.Errorf("print settings: %w", err)
		}
		_, err = s.Data(termsafe.Replace).Write(b)
		return err
	case "table", "":
	default:
		return fmt.Errorf("-o %s: it must be table, json or yaml", format)
	}
	if len(r.Settings) == 0 {
		fmt.Fprintf(s.Out, "Nothing is set for namespace %s: the operator's flags hold.\n", r.Namespace)
	} else if err := settingsTable(s.Out, r.Settings, s.Columns); err != nil {
		return err
	}
	for _, n := range r.Notes {
		fmt.Fprintln(s.ErrOut, n)
	}
	return nil
}

func settingsTable(out io.Writer, values []Value, columns int) error {
	w := output.NewAligned(out, 3, columns)
	fmt.Fprintln(w, "SETTING\tVALUE\tFROM")
	for _, v := range values {
		fmt.Fprintln(w, termsafe.Row(v.Name, v.Value, v.From))
	}
	return w.Flush()
}
