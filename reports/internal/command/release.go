// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/scanyard/scanyard/reports/internal/apiservices"
	"github.com/scanyard/scanyard/reports/internal/server"
)

// releaseWithin bounds a try; the Job of the chart tries again.
const releaseWithin = time.Minute

// newRelease gives the groups back before the server is removed: an APIService without a server blocks the deletion of
// every namespace.
func newRelease() *cobra.Command {
	f := &serviceFlags{}
	kubeconfig := ""
	command := &cobra.Command{
		Use: "release", Short: "Delete the server's APIServices, and have no server make them again; for the removal of a release", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.namespace == "" || f.service == "" {
				return errors.New("--namespace and --service must be given")
			}
			config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
			if err != nil {
				return err
			}
			options, err := f.options(config)
			if err != nil {
				return err
			}
			options.Groups = groupsOf(server.Groups{})
			ctx, cancel := context.WithTimeout(cmd.Context(), releaseWithin)
			defer cancel()
			return apiservices.Release(ctx, options)
		},
	}
	f.bind(command.Flags())
	command.Flags().StringVar(&kubeconfig, "kubeconfig", "", "`file` that says where kube-apiserver is; the pod's account without it")
	return command
}
