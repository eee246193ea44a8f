// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
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

// backupFlags say where a backup goes.
type backupFlags struct {
	database  databaseFlags
	directory string
	keep      int
}

func newBackup(out io.Writer, getenv func(string) string) *cobra.Command {
	f := &backupFlags{}
	command := &cobra.Command{
		Use: "backup [FILE]", Args: cobra.MaximumNArgs(1), Short: "Copy a SQLite database as of now into a new file, also while it is served",
		Long: "Copy a SQLite database as of now into a new file. A server may go on serving it: the copy is consistent, and nobody waits for it. " +
			"Run it where the file is, for example in the server's pod. With --directory the file gets a name with the time, and once it is written " +
			"and checked, older copies in the directory beyond --keep are deleted. For PostgreSQL use pg_dump, for MariaDB and MySQL mariadb-dump or mysqldump " +
			"with --single-transaction.\n\nIt ends with 0 once the copy is written and checked, else with 1.",
		RunE: func(cmd *cobra.Command, args []string) error {
			config, err := f.database.config(getenv)
			if err != nil {
				return err
			}
			if err := f.validate(args); err != nil {
				return err
			}
			if f.directory != "" {
				return f.intoDirectory(cmd.Context(), out, config)
			}
			revision, size, err := sqldb.Backup(cmd.Context(), config, args[0])
			if err != nil {
				return err
			}
			return tellBackup(out, args[0], revision, size)
		},
	}
	f.database.bind(command.Flags())
	command.Flags().StringVar(&f.directory, "directory", "", "make a file with the time as its name in this directory, instead of FILE")
	command.Flags().IntVar(&f.keep, "keep", 7, "how many copies of --directory are kept")
	return command
}

func (f *backupFlags) validate(args []string) error {
	switch {
	case (f.directory == "") != (len(args) == 1):
		return errors.New("backup needs either FILE or --directory")
	case f.keep < 1:
		return fmt.Errorf("--keep must be at least 1, is %d", f.keep)
	}
	return nil
}

func (f *backupFlags) intoDirectory(ctx context.Context, out io.Writer, config sqldb.Config) error {
	kept, err := sqldb.BackupInto(ctx, config, f.directory, f.keep, time.Now()) //nolint:forbidigo // a command has no clock to hand on
	if err != nil {
		return err
	}
	if err := tellBackup(out, kept.File, kept.Revision, kept.Size); err != nil {
		return err
	}
	for _, removed := range kept.Removed {
		if _, err := fmt.Fprintf(out, "Older backup %s removed.\n", removed); err != nil {
			return err
		}
	}
	return nil
}

func tellBackup(out io.Writer, file string, revision, size int64) error {
	_, err := fmt.Fprintf(out, "Backup written to %s: resourceVersion %d, %d bytes.\n", file, revision, size)
	return err
}

func newRestore(out io.Writer, getenv func(string) string) *cobra.Command {
	database := &databaseFlags{}
	command := &cobra.Command{
		Use: "restore FILE", Args: cobra.ExactArgs(1), Short: "Make a backup the SQLite database; no server may be using it",
		Long: "Make a backup the SQLite database. What was there is kept beside it. Everybody who watches has to list again, since numbers of the lost time " +
			"are known to them. For the other databases restore with their tools, and start the server with --restored once.\n\n" +
			"It ends with 0 once the database is restored, with 3 if a server is using it, with 4 if the backup needs a newer program, else with 1; then " +
			"nothing has changed.",
		RunE: func(cmd *cobra.Command, args []string) error {
			config, err := database.config(getenv)
			if err != nil {
				return err
			}
			kept, err := sqldb.Restore(cmd.Context(), config, args[0])
			if err != nil {
				return err
			}
			text := fmt.Sprintf("Restored from %s.\n", args[0])
			if kept != "" {
				text += fmt.Sprintf("What was there is kept as %s.\n", kept)
			}
			_, err = io.WriteString(out, text)
			return err
		},
	}
	database.bind(command.Flags())
	return command
}

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
