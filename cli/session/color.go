// SPDX-License-Identifier: Apache-2.0

package session

import (
	"fmt"

	"github.com/spf13/cobra"
)

// color is the flag --color.
type color struct {
	session *Session
	auto    bool // what the terminal and NO_COLOR say
	text    string
}

// colors are the values of --color, each with what completion says of it.
var colors = []cobra.Completion{
	cobra.CompletionWithDesc("auto", "on a terminal, unless NO_COLOR is set"), cobra.CompletionWithDesc("always", "also into files and pipes"), "never",
}

// String is the value of the flag.
func (c *color) String() string { return c.text }

// Type is what help calls the value.
func (c *color) Type() string { return "when" }

// Set takes a value of the flag.
func (c *color) Set(text string) error {
	switch text {
	case "auto":
		c.session.Color = c.auto
	case "always":
		c.session.Color = true
	case "never":
		c.session.Color = false
	default:
		return fmt.Errorf("must be auto, always or never")
	}
	c.text = text
	return nil
}

// BindColor adds the flag --color to a root command.
func (s *Session) BindColor(root *cobra.Command) {
	root.PersistentFlags().Var(&color{s, s.Color, "auto"}, "color", "whether texts are colored: auto (on a terminal, unless NO_COLOR is set), always or never")
	// It fails only for a flag that does not exist.
	_ = root.RegisterFlagCompletionFunc("color", cobra.FixedCompletions(colors, cobra.ShellCompDirectiveNoFileComp))
}
