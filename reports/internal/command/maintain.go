// SPDX-License-Identifier: Apache-2.0

package command

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/scanyard/scanyard/reports/internal/fsck"
	"github.com/scanyard/scanyard/reports/internal/sqldb"
)

// exitWrong is the code of a check that has found what is wrong, and left it so.
const exitWrong = 2

// errWrong is the error of such a check.
var errWrong = errors.New("the database has wrong numbers")

func newFsck(out io.Writer, getenv func(string) string) *cobra.Command {
	database := &databaseFlags{}
	var repair bool
	command := &cobra.Command{
		Use: "fsck", Args: cobra.NoArgs, Short: "Count anew what the database counts as it goes, and correct it with --repair",
		Long: "Count the references of payloads and documents and the rollups of results anew, and look for rows that lack what they belong to. " +
			"A server may be serving the database meanwhile; with --repair it may not if the database is SQLite, and waits if it is another one.\n\n" +
			"It ends with 0 if nothing is wrong or all was repaired, with 2 if something is wrong, with 3 if a server is using the database, " +
			"with 4 if the database needs a newer program, else with 1.",
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			config, err := database.config(getenv)
			if err != nil {
				return err
			}
			open := sqldb.OpenToRead
			if repair {
				open = sqldb.Open
				config.Migrate = sqldb.MigrateOff
			}
			db, err := open(cmd.Context(), config)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, db.Close()) }()
			findings, err := fsck.Run(cmd.Context(), db, time.Now(), repair) //nolint:forbidigo // a command has no clock to hand on
			if err != nil {
				return err
			}
			return tell(out, findings)
		},
	}
	database.bind(command.Flags())
	command.Flags().BoolVar(&repair, "repair", false, "correct what is wrong")
	return command
}

// tell prints what was found. It returns errWrong if something is still wrong.
func tell(out io.Writer, findings []fsck.Finding) error {
	var wrong error
	for _, finding := range findings {
		verdict := "right"
		switch {
		case finding.Repaired:
			verdict = fmt.Sprintf("%d wrong, repaired", finding.Wrong)
		case finding.Wrong > 0:
			verdict = fmt.Sprintf("%d wrong", finding.Wrong)
			wrong = errWrong
		}
		if _, err := fmt.Fprintf(out, "%s: %s\n", finding.What, verdict); err != nil {
			return err
		}
	}
	return wrong
}
