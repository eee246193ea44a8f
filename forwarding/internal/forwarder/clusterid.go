// SPDX-License-Identifier: Apache-2.0

package forwarder

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/scanyard/scanyard/forwarding/internal/clusterid"
)

// envNamespace is the variable in which a pod finds its namespace.
const envNamespace = "POD_NAMESPACE"

const clusterTimeout = time.Minute

// clusterFlags say which cluster it is.
type clusterFlags struct {
	kubeconfig, namespace, value string
	options                      Options
}

func newClusterID(o Options) *cobra.Command {
	f := &clusterFlags{options: o}
	parent := &cobra.Command{
		Use: "cluster-id", Short: "The name under which far ends know the cluster", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return errors.Join(cmd.Help(), wrong(errors.New("a command is missing: use ensure or get")))
		},
	}
	parent.PersistentFlags().StringVar(&f.kubeconfig, "kubeconfig", "", "file with the access to the cluster; in a pod, its own")
	parent.PersistentFlags().StringVar(&f.namespace, "namespace", "", "namespace of the release; default: $"+envNamespace)
	get := &cobra.Command{
		Use: "get", Short: "Print the cluster ID", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.run(cmd.Context(), func(ctx context.Context, c client.Client) (clusterid.ID, error) {
				return clusterid.Get(ctx, c, f.namespace)
			})
		},
	}
	ensure := &cobra.Command{
		Use: "ensure", Short: "Make the cluster ID where there is none, and print it", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.value != "" {
				if err := clusterid.Check(f.value); err != nil {
					return wrongFlag("value", err)
				}
			}
			return f.run(cmd.Context(), f.ensure)
		},
	}
	ensure.Flags().StringVar(&f.value, "value", "", "the ID, a UUID; default: the UID of the namespace kube-system")
	parent.AddCommand(get, ensure)
	return parent
}

func (f *clusterFlags) ensure(ctx context.Context, c client.Client) (clusterid.ID, error) {
	id, err := clusterid.Ensure(ctx, c, f.namespace, f.value)
	if err != nil {
		return id, err
	}
	return id, id.Report(ctx, c, f.namespace, time.Now()) //nolint:forbidigo // an Event is of now
}

// run asks the cluster and prints the ID.
func (f *clusterFlags) run(ctx context.Context, ask func(context.Context, client.Client) (clusterid.ID, error)) error {
	if f.namespace == "" {
		f.namespace = f.options.Getenv(envNamespace)
	}
	if f.namespace == "" {
		return wrongFlag("namespace", errors.New("must name the namespace of the release"))
	}
	config, err := clientcmd.BuildConfigFromFlags("", f.kubeconfig)
	if err != nil {
		return wrongFlag("kubeconfig", err)
	}
	c, err := client.New(config, client.Options{Scheme: scheme.Scheme})
	if err != nil {
		return fmt.Errorf("reach the API server: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, clusterTimeout)
	defer cancel()
	id, err := ask(ctx, c)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f.options.Out, id.Value)
	return err
}
