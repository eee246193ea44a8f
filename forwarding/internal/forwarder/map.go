// SPDX-License-Identifier: Apache-2.0

package forwarder

import (
	"bufio"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/scanyard/scanyard/forwarding/internal/cloudevent"
	"github.com/scanyard/scanyard/forwarding/internal/scans"
	"github.com/scanyard/scanyard/forwarding/sink"
)

func newMap(o Options) *cobra.Command {
	f := &sourceFlags{}
	cmd := &cobra.Command{
		Use: "map", Short: "Print the records of one Scan as CloudEvents, one a line, and send nothing", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.print(cmd.Context(), o) },
	}
	f.bind(cmd.Flags())
	return cmd
}

// print prints all records, as a sink would take them that refuses none.
func (f *sourceFlags) print(ctx context.Context, o Options) (err error) {
	source, err := f.source()
	if err != nil {
		return err
	}
	reader, closer, err := f.open(source)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closer.Close()) }()
	out := bufio.NewWriter(o.Out)
	defer func() { err = errors.Join(err, out.Flush()) }()
	var text []byte
	err = scans.Each(reader, func(record sink.Record) (err error) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if text, err = cloudevent.Append(text[:0], reader.Stream(), record); err != nil {
			return fmt.Errorf("record %d: %w", record.Sequence, err)
		}
		_, err = out.Write(append(text, '\n'))
		return err
	})
	for _, rejected := range reader.Rejected() {
		_, telling := fmt.Fprintf(o.Err, "no record: %s: %s\n", rejected.Reason, rejected.Message)
		err = errors.Join(err, telling)
	}
	return err
}
