// SPDX-License-Identifier: Apache-2.0

package export

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	registryv1alpha1 "github.com/scanyard/scanyard/apis/registry/v1alpha1"
	"github.com/scanyard/scanyard/registry/internal/reportsclient"
)

// resultFile is where the lurker of a Scan looks.
const resultFile = "/home/securecodebox/registry-findings.json"

// Streams are what the command needs of its surroundings.
type Streams struct {
	Out   io.Writer
	Env   func(string) string
	Clock reportsclient.Clock
}

// New makes the command.
func New(s Streams) *cobra.Command {
	var o Options
	var output, kubeconfig string
	c := &cobra.Command{
		Use: "registry-export --registry NAME", Short: "Write the findings of a Registry's images as one document", SilenceErrors: true, SilenceUsage: true,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := o.validate(); err != nil {
				return err
			}
			config, err := connect(kubeconfig)
			if err != nil {
				return err
			}
			from, err := newSource(config, s.Clock)
			if err != nil {
				return err
			}
			return write(c.Context(), from, o, output, s.Out)
		},
	}
	f := c.Flags()
	f.StringVar(&o.Registry, "registry", "", "`name` of the Registry")
	f.StringVar(&o.Namespace, "namespace", s.Env("POD_NAMESPACE"), "`namespace` of the Registry; by default POD_NAMESPACE")
	f.StringVar(&o.Job, "job", "", "`name` of the job that asks")
	f.BoolVar(&o.ChangedOnly, "changed-only", false, "only images whose report the job has changed")
	f.StringVar(&o.MinSeverity, "min-severity", "LOW", "leave out what is less bad: CRITICAL, HIGH, MEDIUM, LOW or UNKNOWN")
	f.StringVar(&o.Repository, "repository", "", "only repositories that fit a `glob`: * is any run without /, ** any run")
	f.BoolVar(&o.IncludeSuppressed, "include-suppressed", false, "findings that an exception or a VEX statement accepts as well")
	f.StringVar(&output, "output", resultFile, "`file` that is written; - is standard output")
	f.StringVar(&kubeconfig, "kubeconfig", s.Env("KUBECONFIG"), "`file` with the API server and credentials; none: those of the pod")
	return c
}

func (o Options) validate() error {
	severities := map[string]bool{"CRITICAL": true, "HIGH": true, "MEDIUM": true, "LOW": true, "UNKNOWN": true}
	switch {
	case o.Registry == "":
		return errors.New("--registry: name the Registry")
	case o.Namespace == "":
		return errors.New("--namespace: name the namespace, or set POD_NAMESPACE")
	case o.ChangedOnly && o.Job == "":
		return errors.New("--changed-only: needs --job")
	case !severities[o.MinSeverity]:
		return fmt.Errorf("--min-severity: %q is not CRITICAL, HIGH, MEDIUM, LOW or UNKNOWN", o.MinSeverity)
	}
	return nil
}

func connect(kubeconfig string) (*rest.Config, error) {
	if kubeconfig == "" {
		config, err := rest.InClusterConfig()
		if err != nil {
			return nil, fmt.Errorf("find the API server: %w", err)
		}
		return config, nil
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	return config, nil
}

func newSource(config *rest.Config, clock reportsclient.Clock) (Source, error) {
	scheme := runtime.NewScheme()
	if err := registryv1alpha1.AddToScheme(scheme); err != nil {
		return Source{}, err
	}
	registries, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return Source{}, fmt.Errorf("make a client: %w", err)
	}
	reports, err := reportsclient.New(reportsclient.Options{Config: config, Clock: clock})
	return Source{Registries: registries, Reports: reports}, err
}

// write writes a file that is complete, or none.
func write(ctx context.Context, from Source, o Options, output string, out io.Writer) (err error) {
	near := os.TempDir()
	if output != "-" {
		near = filepath.Dir(output) // a scanner's root is read-only, but for the folder of its results
	}
	if o.Dir, err = os.MkdirTemp(near, ".registry-export-"); err != nil {
		return fmt.Errorf("make a folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(o.Dir)) }()
	if output == "-" {
		return Write(ctx, from, o, out)
	}
	part := filepath.Join(o.Dir, "part")
	file, err := os.Create(part)
	if err != nil {
		return fmt.Errorf("write --output: %w", err)
	}
	if err := errors.Join(Write(ctx, from, o, file), file.Close()); err != nil {
		return err
	}
	if err := os.Rename(part, output); err != nil {
		return fmt.Errorf("write --output: %w", err)
	}
	return nil
}
