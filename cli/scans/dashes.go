// SPDX-License-Identifier: Apache-2.0

package scans

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/scanyard/scanyard/cli/session"
	"github.com/scanyard/scanyard/cli/view"
)

// unknownFlag explains an error of the flags: mostly the flags are those of the scanner.
func (o *createOptions) unknownFlag(cmd *cobra.Command, err error) error {
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok {
		return err
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	if near := session.Near(unknown.GetSpecifiedName(), names); unknown.GetSpecifiedShortnames() == "" && len(near) > 0 {
		err = fmt.Errorf("%w: did you mean --%s?", err, near[0])
	}
	return o.behind(cmd, err)
}

// behind adds to an error that parameters of the scanner go behind --, and the command line as it should be.
func (o *createOptions) behind(cmd *cobra.Command, err error) error {
	advice := cmd.CommandPath() + " TYPE -- PARAMETERS"
	if i := slices.Index(o.session.Args, cmd.Name()); i >= 0 {
		advice = view.Quoted(slices.Concat(o.session.Args[:i+1], withDashes(cmd.Flags(), o.session.Args[i+1:])))
		advice = o.session.Program + " " + advice
	}
	separator := ": "
	if strings.HasSuffix(err.Error(), "?") {
		separator = " "
	}
	return fmt.Errorf("%w%sparameters of the scanner go behind --: %s", err, separator, advice)
}

// withDashes inserts --: our flags and the type go in front of it, everything else behind it.
func withDashes(flags *pflag.FlagSet, args []string) []string {
	var front, behind []string
	typed := false
	for i := 0; i < len(args); i++ {
		arg := args[i]
		switch n := ours(flags, args[i:]); {
		case arg == "--":
			behind = append(behind, args[i+1:]...)
			i = len(args)
		case n > 0:
			front = append(front, args[i:min(i+n, len(args))]...)
			i += n - 1
		case !typed && !strings.HasPrefix(arg, "-"):
			typed = true
			front = append(front, arg)
		default:
			behind = append(behind, arg)
		}
	}
	return slices.Concat(front, []string{"--"}, behind)
}

// ours returns how many of the arguments are a flag of ours with its value; 0 if the first is not one. A short flag with its
// value in the same word, such as -nteam, counts only if the value is a word of its own, as in -n team: it is more likely a
// flag of the scanner.
func ours(flags *pflag.FlagSet, args []string) int {
	name, _, hasValue := strings.Cut(args[0], "=")
	var f *pflag.Flag
	switch long, isLong := strings.CutPrefix(name, "--"); {
	case isLong && long != "":
		f = flags.Lookup(long)
	case len(name) == 2 && name[0] == '-' && name[1] != '-':
		f = flags.ShorthandLookup(name[1:])
	}
	switch {
	case f == nil:
		return 0
	case hasValue || f.NoOptDefVal != "":
		return 1
	}
	if f.Name == "namespace" && len(args) > 1 && !isNamespace(args[1]) {
		return 0
	}
	return 2
}
