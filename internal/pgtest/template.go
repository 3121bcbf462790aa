package pgtest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"

	"github.com/jackc/pgx/v5"
)

const (
	testPrefix     = "belfry_test_"
	templatePrefix = "belfry_template_"
)

// templateLock is the key of the advisory lock for finding and creating a template. It belongs to a transaction, so it
// cannot outlive its holder.
const templateLock = 0x62656c66727901 // "belfry", 1

// clone creates a database from the template.
func (s *server) clone(ctx context.Context, name string) error {
	for try := 1; ; try++ {
		template, err := s.findTemplate(ctx)
		if err != nil {
			return err
		}
		// FILE_COPY would make two checkpoints, which take ten times as long as WAL_LOG.
		err = s.exec(ctx, fmt.Sprintf(`CREATE DATABASE %s TEMPLATE %s STRATEGY WAL_LOG`, quote(name), quote(template)))
		// Tests of other checkouts, with other migrations, may have dropped this template.
		if try == 1 && is(err, undefinedDatabase) {
			s.forget(template)
			continue
		}
		return err
	}
}

// create creates an empty database. The locale is C because every server has it, so the sort order is always the same.
func (s *server) create(ctx context.Context, name string) error {
	return s.exec(ctx, fmt.Sprintf(
		`CREATE DATABASE %s TEMPLATE template0 ENCODING 'UTF8' LOCALE_PROVIDER libc LOCALE 'C' STRATEGY `+
			`WAL_LOG`, quote(name)))
}

// start asks the server for the time, once, and drops what earlier runs left on it.
func (s *server) start(ctx context.Context) (int64, error) {
	s.starting.Lock()
	defer s.starting.Unlock()
	if s.started != 0 {
		return s.started, nil
	}
	conn, err := s.connect(ctx)
	if err != nil {
		return 0, err
	}
	var started int64
	err = conn.QueryRow(ctx, `SELECT extract(epoch FROM now())::bigint`).Scan(&started)
	if err := errors.Join(err, conn.Close(ctx)); err != nil {
		return 0, fmt.Errorf("ask the server for the time: %w", err)
	}
	if err := s.sweep(ctx); err != nil {
		return 0, fmt.Errorf("sweep what earlier runs left: %w", err)
	}
	s.started = started
	return started, nil
}

// findTemplate returns the name of the template. It creates the template if there is none.
func (s *server) findTemplate(ctx context.Context) (string, error) {
	started, err := s.start(ctx) // before the lock, because it takes the same one
	if err != nil {
		return "", err
	}
	s.starting.Lock()
	defer s.starting.Unlock()
	if s.template != "" {
		return s.template, nil
	}
	conn, err := s.connect(ctx)
	if err != nil {
		return "", err
	}
	var template string
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		template, err = s.findOrMake(ctx, tx, started)
		return err
	})
	if err := errors.Join(err, conn.Close(ctx)); err != nil {
		return "", fmt.Errorf("find or make the template: %w", err)
	}
	s.template = template
	return template, nil
}

// forget makes the next clone look for the template again.
func (s *server) forget(template string) {
	s.starting.Lock()
	defer s.starting.Unlock()
	if s.template == template {
		s.template = ""
	}
}

// findOrMake works under a lock that tx holds. CREATE DATABASE needs other connections, because it cannot run in a
// transaction.
func (s *server) findOrMake(ctx context.Context, tx pgx.Tx, started int64) (string, error) {
	if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, templateLock); err != nil {
		return "", fmt.Errorf("lock: %w", err)
	}
	var version string
	if err := tx.QueryRow(ctx, `SHOW server_version_num`).Scan(&version); err != nil {
		return "", fmt.Errorf("ask for the server's version: %w", err)
	}
	hash, err := fingerprint(s.files, version)
	if err != nil {
		return "", err
	}
	template := templatePrefix + hash
	var exists bool
	err = tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)`, template).Scan(&exists)
	if err != nil {
		return "", fmt.Errorf("look for %s: %w", template, err)
	}
	if !exists {
		if err := s.makeTemplate(ctx, template, databaseName(started, "template")); err != nil {
			return "", err
		}
	}
	// The sweep keeps the most recently used templates. The lock also keeps two processes from writing this at once.
	if _, err := tx.Exec(ctx, fmt.Sprintf(`COMMENT ON DATABASE %s IS '%d'`, quote(template), started)); err != nil {
		return "", fmt.Errorf("note the use of %s: %w", template, err)
	}
	return template, nil
}

// makeTemplate makes the template under a temporary name. The name of a template is only ever that of a complete one.
func (s *server) makeTemplate(ctx context.Context, template, temporary string) error {
	err := s.create(ctx, temporary)
	if err == nil {
		err = s.migrate(ctx, s.at(temporary).String())
	}
	if err == nil {
		// No client may connect to it: a connection would prevent cloning. The mark comes last, because
		// PostgreSQL would refuse to drop what bears it; a template that lacks it is cloned all the same.
		err = s.exec(ctx,
			fmt.Sprintf(`ALTER DATABASE %s WITH ALLOW_CONNECTIONS false`, quote(temporary)),
			fmt.Sprintf(`ALTER DATABASE %s RENAME TO %s`, quote(temporary), quote(template)),
			fmt.Sprintf(`ALTER DATABASE %s WITH IS_TEMPLATE true`, quote(template)))
	}
	if err == nil {
		return nil
	}
	// The lock belongs to one database. A process that uses another one for CREATE DATABASE may have been faster.
	if is(err, duplicateDatabase) {
		err = nil
	}
	return errors.Join(err, s.drop(ctx, temporary))
}

// fingerprint returns a hash of the files and the server's version.
func fingerprint(files fs.FS, version string) (string, error) {
	sum := sha256.New() // its Write never fails
	_, _ = fmt.Fprintf(sum, "%s\n", version)
	err := fs.WalkDir(files, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(files, path)
		_, _ = fmt.Fprintf(sum, "%s %d\n%s", path, len(content), content)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("read the migrations: %w", err)
	}
	return hex.EncodeToString(sum.Sum(nil)[:6]), nil
}
