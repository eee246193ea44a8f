// SPDX-License-Identifier: Apache-2.0

// Command images builds the container images of this repository from the recipes in scanners/images, without a
// Docker daemon and without root, and pushes them to a registry.
package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	err := newCommand(environment{Environ: os.Environ(), LookupEnv: os.LookupEnv, Now: time.Now(), Apt: os.DirFS("/etc/apt")}).ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "images:", err)
		os.Exit(1)
	}
}

// environment is what the command takes from its surroundings, other than flags.
type environment struct {
	Environ   []string
	LookupEnv func(string) (string, bool)
	Now       time.Time
	// Apt is the folder with apt's configuration of mirrors.
	Apt fs.FS
}

func newCommand(env environment) *cobra.Command {
	o := &options{environment: env}
	root := &cobra.Command{
		Use:           "images",
		Short:         "Build the container images of this repository from recipes",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	f := root.PersistentFlags()
	f.StringVar(&o.root, "root", "", "the repository's root, with go.work (default: found from the current folder upwards)")
	f.StringVar(&o.recipes, "recipes", "", "the folder of recipes (default: scanners/images below the root)")
	f.StringVar(&o.cache, "cache", "", "where Debian packages are kept (default: in the user's cache folder)")
	f.StringVar(&o.mirror, "mirror", "", "the Debian archive (default: that of this machine's apt); packages are checked, so plain HTTP is safe")
	f.StringVar(
		&o.securityMirror, "security-mirror", "",
		"the archive of Debian's security updates (default: that of this machine's apt, or the one beside --mirror)",
	)
	f.BoolVar(&o.insecure, "insecure", false, "allow registries without TLS (those on this machine may be anyway)")
	root.AddCommand(newList(o), newBuild(o), newPush(o), newLock(o))
	return root
}
