// SPDX-License-Identifier: Apache-2.0

package sqldb

import (
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Driver names the kind of database.
type Driver string

// The databases there are. MySQL is MariaDB as well.
const (
	SQLite     Driver = "sqlite"
	PostgreSQL Driver = "postgresql"
	MySQL      Driver = "mysql"
)

// MigrateMode says whether Open changes the schema.
type MigrateMode string

// Ways to treat a schema that is older than the program.
const (
	MigrateAuto MigrateMode = "auto" // bring it up to date; the default
	MigrateOff  MigrateMode = "off"  // refuse to open it
	MigrateOnly MigrateMode = "only" // bring it up to date; the program ends then
)

// Secret is a text that prints itself redacted.
type Secret string

// String returns a placeholder.
func (Secret) String() string { return "[redacted]" }

// GoString returns a placeholder.
func (Secret) GoString() string { return "[redacted]" }

// TLSFiles are files of certificates, as PEM. They may be missing.
type TLSFiles struct {
	// CA has signed the server's certificate. Without it the authorities of the machine count.
	CA string
	// Cert and Key show who the program is. They are read at each connection, so that they may be renewed.
	Cert, Key string
}

// Config says which database is opened, and how.
type Config struct {
	Driver Driver
	// DSN is the path of the file for SQLite, the data source name of the driver for the others.
	DSN Secret
	// TLS is how MariaDB and MySQL are trusted, and how they know the program. PostgreSQL has parameters of its data source
	// name and variables for that.
	TLS TLSFiles
	// Schema names the schema (PostgreSQL) that holds all tables, so that several clusters can share one database.
	// Empty is the schema of the connection.
	Schema string
	// MaxConnections is how many connections the process opens. One writes; of a database that other processes share one asks whether
	// it answers, and of PostgreSQL one listens; all others read, at least one. Default 10.
	MaxConnections int
	// Migrate says what happens to an older schema. Default MigrateAuto.
	Migrate MigrateMode
	// SynchronousFull makes SQLite wait for the disk at each commit. By default a power cut may lose the last commits,
	// which is then noticed at the start.
	SynchronousFull bool
	// MaxPages bounds the size of a SQLite file, in pages of 4 KiB. 0 means no bound.
	MaxPages int
	// Wait is how long a request waits for a connection. Default 5 seconds.
	Wait time.Duration
	// MigrationWait is how long a process waits for another one that migrates. Default 2 minutes.
	MigrationWait time.Duration
	// Probe is after how long a transaction has the database asked whether it answers at all, and how long that may take.
	// Default 2 seconds, so that a request hears within 5 seconds that the database is away.
	Probe time.Duration
}

// Validate returns every mistake of the configuration.
func (c *Config) Validate() field.ErrorList {
	var errs field.ErrorList
	switch c.Driver {
	case SQLite, PostgreSQL, MySQL:
	default:
		errs = append(errs, field.NotSupported(field.NewPath("driver"), c.Driver, []Driver{SQLite, PostgreSQL, MySQL}))
	}
	if c.DSN == "" {
		errs = append(errs, field.Required(field.NewPath("dsn"), ""))
	}
	if (c.TLS.Cert == "") != (c.TLS.Key == "") {
		errs = append(errs, field.Invalid(field.NewPath("tls"), c.TLS.Cert, "a certificate and its key must be given together"))
	}
	if c.TLS != (TLSFiles{}) && c.Driver != MySQL {
		errs = append(errs, field.Forbidden(field.NewPath("tls"),
			"is for MariaDB and MySQL; SQLite has no connection, and PostgreSQL takes sslrootcert, sslcert and sslkey"))
	}
	if c.MaxConnections < 0 || c.MaxConnections == 1 {
		errs = append(errs, field.Invalid(field.NewPath("maxConnections"), c.MaxConnections, "must be 2 or more: one connection writes"))
	}
	switch c.Migrate {
	case "", MigrateAuto, MigrateOff, MigrateOnly:
	default:
		errs = append(errs, field.NotSupported(field.NewPath("migrate"), c.Migrate, []MigrateMode{MigrateAuto, MigrateOff, MigrateOnly}))
	}
	return errs
}

// readers is how many connections are left to read with, beside those that do something else.
func (c *Config) readers(others int) int { return max(1, c.MaxConnections-others) }

func (c *Config) withDefaults() Config {
	full := *c
	if full.MaxConnections == 0 {
		full.MaxConnections = 10
	}
	if full.Migrate == "" {
		full.Migrate = MigrateAuto
	}
	if full.Wait == 0 {
		full.Wait = 5 * time.Second
	}
	if full.Probe == 0 {
		full.Probe = 2 * time.Second
	}
	if full.MigrationWait == 0 {
		full.MigrationWait = 2 * time.Minute
	}
	return full
}
