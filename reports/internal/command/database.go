// SPDX-License-Identifier: Apache-2.0

package command

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/scanyard/scanyard/reports/internal/mvcc"
	"github.com/scanyard/scanyard/reports/internal/sqldb"
)

// dsnVariable is the variable of the environment that may hold the data source name.
const dsnVariable = "REPORTS_DSN"

// queryVariable is that of the copy that answers questions.
const queryVariable = "REPORTS_QUERY_DSN"

// databaseFlags say which database is used.
type databaseFlags struct {
	driver         string
	sqlite         string
	dsnFile        string
	schema         string
	migrate        string
	synchronous    string
	maxConnections int
	tls            sqldb.TLSFiles
}

func (d *databaseFlags) bind(flags *pflag.FlagSet) {
	flags.StringVar(&d.driver, "database", string(sqldb.SQLite), "kind of the database: sqlite, postgresql or mysql (MariaDB as well)")
	flags.StringVar(&d.sqlite, "sqlite", "", "`file` of the SQLite database")
	flags.StringVar(&d.dsnFile, "dsn-file", "", "`file` that holds the data source name of the database; otherwise "+dsnVariable+" does")
	flags.StringVar(&d.tls.CA, "db-tls-ca", "",
		"MariaDB and MySQL: `file` of the authority that has signed the server's certificate, instead of those of the machine")
	flags.StringVar(&d.tls.Cert, "db-tls-cert", "", "MariaDB and MySQL: `file` of a client certificate; it is read again at each connection")
	flags.StringVar(&d.tls.Key, "db-tls-key", "", "MariaDB and MySQL: `file` of the key of the client certificate")
	flags.StringVar(&d.schema, "cluster-id", "", "schema of PostgreSQL for all tables, so that several clusters can share a database")
	flags.StringVar(
		&d.migrate, "migrate", string(sqldb.MigrateAuto),
		"what happens to an older schema: auto brings it up to date, only does so and ends, off refuses to open it",
	)
	flags.StringVar(&d.synchronous, "sqlite-synchronous", "NORMAL", "NORMAL, or FULL to wait for the disk at each commit")
	flags.IntVar(&d.maxConnections, "db-max-connections", 10,
		"connections to the database: one writes, with PostgreSQL, MariaDB and MySQL one asks whether the database answers, with PostgreSQL one listens; "+
			"the others read, one at least")
}

// config reads the data source name and checks everything.
func (d *databaseFlags) config(getenv func(string) string) (sqldb.Config, error) {
	config := sqldb.Config{
		Driver: sqldb.Driver(d.driver), Schema: d.schema, Migrate: sqldb.MigrateMode(d.migrate), MaxConnections: d.maxConnections, TLS: d.tls,
	}
	switch strings.ToUpper(d.synchronous) {
	case "NORMAL":
	case "FULL":
		config.SynchronousFull = true
	default:
		return config, fmt.Errorf("--sqlite-synchronous must be NORMAL or FULL, is %q", d.synchronous)
	}
	if d.sqlite != "" {
		if config.Driver != sqldb.SQLite {
			return config, fmt.Errorf("--sqlite is for --database sqlite, not for %s", d.driver)
		}
		config.DSN = sqldb.Secret(d.sqlite)
	} else {
		dsn, err := readDSN(d.dsnFile, getenv(dsnVariable))
		if err != nil {
			return config, err
		}
		config.DSN = dsn
	}
	if err := config.Validate().ToAggregate(); err != nil {
		return config, fmt.Errorf("database: %w", err)
	}
	return config, nil
}

// readDSN reads a data source name from a file or, without one, takes it from the environment.
func readDSN(file, environment string) (sqldb.Secret, error) {
	if file != "" {
		content, err := os.ReadFile(file)
		if err != nil {
			return "", fmt.Errorf("read the data source name: %w", err)
		}
		if dsn := strings.TrimSpace(string(content)); dsn != "" {
			return sqldb.Secret(dsn), nil
		}
		return "", fmt.Errorf("read the data source name: %s is empty", file)
	}
	if environment != "" {
		return sqldb.Secret(environment), nil
	}
	return "", errors.New("which database? --sqlite, --dsn-file or " + dsnVariable + " must say so")
}

// replica prepares questions to a copy of the database, where one is named; nil where none is.
func (f *serveFlags) replica(database sqldb.Config, getenv func(string) string, observer mvcc.Observer) (*mvcc.Replica, error) {
	environment := getenv(queryVariable)
	if f.queryDSNFile == "" && environment == "" {
		return nil, nil
	}
	if database.Driver == sqldb.SQLite {
		return nil, errors.New("--query-dsn-file and " + queryVariable + " are for PostgreSQL, MariaDB and MySQL")
	}
	dsn, err := readDSN(f.queryDSNFile, environment)
	if err != nil {
		return nil, fmt.Errorf("copy for questions: %w", err)
	}
	database.DSN = dsn
	replica, err := mvcc.OpenReplica(database, observer)
	if err != nil {
		return nil, fmt.Errorf("copy for questions: %w", err)
	}
	return replica, nil
}
