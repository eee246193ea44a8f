// SPDX-License-Identifier: Apache-2.0

package findings

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"

	"github.com/spf13/cobra"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/cli/complete"
	"github.com/scanyard/scanyard/cli/results"
	"github.com/scanyard/scanyard/cli/session"
	"github.com/scanyard/scanyard/cli/termsafe"
)

// NewRawCommand is "scanyard raw".
func NewRawCommand(s *session.Session) *cobra.Command {
	var (
		file    string
		own     bool
		reading results.Options
	)
	cmd := &cobra.Command{
		Use:   "raw SCAN",
		Short: "Download what the scanner of a Scan wrote",
		Long: `Download the raw result of a Scan as the scanner wrote it, to stdout or into a file.

A download that breaks off goes on where it was. A file is written whole or not at all: until the last
byte is there, what stood under its name stays.

On a terminal, control characters are replaced, since the raw result holds text of the scanned systems.`,
		Example: `  # Look at it
  {{program}} raw nmap-example | less

  # Keep it, under the name it has in storage, or under another
  {{program}} raw nmap-example --own-name
  {{program}} raw nmap-example -O result.xml`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: complete.First(complete.Scans(s)),
		RunE: func(cmd *cobra.Command, args []string) error {
			_, reader, scan, err := connect(cmd.Context(), s, reading, args[0])
			if err != nil {
				return err
			}
			if own {
				if file, err = ownName(scan); err != nil {
					return err
				}
			}
			return s.Explain(raw(cmd.Context(), s, reader, scan, file))
		},
	}
	cmd.Flags().StringVarP(&file, "output-file", "O", "", "write to this `file`, whole or not at all")
	cmd.Flags().BoolVar(&own, "own-name", false, "write to a file of the name that the result has in storage, in the current folder")
	cmd.MarkFlagsMutuallyExclusive("output-file", "own-name")
	reading.BindFlags(cmd.Flags())
	return cmd
}

// ownName returns the name of the raw result without any folder.
func ownName(scan *executionv1.Scan) (string, error) {
	name := path.Base(path.Clean("/" + scan.Status.RawResultFile))
	if scan.Status.RawResultFile == "" || name == "/" {
		return "", fmt.Errorf("the Scan %s does not say what its raw result is called; give -O FILE", scan.Name)
	}
	return name, nil
}

func raw(ctx context.Context, s *session.Session, reader *results.Reader, scan *executionv1.Scan, file string) (err error) {
	body, size, err := reader.OpenMetered(ctx, scan, results.Raw)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, body.Close()) }()
	if file == "" || file == "-" {
		return printRaw(s, body)
	}
	written := int64(0)
	err = results.WriteFile(file, func(out io.Writer) (err error) {
		written, err = io.Copy(out, body)
		return err
	})
	if err != nil {
		return err
	}
	if size >= 0 && written != size {
		return fmt.Errorf("%d bytes came, the store had announced %d", written, size)
	}
	fmt.Fprintf(s.ErrOut, "%s: %s\n", file, results.Bytes(written))
	return nil
}

func printRaw(s *session.Session, body io.Reader) error {
	_, err := io.Copy(s.Data(termsafe.Replace), body)
	return err
}
