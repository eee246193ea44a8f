// SPDX-License-Identifier: Apache-2.0

package sqldb

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
)

// mysqlDialect is MariaDB 10.6 and newer, and MySQL 8.0.16 and newer.
type mysqlDialect struct{}

const (
	mysqlMinPacket = 32 << 20
	mysqlIsolation = "REPEATABLE-READ"
	mysqlLockName  = "scanyard_reports_migration"
)

func (mysqlDialect) open(ctx context.Context, config Config) (pools, error) {
	connector, err := mysqlConnector(config)
	if err != nil {
		return pools{}, err
	}
	writer := sql.OpenDB(connector)
	writer.SetMaxOpenConns(1)
	if err := checkMySQL(ctx, writer); err != nil {
		return pools{}, errors.Join(err, writer.Close())
	}
	const others = 2 // the writer and the probe
	return pools{writer: writer, readers: newPool(sql.OpenDB(connector), config.readers(others)), probe: newPool(sql.OpenDB(connector), 1)}, nil
}

func (mysqlDialect) replica(config Config) (pools, error) {
	connector, err := mysqlConnector(config)
	if err != nil {
		return pools{}, err
	}
	return pools{readers: newPool(sql.OpenDB(connector), config.readers(1)), probe: newPool(sql.OpenDB(connector), 1)}, nil
}

func mysqlConnector(config Config) (driver.Connector, error) {
	parsed, err := mysql.ParseDSN(string(config.DSN))
	if err != nil {
		return nil, errors.New("the DSN is not valid: must be user:password@protocol(address)/database of MariaDB or MySQL")
	}
	parsed.ClientFoundRows = true
	parsed.InterpolateParams = true
	parsed.MaxAllowedPacket = 0 // that of the server
	parsed.Logger = &mysql.NopLogger{}
	if parsed.Timeout == 0 {
		parsed.Timeout = config.Wait
	}
	if err := secure(parsed, config.TLS); err != nil {
		return nil, err
	}
	if parsed.Params == nil {
		parsed.Params = map[string]string{}
	}
	parsed.Params["sql_mode"] = "'ANSI_QUOTES,STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'"
	parsed.Params["innodb_lock_wait_timeout"] = "5"
	connector, err := mysql.NewConnector(parsed)
	if err != nil {
		return nil, errors.New("the DSN is not valid")
	}
	return connector, nil
}

// secure has connections over a network encrypted and the server's name and certificate verified, unless the data source
// name says otherwise.
func secure(parsed *mysql.Config, files TLSFiles) error {
	switch {
	case parsed.TLSConfig == "true":
	case parsed.TLSConfig != "", parsed.Net == "unix":
		if files != (TLSFiles{}) {
			return errors.New("certificates for the database are given, but its data source name does without them: tls must be true in it, or missing")
		}
		return nil
	}
	host, _, err := net.SplitHostPort(parsed.Addr)
	if err != nil {
		return errors.New("the DSN is not valid: the address must be host:port")
	}
	parsed.TLSConfig = "true"
	parsed.TLS = &tls.Config{MinVersion: tls.VersionTLS12, ServerName: host}
	if files.CA != "" {
		bundle, err := os.ReadFile(files.CA)
		if err != nil {
			return fmt.Errorf("read the authority of the database: %w", err)
		}
		parsed.TLS.RootCAs = x509.NewCertPool()
		if !parsed.TLS.RootCAs.AppendCertsFromPEM(bundle) {
			return fmt.Errorf("read the authority of the database: %s holds no certificate", files.CA)
		}
	}
	if files.Cert != "" {
		parsed.TLS.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
			return &pair, err
		}
	}
	return nil
}

// checkMySQL refuses servers that would lose or refuse data later on.
func checkMySQL(ctx context.Context, db *sql.DB) error {
	var packet int64
	var engine string
	if err := db.QueryRowContext(ctx, `SELECT @@max_allowed_packet, @@default_storage_engine`).Scan(&packet, &engine); err != nil {
		if answer, ok := errors.AsType[*mysql.MySQLError](err); ok {
			return fmt.Errorf("connect to MariaDB or MySQL: error %d", answer.Number)
		}
		if errors.Is(err, mysql.ErrNoTLS) {
			return errors.New("connect to MariaDB or MySQL: the server does not offer TLS; tls=false in the data source name does without")
		}
		if untrusted, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
			return fmt.Errorf("connect to MariaDB or MySQL: %w", untrusted)
		}
		return errors.New("connect to MariaDB or MySQL: the server does not answer")
	}
	if packet < mysqlMinPacket {
		return fmt.Errorf("max_allowed_packet must be %d or more, is %d: set it in the server's configuration", mysqlMinPacket, packet)
	}
	if !strings.EqualFold(engine, "InnoDB") {
		return fmt.Errorf("default_storage_engine must be InnoDB, is %s", engine)
	}
	// MariaDB before 11.1 calls the variable tx_isolation, MySQL 8 transaction_isolation.
	var name, isolation string
	err := db.QueryRowContext(ctx, `SHOW VARIABLES WHERE Variable_name IN ('transaction_isolation', 'tx_isolation')`).Scan(&name, &isolation)
	if err != nil {
		return errors.New("connect to MariaDB or MySQL: the server does not tell its transaction_isolation")
	}
	if isolation != mysqlIsolation {
		return fmt.Errorf("%s must be %s, is %s: set it in the server's configuration", name, mysqlIsolation, isolation)
	}
	return nil
}

func (mysqlDialect) rebind(query string) string { return query }

func (mysqlDialect) lockCounter() string { return `SELECT v FROM meta WHERE k = 'rv' FOR UPDATE` }

func (mysqlDialect) addTo(_ string, _, columns []string) string {
	sets := make([]string, 0, len(columns))
	for _, column := range columns {
		sets = append(sets, column+" = "+column+" + VALUES("+column+")")
	}
	return " ON DUPLICATE KEY UPDATE " + strings.Join(sets, ", ")
}

func (mysqlDialect) arrays() bool { return false }

func (mysqlDialect) orKeep(column string) string {
	return " ON DUPLICATE KEY UPDATE " + column + " = VALUES(" + column + ")"
}

func (mysqlDialect) migrationLock(ctx context.Context, db *sql.DB, wait time.Duration, fn func(*sql.Conn) error) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // gives the connection back
	// The name of the lock is the server's; the database belongs into it.
	var locked sql.NullInt64
	if err := conn.QueryRowContext(ctx, `SELECT GET_LOCK(SHA1(CONCAT(DATABASE(), ?)), ?)`, mysqlLockName, int(wait.Seconds())).Scan(&locked); err != nil {
		return fmt.Errorf("wait for another process that migrates: %w", err)
	}
	if locked.Int64 != 1 {
		return fmt.Errorf("another process has been migrating the schema for more than %s", wait)
	}
	err = fn(conn)
	_, unlockErr := conn.ExecContext(context.WithoutCancel(ctx), `DO RELEASE_LOCK(SHA1(CONCAT(DATABASE(), ?)))`, mysqlLockName)
	return errors.Join(err, unlockErr)
}

// alreadyThere: a table, an index or a column of an interrupted migration, as each statement commits by itself.
func (mysqlDialect) alreadyThere(err error) bool {
	var answer *mysql.MySQLError
	return errors.As(err, &answer) && (answer.Number == 1050 || answer.Number == 1060 || answer.Number == 1061)
}

func (mysqlDialect) columns() columnTypes {
	return columnTypes{
		Key: "VARCHAR(768) CHARACTER SET ascii COLLATE ascii_bin", Bytes: "LONGBLOB", Int: "BIGINT", Small: "SMALLINT",
		Long: "TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
		Real: "DOUBLE", ascii: "CHARACTER SET ascii COLLATE ascii_bin", ofTable: true,
	}
}

func (mysqlDialect) classify(err error) Class {
	if errors.Is(err, mysql.ErrInvalidConn) {
		return ClassAway
	}
	var answer *mysql.MySQLError
	if !errors.As(err, &answer) {
		return ClassOther
	}
	switch answer.Number {
	case 1021, 1041, 1114:
		return ClassFull
	case 1205, 1213, 3024, 1969:
		return ClassBusy
	case 1040, 1053, 1290, 1792, 1836, 1927, 4031:
		return ClassAway
	}
	return ClassOther
}

func (mysqlDialect) notify() string { return "" }

func (mysqlDialect) listen(ctx context.Context, _ Config, _, _ func()) error {
	<-ctx.Done()
	return nil
}
