// SPDX-License-Identifier: Apache-2.0

// Command release makes a release of a version: the command line for several platforms, container images, charts, checksums, SBOMs,
// signatures and a release note, in a folder and, where a registry is named, in that registry.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/spf13/cobra"

	"github.com/scanyard/scanyard/scanners/internal/registry"
	"github.com/scanyard/scanyard/scanners/internal/release"
	"github.com/scanyard/scanyard/scanners/internal/signing"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	err := newCommand().ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	version, registry, key, dist, root, images string
	dryRun, insecure                           bool
	only                                       release.Wishes
}

func newCommand() *cobra.Command {
	o := &options{}
	cmd := &cobra.Command{
		Use: "release", Short: "Make a release of the commit that is checked out", Args: cobra.NoArgs,
		Long: `Make a release of the commit that is checked out. The changelog's "Unreleased" becomes the section of the version, and is committed.
Everything is built below DIST first; only then the commit is tagged, and images and charts are pushed. The same commit gives the same
bytes. A release that was interrupted goes on when the command is run again.

The key is a private ECDSA key in PEM, as of "cosign generate-key-pair"; COSIGN_PASSWORD is its password.`,
		SilenceUsage: true, SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd) },
	}
	f := cmd.Flags()
	f.StringVar(&o.version, "version", "", "the version, as v0.2.0")
	f.StringVar(&o.registry, "registry", "",
		"registry and prefix that images and charts are pushed to, with the credentials of \"docker login\" (default: nothing is pushed)")
	f.StringVar(&o.key, "key", "", "file of the private key (default: nothing is signed)")
	f.StringVar(&o.dist, "dist", "dist", "the folder that gets a folder of the version")
	f.StringVar(&o.root, "root", ".", "the repository's root")
	f.StringVar(&o.images, "images-program", "", "the program that builds images (default: images beside this program)")
	f.BoolVar(&o.dryRun, "dry-run", false, "look whether all is ready and say what would be done, and do nothing")
	f.BoolVar(&o.insecure, "insecure", false, "allow a registry without TLS (one on this machine may be anyway)")
	f.StringSliceVar(&o.only.Platforms, "platforms", nil,
		"build for these only, as linux/amd64 (default: the command line for all, images for those that they have)")
	f.StringSliceVar(&o.only.Images, "images", nil, "images (default: all that have a lock or need none; none is none)")
	f.StringSliceVar(&o.only.Charts, "charts", nil, "charts (default: all; none is none)")
	return cmd
}

func (o *options) run(cmd *cobra.Command) error {
	m, err := o.maker(cmd)
	if err != nil {
		return err
	}
	wishes := o.only
	wishes.Registry = o.registry
	if wishes.Version, err = release.ParseVersion(o.version); err != nil {
		return err
	}
	key, err := readKey(o.key, os.Getenv("COSIGN_PASSWORD"))
	if err != nil {
		return err
	}
	m.key = key
	plan, err := m.decide(cmd.Context(), wishes)
	if err != nil {
		return fmt.Errorf("nothing was done: %w", err)
	}
	if err := m.mayPush(cmd.Context(), plan); err != nil {
		return fmt.Errorf("nothing was done: %w", err)
	}
	for _, image := range plan.LeftOut {
		m.say("left out is image %s", image)
	}
	if o.dryRun {
		m.say("%s of commit %s would:", plan.Version, plan.Commit)
		for _, step := range plan.Steps(m.key != nil) {
			m.say("  %s", step)
		}
		m.say("nothing was done: this is a dry run")
		return nil
	}
	if plan.Changelog != "" {
		if err := m.commit(cmd.Context(), plan); err != nil {
			return err
		}
		if plan, err = m.decide(cmd.Context(), wishes); err != nil {
			return err
		}
	}
	return m.make(cmd.Context(), plan)
}

func (o *options) maker(cmd *cobra.Command) (*maker, error) {
	root, err := filepath.Abs(o.root)
	if err != nil {
		return nil, err
	}
	dist, err := filepath.Abs(o.dist)
	if err != nil {
		return nil, err
	}
	if o.images == "" {
		self, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("find the program that builds images: %w; name it with --images-program", err)
		}
		o.images = filepath.Join(filepath.Dir(self), "images")
	}
	if o.images, err = filepath.Abs(o.images); err != nil {
		return nil, err
	}
	if _, err := os.Stat(o.images); err != nil {
		return nil, fmt.Errorf("the program that builds images: %w; \"make bin/images\" builds it", err)
	}
	return &maker{
		root: root, dist: dist, images: o.images, environ: os.Environ(), today: time.Now().UTC().Format(time.DateOnly),
		client: &registry.Client{Insecure: o.insecure, Keychain: authn.DefaultKeychain},
		say:    func(format string, args ...any) { fmt.Fprintf(cmd.ErrOrStderr(), format+"\n", args...) },
	}, nil
}

// readKey reads the private key, or returns nil if none is named.
func readKey(file, password string) (*signing.Key, error) {
	if file == "" {
		return nil, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("KEY: %w", err)
	}
	key, err := signing.ReadKey(text, []byte(password))
	if errors.Is(err, signing.ErrPassword) && password == "" {
		return nil, fmt.Errorf("KEY %s: the key is encrypted: put its password into COSIGN_PASSWORD", file)
	}
	if err != nil {
		return nil, fmt.Errorf("KEY %s: %w", file, err)
	}
	return &key, nil
}
