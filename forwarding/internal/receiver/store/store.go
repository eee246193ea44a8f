// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Format is the version of what is in the directory.
const Format = 1

// Options say how a store is opened.
type Options struct {
	// Directory holds the store. It is made where it is missing, unless ReadOnly.
	Directory string
	// ReadOnly opens a store that no receiver uses, to look at it.
	ReadOnly bool
	// MaxBytes is the size on disk from which on nothing more is taken; 0: until the disk is almost full.
	MaxBytes uint64
	// Now gives the time.
	Now func() time.Time
	// Log takes what the database says.
	Log *slog.Logger
	// FileSystem replaces the disk in tests.
	FileSystem vfs.FS
}

// Errors of Open.
var (
	// ErrInUse: another process has the store open.
	ErrInUse = errors.New("is in use")
	// ErrNewer: a later program wrote the store. It is not touched.
	ErrNewer = errors.New("was written by a newer program")
	// ErrDamaged: what is in the directory cannot be read.
	ErrDamaged = errors.New("is damaged")
)

// ErrFull is returned where the store has no room. Nothing of the batch is stored.
var ErrFull = errors.New("the store is full")

// ErrClosed is returned by a store that was closed.
var ErrClosed = errors.New("the store is closed")

// Store is an open store. All methods may be called at the same time.
type Store struct {
	options  Options
	db       *pebble.DB
	lock     *os.File
	requests chan *request
	// stop ends the writer, which closes stopped.
	stop, stopped chan struct{}
	closing       sync.Once

	// Only the writer uses these.
	streams map[string]*stream
	used    uint64

	mutex    sync.Mutex
	counters counters
}

// description is the file FORMAT.
type description struct {
	Format  int       `json:"format"`
	Created time.Time `json:"created"`
}

// Open opens the store.
func Open(options Options) (*Store, error) {
	if options.Log == nil {
		options.Log = slog.New(slog.DiscardHandler)
	}
	s := &Store{
		options: options, requests: make(chan *request, queued), stop: make(chan struct{}), stopped: make(chan struct{}), streams: map[string]*stream{},
	}
	if err := s.open(); err != nil {
		return nil, errors.Join(err, s.unlock())
	}
	go s.write()
	return s, nil
}

func (s *Store) open() error {
	directory := s.options.Directory
	if s.options.FileSystem == nil {
		if err := s.prepare(); err != nil {
			return err
		}
	}
	cache := pebble.NewCache(32 << 20)
	defer cache.Unref()
	settings := &pebble.Options{
		FS: s.options.FileSystem, ReadOnly: s.options.ReadOnly, Cache: cache, FormatMajorVersion: pebble.FormatColumnarBlocks,
		MemTableSize: 16 << 20, L0CompactionThreshold: 4, Logger: logger{s.options.Log},
	}
	for i := range settings.Levels {
		settings.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	db, err := pebble.Open(filepath.Join(directory, "db"), settings)
	if err != nil {
		if errors.Is(err, os.ErrPermission) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("store %s: %w", directory, err)
		}
		return fmt.Errorf("store %s %w: %w", directory, ErrDamaged, err)
	}
	s.db = db
	value, closer, err := db.Get([]byte{prefixCounters})
	if errors.Is(err, pebble.ErrNotFound) {
		return nil
	}
	if err != nil {
		return errors.Join(fmt.Errorf("store %s %w: %w", directory, ErrDamaged, err), db.Close())
	}
	s.counters, err = decodeCounters(value)
	if err = errors.Join(err, closer.Close()); err != nil {
		return errors.Join(fmt.Errorf("store %s %w: counters: %w", directory, ErrDamaged, err), db.Close())
	}
	return nil
}

// prepare makes the directory, locks it and looks at its format.
func (s *Store) prepare() error {
	directory := s.options.Directory
	if s.options.ReadOnly {
		if _, err := os.Stat(filepath.Join(directory, "FORMAT")); err != nil {
			return fmt.Errorf("store %s: there is no store: %w", directory, err)
		}
	} else if err := os.MkdirAll(directory, 0o700); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(directory, "receiver.lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	s.lock = lock
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		holder := make([]byte, 20)
		n, _ := lock.ReadAt(holder, 0) // the name of the holder is for people; without it the message says less
		return fmt.Errorf("store %s %w by pid %s", directory, ErrInUse, strings.TrimSpace(string(holder[:n])))
	}
	if err := errors.Join(lock.Truncate(0), writeAt(lock, strconv.Itoa(os.Getpid())+"\n")); err != nil {
		return fmt.Errorf("store %s: %w", directory, err)
	}
	return s.checkFormat(filepath.Join(directory, "FORMAT"))
}

func writeAt(file *os.File, text string) error {
	_, err := file.WriteAt([]byte(text), 0)
	return err
}

func (s *Store) checkFormat(path string) error {
	content, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return s.writeFormat(path)
	}
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	var found description
	if err := json.Unmarshal(content, &found); err != nil {
		return fmt.Errorf("store %s %w: %s: %w", s.options.Directory, ErrDamaged, path, err)
	}
	if found.Format > Format {
		return fmt.Errorf("store %s %w: it has format %d, this program knows up to %d", s.options.Directory, ErrNewer, found.Format, Format)
	}
	return nil
}

// writeFormat makes the file whole or not at all.
func (s *Store) writeFormat(path string) error {
	content, err := json.Marshal(description{Format: Format, Created: s.options.Now().UTC()})
	if err != nil {
		return err
	}
	file, err := os.OpenFile(path+".new", os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	_, err = file.Write(append(content, '\n'))
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	directory, err := os.Open(filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	return errors.Join(directory.Sync(), directory.Close())
}

func (s *Store) unlock() error {
	if s.lock == nil {
		return nil
	}
	return s.lock.Close()
}

// Close waits for what is being written and closes the store. Batches that wait are refused.
func (s *Store) Close() error {
	var err error
	s.closing.Do(func() {
		close(s.stop)
		<-s.stopped
		err = errors.Join(s.db.Close(), s.unlock())
	})
	return err
}

// Counters counts since the store was made.
func (s *Store) Counters() Counters {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.counters.Counters
}

// Reject counts records that were refused before they came to the store.
func (s *Store) Reject(ctx context.Context, records uint64) error {
	_, err := s.Append(ctx, Batch{Refused: records})
	return err
}

// Bytes is the size on disk.
func (s *Store) Bytes() uint64 { return s.db.Metrics().DiskSpaceUsage() }

// logger passes on what Pebble says. Fatalf is called where a write to the log of the database failed: nobody knows what is on disk then.
type logger struct{ log *slog.Logger }

// Infof tells what only those ask for who look for a fault.
func (l logger) Infof(format string, values ...any) { l.log.Debug(fmt.Sprintf(format, values...)) }

// Errorf tells what went wrong and goes on.
func (l logger) Errorf(format string, values ...any) { l.log.Error(fmt.Sprintf(format, values...)) }

// Fatalf ends the process.
func (l logger) Fatalf(format string, values ...any) {
	l.log.Error("the store cannot be written: the process ends, and what was acknowledged is on disk", "error", fmt.Sprintf(format, values...))
	os.Exit(1)
}
