// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/spf13/cobra"

	"github.com/scanyard/scanyard/scanners/internal/debian"
	"github.com/scanyard/scanyard/scanners/internal/image"
	"github.com/scanyard/scanyard/scanners/internal/recipe"
	"github.com/scanyard/scanyard/scanners/internal/registry"
)

func newList(o *options) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the recipes", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.complete(); err != nil {
				return err
			}
			all, err := recipe.List(o.recipes)
			if err != nil {
				return err
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "NAME\tPLATFORMS\tMADE OF\tLOCK")
			for _, r := range all {
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", r.Name, platforms(r), madeOf(r), lockState(r))
			}
			return w.Flush()
		},
	}
}

func platforms(r *recipe.Recipe) string {
	var all []string
	for _, p := range r.Platforms {
		all = append(all, p.Arch())
	}
	return strings.Join(all, ",")
}

func madeOf(r *recipe.Recipe) string {
	var all []string
	if r.Base != "" {
		all = append(all, r.Base)
	}
	if r.Debian != nil {
		all = append(all, "Debian "+strings.Join(r.Debian.Packages, " "))
	}
	for _, p := range r.Programs {
		all = append(all, p.Package)
	}
	for _, t := range r.Tools {
		all = append(all, t.Main()+"@"+t.Version)
	}
	return strings.Join(all, ", ")
}

func lockState(r *recipe.Recipe) string {
	if !r.NeedsLock() {
		return "not needed"
	}
	switch _, err := recipe.LoadLock(r); {
	case errors.Is(err, recipe.ErrNoLock):
		return "missing"
	case err != nil:
		return "stale"
	}
	return "yes"
}

func newBuild(o *options) *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use: "build [NAME...]", Short: "Build images as OCI layouts, DIR/NAME each",
		Long: "Build images as OCI layouts, one folder for each. Without names, all recipes are built that have a lock or need\n" +
			"none. The digests go to standard output. SOURCE_DATE_EPOCH, if set, replaces the recipes' dates.",
		RunE: func(cmd *cobra.Command, names []string) error {
			return o.each(cmd, names, func(_ context.Context, full string, set *image.Set) (v1.Hash, error) {
				return registry.WriteLayout(out, full, set)
			})
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "the folder for the layouts")
	o.bindBuild(cmd)
	if err := cmd.MarkFlagRequired("out"); err != nil {
		panic(err) // the flag is two lines above
	}
	return cmd
}

func newPush(o *options) *cobra.Command {
	cmd := &cobra.Command{
		Use: "push [NAME...]", Short: "Build images and push them with their SBOMs to a registry",
		Long: "Build images and push them with their SBOMs to a registry, with the credentials of \"docker login\". Without\n" +
			"names, all recipes are built and pushed that have a lock or need none.",
		RunE: func(cmd *cobra.Command, names []string) error {
			return o.each(cmd, names, o.registryClient().Push)
		},
	}
	o.bindBuild(cmd)
	return cmd
}

// each builds recipes one after the other and hands on each set. All locks are read before anything is built; if
// no recipe was named, those that have none are left out.
func (o *options) each(cmd *cobra.Command, names []string, use func(context.Context, string, *image.Set) (v1.Hash, error)) error {
	if err := o.complete(); err != nil {
		return err
	}
	wanted, err := o.platformsWanted()
	if err != nil {
		return err
	}
	all, err := o.selected(names)
	if err != nil {
		return err
	}
	locks := make([]*recipe.Lock, len(all))
	for i, r := range all {
		locks[i], err = recipe.LoadLock(r)
		if len(names) == 0 && errors.Is(err, recipe.ErrNoLock) {
			// The maintainer of the recipes may have no access to a vendor's registry.
			o.progress(cmd.ErrOrStderr())("%s: left out, since it was never locked: %s", r.Name, r.Remedy())
			continue
		}
		if err != nil {
			return err
		}
	}
	for i, r := range all {
		if locks[i] == nil {
			continue
		}
		if err := o.one(cmd, r, locks[i], wanted, use); err != nil {
			return err
		}
	}
	return nil
}

func (o *options) one(
	cmd *cobra.Command, r *recipe.Recipe, lock *recipe.Lock, wanted []recipe.Platform,
	use func(context.Context, string, *image.Set) (v1.Hash, error),
) (err error) {
	full, err := o.fullName(r)
	if err != nil {
		return err
	}
	temp, err := os.MkdirTemp("", "images-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	b, err := o.builder(cmd.ErrOrStderr(), temp)
	if err != nil {
		return err
	}
	set, err := b.Build(cmd.Context(), r, lock, wanted)
	if err != nil {
		return err
	}
	h, err := use(cmd.Context(), full, set)
	if err != nil {
		return err
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s@%s\n", full, h)
	return nil
}

func newLock(o *options) *cobra.Command {
	cmd := &cobra.Command{
		Use: "lock [NAME...]", Short: "Look up what recipes mean today, and write their " + recipe.LockFile,
		Long: "Look up the packages, modules and vendors' images of recipes, and write what was found beside each recipe. The\n" +
			"result is to be committed. Without names, all recipes are looked up.",
		RunE: func(cmd *cobra.Command, names []string) error {
			if err := o.complete(); err != nil {
				return err
			}
			all, err := o.selected(names)
			if err != nil {
				return err
			}
			for _, r := range all {
				if err := o.lock(cmd.Context(), r, cmd.ErrOrStderr()); err != nil {
					return fmt.Errorf("recipe %s: %w", r.Name, err)
				}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&o.allowExpired, "allow-expired", false, "take signed lists past their end, as those of a snapshot of the archive are")
	return cmd
}

func (o *options) lock(ctx context.Context, r *recipe.Recipe, w io.Writer) error {
	if !r.NeedsLock() {
		return nil
	}
	o.progress(w)("%s: looking up", r.Name)
	l := &recipe.Lock{For: recipe.WishesOf(r)}
	var err error
	if r.Base != "" {
		if l.Base, err = o.registryClient().Resolve(ctx, r.Base); err != nil {
			return err
		}
	}
	for _, t := range r.Tools {
		sum, err := o.goBuilder().Sum(ctx, t)
		if err != nil {
			return err
		}
		l.Tools = append(l.Tools, recipe.ToolLock{Module: t.Module, Sum: sum})
	}
	if r.Debian != nil {
		rel, err := debian.LoadRelease(o.recipes)
		if err != nil {
			return err
		}
		if l.Debian, err = o.debian(w).Lock(ctx, rel, r); err != nil {
			return err
		}
	}
	return l.Save(r)
}
