// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	kubectl "k8s.io/kubectl/pkg/cmd"

	"github.com/scanyard/scanyard/tests/localcluster"
	"github.com/scanyard/scanyard/tests/testcluster/usage"
)

func downCommand(dataDir *string) *cobra.Command {
	var keep bool
	c := &cobra.Command{
		Use:   "down",
		Short: "Stop the cluster and remove the files that it made",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := layout(*dataDir)
			if err != nil {
				return err
			}
			s, err := localcluster.LoadState(l)
			if err != nil {
				return err
			}
			if err := localcluster.StopSupervisor(localcluster.NewControl(l), s); err != nil {
				return err
			}
			if keep {
				fmt.Fprintln(cmd.OutOrStdout(), "stopped; its data is kept in", l)
				return nil
			}
			if err := localcluster.Remove(l); err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), "stopped and removed")
			return nil
		},
	}
	c.Flags().BoolVar(&keep, "keep-data", false, "only stop it; the next up goes on with the same data")
	return c
}

// oneComponent accepts the name of a component, and lists them otherwise.
func oneComponent(_ *cobra.Command, args []string) error {
	if len(args) != 1 || !slices.Contains(localcluster.Components, args[0]) {
		return fmt.Errorf("name one component: %s", strings.Join(localcluster.Components, ", "))
	}
	return nil
}

// running finds the cluster that a command is about.
func running(dataDir string) (*localcluster.Cluster, error) {
	return localcluster.Attach(dataDir)
}

func statusCommand(dataDir *string) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show the components, and how to reach the cluster",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := running(*dataDir)
			if err != nil {
				return err
			}
			list, err := c.Status(cmd.Context())
			if err != nil {
				return err
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "COMPONENT\tSTATE\tPID\tSTARTS\tMEMORY\tAGE")
			for _, s := range list {
				if !s.Running {
					fmt.Fprintf(w, "%s\tdown (%s)\t-\t%d\t-\t-\n", s.Name, s.Exit, s.Starts)
					continue
				}
				fmt.Fprintf(w, "%s\trunning\t%d\t%d\t%s\t%s\n", s.Name, s.PID, s.Starts, residentMemory(s.PID), time.Since(s.Since).Round(time.Second))
			}
			o := c.ObjectStore
			fmt.Fprintf(
				w, "\nKUBECONFIG\t%s\nS3 endpoint\t%s\nS3 bucket\t%s\nS3 access key\t%s\nS3 secret key\t%s\n", c.Kubeconfig, o.URL(), o.Bucket,
				o.AccessKey, o.SecretKey,
			)
			return w.Flush()
		},
	}
}

// residentMemory reads what a process holds in memory.
func residentMemory(pid int) string {
	used, err := usage.Of(pid)
	if err != nil {
		return "-"
	}
	return fmt.Sprintf("%d MiB", used.Resident>>20)
}

func kubeconfigCommand(dataDir *string) *cobra.Command {
	return &cobra.Command{
		Use:   "kubeconfig",
		Short: "Print the path of the admin's kubeconfig",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			l, err := layout(*dataDir)
			if err != nil {
				return err
			}
			if _, err := localcluster.LoadState(l); err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), l.Kubeconfig())
			return nil
		},
	}
}

func actionCommand(dataDir *string, action, short string) *cobra.Command {
	return &cobra.Command{
		Use:       action + " COMPONENT",
		Short:     short,
		Long:      short + ". The components are " + strings.Join(localcluster.Components, ", ") + ".",
		Args:      oneComponent,
		ValidArgs: localcluster.Components,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := running(*dataDir)
			if err != nil {
				return err
			}
			l, err := layout(c.DataDir)
			if err != nil {
				return err
			}
			began := time.Now()
			if err := localcluster.NewControl(l).Do(cmd.Context(), action, args[0]); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s %s: done in %.1f s\n", action, args[0], time.Since(began).Seconds())
			return nil
		},
	}
}

// storedCommand is a command about what the cluster has stored.
func storedCommand(dataDir *string, name, short, long string, do func(context.Context, localcluster.Layout, *localcluster.State) error) *cobra.Command {
	return &cobra.Command{
		Use:   name,
		Short: short,
		Long:  short + ". " + long,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := running(*dataDir)
			if err != nil {
				return err
			}
			l, err := layout(c.DataDir)
			if err != nil {
				return err
			}
			s, err := localcluster.LoadState(l)
			if err != nil {
				return err
			}
			return do(cmd.Context(), l, s)
		},
	}
}

func logsCommand(dataDir *string) *cobra.Command {
	return &cobra.Command{
		Use:       "logs COMPONENT",
		Short:     "Print the log of a component",
		Args:      oneComponent,
		ValidArgs: localcluster.Components,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			l, err := layout(*dataDir)
			if err != nil {
				return err
			}
			if _, err := localcluster.LoadState(l); err != nil {
				return err
			}
			f, err := os.Open(l.LogFile(args[0]))
			if err != nil {
				return fmt.Errorf("read log: %w", err)
			}
			defer func() { err = errors.Join(err, f.Close()) }()
			_, err = io.Copy(cmd.OutOrStdout(), f)
			return err
		},
	}
}

func assetsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "assets DIR",
		Short: "Link etcd, kube-apiserver and kubectl into DIR, for KUBEBUILDER_ASSETS",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			bin, err := os.Executable()
			if err != nil {
				return fmt.Errorf("find this program: %w", err)
			}
			dir, err := filepath.Abs(args[0])
			if err != nil {
				return err
			}
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return fmt.Errorf("make assets folder: %w", err)
			}
			for _, name := range []string{"etcd", "kube-apiserver", "kubectl"} {
				if err := link(bin, filepath.Join(dir, name)); err != nil {
					return err
				}
			}
			fmt.Fprintf(cmd.OutOrStdout(), "export KUBEBUILDER_ASSETS=%s\n", dir)
			return nil
		},
	}
}

// link makes or renews a symbolic link; anything else of that name is kept.
func link(target, path string) error {
	if st, err := os.Lstat(path); err == nil {
		if st.Mode()&os.ModeSymlink == 0 {
			return fmt.Errorf("%s exists and is not a link: remove it, or choose another folder", path)
		}
		if err := os.Remove(path); err != nil {
			return fmt.Errorf("renew link: %w", err)
		}
	}
	if err := os.Symlink(target, path); err != nil {
		return fmt.Errorf("link asset: %w", err)
	}
	return nil
}

func kubectlCommand(dataDir *string) *cobra.Command {
	return &cobra.Command{
		Use:                "kubectl ARGS...",
		Short:              "Run kubectl against the cluster",
		DisableFlagParsing: true,
		RunE: func(_ *cobra.Command, args []string) error {
			dir := *dataDir
			// Flags belong to kubectl here, except a leading --data-dir.
			if len(args) > 0 {
				if v, ok := strings.CutPrefix(args[0], "--data-dir="); ok {
					dir, args = v, args[1:]
				} else if args[0] == "--data-dir" && len(args) > 1 {
					dir, args = args[1], args[2:]
				}
			}
			c, err := running(dir)
			if err != nil {
				return err
			}
			if err := os.Setenv("KUBECONFIG", c.Kubeconfig); err != nil {
				return err
			}
			os.Args = slices.Concat([]string{"kubectl"}, args)
			if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
				os.Exit(1) // kubectl has printed it
			}
			return nil
		},
	}
}
