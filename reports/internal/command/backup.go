// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/scanyard/scanyard/reports/internal/bucket"
	"github.com/scanyard/scanyard/reports/internal/sqldb"
)

// bucketVariables tells which bucket is meant.
const bucketVariables = "S3_ENDPOINT, S3_PORT, S3_USE_SSL, S3_BUCKET, S3_REGION, S3_PATH_STYLE, S3_CA_FILE, S3_AUTH_TYPE, S3_AWS_STS_ENDPOINT, " +
	"MINIO_ACCESS_KEY and MINIO_SECRET_KEY, as the operator reads them"

// bucketFlags say which bucket backups are in.
type bucketFlags struct {
	on      bool
	prefix  string
	scratch string
}

func (f *bucketFlags) bind(flags *pflag.FlagSet, what string) {
	flags.BoolVar(&f.on, "bucket", false, what)
	flags.StringVar(&f.prefix, "prefix", "reports/", "what the names in the bucket begin with")
	flags.StringVar(&f.scratch, "scratch", "", "`directory` with room for one copy on its way to or from the bucket; otherwise that of temporary files")
}

func (f *bucketFlags) open(getenv func(string) string) (*bucket.Bucket, error) {
	return bucket.Open(bucket.FromEnvironment(getenv, f.prefix))
}

// withScratch gives a function a folder of its own.
func (f *bucketFlags) withScratch(use func(folder string) error) (err error) {
	folder, err := os.MkdirTemp(f.scratch, "reports-backup-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	return use(folder)
}

// backupFlags say where a backup goes.
type backupFlags struct {
	database  databaseFlags
	bucket    bucketFlags
	directory string
	keep      int
}

func newBackup(out io.Writer, getenv func(string) string) *cobra.Command {
	f := &backupFlags{}
	command := &cobra.Command{
		Use: "backup [FILE]", Args: cobra.MaximumNArgs(1), Short: "Copy a SQLite database as of now into a new file or a bucket, also while it is served",
		Long: "Copy a SQLite database as of now into a new file. A server may go on serving it: the copy is consistent, and nobody waits for it. " +
			"Run it where the file is, for example in the server's pod. With --directory the file gets a name with the time, and once it is written " +
			"and checked, older copies in the directory beyond --keep are deleted. With --bucket the same happens in a bucket of object storage, which is named by " +
			bucketVariables + ". For PostgreSQL use pg_dump, for MariaDB and MySQL mariadb-dump or mysqldump with --single-transaction.\n\n" +
			"It ends with 0 once the copy is written and checked, else with 1.",
		RunE: func(cmd *cobra.Command, args []string) error {
			config, err := f.database.config(getenv)
			if err != nil {
				return err
			}
			if err := f.validate(args); err != nil {
				return err
			}
			switch {
			case f.bucket.on:
				return f.intoBucket(cmd.Context(), out, getenv, config)
			case f.directory != "":
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
	f.bucket.bind(command.Flags(), "make a copy with the time as its name in a bucket of object storage, instead of FILE")
	command.Flags().StringVar(&f.directory, "directory", "", "make a file with the time as its name in this directory, instead of FILE")
	command.Flags().IntVar(&f.keep, "keep", 7, "how many copies of --directory or --bucket are kept")
	return command
}

func (f *backupFlags) validate(args []string) error {
	places := len(args)
	for _, given := range []bool{f.directory != "", f.bucket.on} {
		if given {
			places++
		}
	}
	switch {
	case places != 1:
		return errors.New("backup needs either FILE, --directory or --bucket")
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
		if err := tellRemoved(out, removed); err != nil {
			return err
		}
	}
	return nil
}

func (f *backupFlags) intoBucket(ctx context.Context, out io.Writer, getenv func(string) string, config sqldb.Config) error {
	into, err := f.bucket.open(getenv)
	if err != nil {
		return err
	}
	newest := sqldb.BackupName(time.Now()) //nolint:forbidigo // a command has no clock to hand on
	err = f.bucket.withScratch(func(folder string) error {
		file := filepath.Join(folder, newest)
		revision, size, err := sqldb.Backup(ctx, config, file)
		if err != nil {
			return err
		}
		if err := into.Put(ctx, newest, file); err != nil {
			return err
		}
		return tellBackup(out, into.Place(newest), revision, size)
	})
	if err != nil {
		return err
	}
	names, err := into.Names(ctx)
	if err != nil {
		return err
	}
	for _, old := range sqldb.Outdated(names, newest, f.keep) {
		if err := into.Remove(ctx, old); err != nil {
			return err
		}
		if err := tellRemoved(out, into.Place(old)); err != nil {
			return err
		}
	}
	return nil
}

func tellBackup(out io.Writer, file string, revision, size int64) error {
	_, err := fmt.Fprintf(out, "Backup written to %s: resourceVersion %d, %d bytes.\n", file, revision, size)
	return err
}

func tellRemoved(out io.Writer, file string) error {
	_, err := fmt.Fprintf(out, "Older backup %s removed.\n", file)
	return err
}

// restoreFlags say where a backup comes from.
type restoreFlags struct {
	database databaseFlags
	bucket   bucketFlags
}

func newRestore(out io.Writer, getenv func(string) string) *cobra.Command {
	f := &restoreFlags{}
	command := &cobra.Command{
		Use: "restore [FILE]", Args: cobra.MaximumNArgs(1), Short: "Make a backup the SQLite database; no server may be using it",
		Long: "Make a backup the SQLite database. What was there is kept beside it. Everybody who watches has to list again, since numbers of the lost time " +
			"are known to them. With --bucket FILE is the name of a copy in a bucket of object storage, by default that of the newest one. The bucket is named by " +
			bucketVariables + ". For the other databases restore with their tools, and start the server with --restored once.\n\n" +
			"It ends with 0 once the database is restored, with 3 if a server is using it, with 4 if the backup needs a newer program, else with 1; then " +
			"nothing has changed.",
		RunE: func(cmd *cobra.Command, args []string) error {
			config, err := f.database.config(getenv)
			if err != nil {
				return err
			}
			if f.bucket.on {
				return f.fromBucket(cmd.Context(), out, getenv, config, args)
			}
			if len(args) == 0 {
				return errors.New("restore needs FILE, or --bucket")
			}
			return restore(cmd.Context(), out, config, args[0], args[0])
		},
	}
	f.database.bind(command.Flags())
	f.bucket.bind(command.Flags(), "FILE is the name of a copy in a bucket of object storage; the newest one without it")
	return command
}

func (f *restoreFlags) fromBucket(ctx context.Context, out io.Writer, getenv func(string) string, config sqldb.Config, args []string) error {
	from, err := f.bucket.open(getenv)
	if err != nil {
		return err
	}
	name := ""
	if len(args) > 0 {
		name = args[0]
	} else if name, err = newest(ctx, from); err != nil {
		return err
	}
	return f.bucket.withScratch(func(folder string) error {
		file := filepath.Join(folder, "backup.db")
		if err := from.Get(ctx, name, file); err != nil {
			return err
		}
		return restore(ctx, out, config, file, from.Place(name))
	})
}

// newest is the name of the youngest copy in a bucket.
func newest(ctx context.Context, from *bucket.Bucket) (string, error) {
	names, err := from.Names(ctx)
	if err != nil {
		return "", err
	}
	copies := sqldb.Backups(names)
	if len(copies) == 0 {
		return "", fmt.Errorf("%s has no backup", from.Place(""))
	}
	return copies[len(copies)-1], nil
}

// restore makes a file the database; place is where the file came from.
func restore(ctx context.Context, out io.Writer, config sqldb.Config, file, place string) error {
	kept, err := sqldb.Restore(ctx, config, file)
	if err != nil {
		return err
	}
	text := fmt.Sprintf("Restored from %s.\n", place)
	if kept != "" {
		text += fmt.Sprintf("What was there is kept as %s.\n", kept)
	}
	_, err = io.WriteString(out, text)
	return err
}
